"""A chaos run in a process of its own: the servers that other tests keep in a background thread use descriptors too.

`python -m tests.chaos.own_process SEED CALLS ROUNDS FOLDER`, by `run_chaos` alone; the outcome is a file in the folder.
"""

import asyncio
import gc
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.chaos.chaos_run import ChaosRun, Outcome, descriptors
from tests.peers.processes import child_commands, is_alive

_ROOT: Final = Path(__file__).parents[2]
_OUTCOME: Final = "outcome.pickle"
# The run takes seconds; pytest ends a test after 120.
_BOUND: Final = 100.0


def run_chaos(seed: int, folder: Path, calls: int, rounds: int) -> Outcome:
    """Return the outcome of a run that left no task, process, descriptor or unclosed transport behind."""
    numbers = [str(number) for number in (seed, calls, rounds)]
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.chaos.own_process", *numbers, str(folder)],
        cwd=_ROOT,
        timeout=_BOUND,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-5_000:]
    assert "Exception ignored" not in ended.stderr, ended.stderr[-5_000:]
    outcome: Outcome = pickle.loads((folder / _OUTCOME).read_bytes())  # noqa: S301
    return outcome


async def _run(seed: int, folder: Path, calls: int, rounds: int) -> Outcome:
    tasks, offspring, open_files = len(asyncio.all_tasks()), child_commands(), descriptors()
    outcome = await ChaosRun(seed, folder, calls).run(lambda done: done >= rounds)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks, asyncio.all_tasks()
    assert child_commands() == offspring, child_commands()
    assert descriptors() <= open_files, (descriptors(), open_files)
    assert outcome.pids
    assert not [pid for pid in outcome.pids if is_alive(pid)]
    return outcome


def main() -> None:
    """Write the outcome of one run; fail if it leaves anything behind."""
    seed, calls, rounds = map(int, sys.argv[1:4])
    folder = Path(sys.argv[4])
    outcome = asyncio.run(_run(seed, folder, calls, rounds))
    # What was not closed is reported here, on stderr.
    gc.collect()
    (folder / _OUTCOME).write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
