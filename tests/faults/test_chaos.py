"""Everything at once, by a seed: upstreams die, hang, slow down, lie, flood, flap and come back while hosts call.

`AGGREGATOR_CHAOS_SEED=7 pytest tests/faults/test_chaos.py` has another storm, the same each time; so has
`python -m benchmarks soak`, for minutes.
"""

import os
from pathlib import Path

import pytest

from tests.chaos.chaos_run import FAULTS, WILD
from tests.chaos.own_process import run_chaos

SEED = int(os.environ.get("AGGREGATOR_CHAOS_SEED", "20260728"))
ROUNDS, CALLS = 2, 7


@pytest.fixture(autouse=True)
def _said(capsys: pytest.CaptureFixture[str]) -> None:
    print(f"AGGREGATOR_CHAOS_SEED={SEED}")


def test_every_call_has_one_end_and_nothing_is_left(tmp_path: Path) -> None:
    """Proves: C4, C11, D3, D7, D11, E4, A7, A8. One answer and one row for each call; no task, process, descriptor or
    memory is left; all upstreams are back; and those that nothing is wrong with are as quick as before the storm.
    """
    outcome = run_chaos(SEED, tmp_path, CALLS, ROUNDS)
    ledger = outcome.ledger
    assert ledger.problems == []
    assert outcome.unrecorded() == []
    assert outcome.rows.total() == sum(outcome.rows[name] for name in outcome.answered), "rows of calls nobody made"
    assert set(FAULTS) <= set(ledger.faults)
    assert sum(ledger.faults[kind] for kind in ("down", "killed", "frozen")) > ROUNDS
    assert ledger.ends["result"] > ledger.made / 2
    assert outcome.back == list(WILD)
    assert [busy for quiet in outcome.quiets for busy in quiet.busy] == []
    # A few connections more or less are open at any time; what every call left behind would be far more.
    grown = outcome.quiets[-1].objects - outcome.quiets[0].objects
    assert {kind: more for kind, more in grown.items() if more > ledger.made / 5} == {}
    # The longest a fault can take is 0.4 s: nothing of that may show where nothing is wrong. Both halves have the same
    # calls on the same machine; the factors are wide, since a busy machine may favour one of them.
    for part, factor in ((0.5, 5), (0.95, 10)):
        calm, stormy = outcome.quantiles(part)
        assert stormy < factor * calm
