"""Flow states against a reference model: random sequences in one process and in several, with clears and restarts."""

from pathlib import Path

import pytest

from tests.flow.sequences import Sequence


@pytest.mark.parametrize("seed", range(4))
async def test_in_memory_as_the_reference(seed: int) -> None:
    """One process without a database: to the very moment."""
    sequence = Sequence(None, 1, seed)
    await sequence.run(2_000)
    assert sequence.refusing > 100


@pytest.mark.parametrize(("processes", "seed"), [(1, 1), (2, 2), (3, 3)])
async def test_over_processes_as_the_reference(tmp_path: Path, processes: int, seed: int) -> None:
    """Processes on one database, which clear and start anew: never laxer, and stricter by a tenth of a time at most."""
    sequence = Sequence(f"sqlite+aiosqlite:///{tmp_path}/flow.db", processes, seed)
    await sequence.run(600)
    assert sequence.refusing > 30
