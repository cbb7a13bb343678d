"""A chaos run of minutes with the harness of `tests/chaos`, and the resources that are still in use afterwards."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.report import Table
from tests.chaos.chaos_run import ChaosRun, Outcome

# Calls of each worker in one half of a round: a round is some ten seconds.
CALLS: Final = 40
_MIB: Final = 2**20


def measure(folder: Path, minutes: float, seed: int) -> Iterator[Table]:
    """Run the chaos run; report the calls, their outcomes, and the growth of resources."""
    # What goes wrong here is meant to.
    logging.basicConfig(level=logging.CRITICAL)
    until = time.monotonic() + minutes * 60
    outcome = asyncio.run(ChaosRun(seed, folder, CALLS).run(lambda done: time.monotonic() >= until))
    yield _calls(outcome, minutes)
    yield _growth(outcome)
    yield _latency(outcome)
    for problem in outcome.ledger.problems[:20]:
        print(f"PROBLEM: {problem}")


def _calls(outcome: Outcome, minutes: float) -> Table:
    ledger = outcome.ledger
    done_to = sum(count for kind, count in ledger.faults.items() if kind != "none")
    rows = [
        ["calls", f"{ledger.made:,}"],
        ["faults", f"{done_to:,}: " + ", ".join(f"{kind} {count}" for kind, count in sorted(ledger.faults.items()))],
        ["ends", ", ".join(f"{end} {count:,}" for end, count in ledger.ends.most_common())],
        ["answers lost, doubled or wrong", str(len(ledger.problems))],
        ["calls without exactly one row", str(len(outcome.unrecorded()))],
        ["rows in the audit", f"{outcome.rows.total():,}"],
        ["upstreams that came back", ", ".join(outcome.back)],
    ]
    return Table(f"Soak of {minutes:g} minutes, seed {outcome.seed}", ("what", "figure"), rows)


def _growth(outcome: Outcome) -> Table:
    quiets = outcome.quiets
    at = sorted({0, len(quiets) // 4, len(quiets) // 2, 3 * len(quiets) // 4, len(quiets) - 1})
    rows = [
        [
            f"{number + 1} of {len(quiets)}",
            f"{quiets[number].memory / _MIB:.1f}",
            str(quiets[number].descriptors),
            str(quiets[number].tasks),
            f"{quiets[number].objects.total():,}",
        ]
        for number in at
    ]
    grown = (quiets[-1].objects - quiets[0].objects).most_common(5)
    rows.append(["grew most", *[""] * 3, ", ".join(f"{kind.rpartition('.')[2]} {more}" for kind, more in grown)])
    heads = ("quiet moment", "RSS, MiB", "descriptors", "tasks", "objects of the aggregator and asyncio")
    return Table("Growth: product, hosts and HTTP upstreams are one process", heads, rows)


def _latency(outcome: Outcome) -> Table:
    rows = []
    for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        calm, stormy = outcome.quantiles(part)
        rows.append([name, f"{calm * 1e3:.1f}", f"{stormy * 1e3:.1f}", f"{stormy / calm:.2f}"])
    heads = ("calls of healthy upstreams", "calm, ms", "in the storm, ms", "ratio")
    return Table(f"Latency, {len(outcome.calm):,} and {len(outcome.stormy):,} calls", heads, rows)
