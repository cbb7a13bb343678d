"""Rows a second of several processes on one audit log: all on one chain, as before there were more, or each on its own.

By itself: `python -m benchmarks.chains` measures SQLite; with the URL of an empty PostgreSQL database that, too.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

from aggregator.audit.capture import Capture
from aggregator.audit.rows import RowMaker
from aggregator.domain.call_record import TOOL_CALL, CalledItem, CallRecord, RecordedCaller, Stage, TraceContext
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.database import open_database

PROCESSES: Final = 3
# What a replica writes in one transaction: of strict calls, and of a group commit.
_BATCHES: Final = (8, 100)


async def _write(url: str, chain: int, batch: int, seconds: float) -> int:
    """Write rows into a chain for so long; returns how many."""
    maker, written = RowMaker(Capture("none", lambda value: value, 2**16)), 0
    async with open_database(url) as database:
        database.audit.write_chain(partial(int, chain))
        await database.audit.append(ChainBatch([maker.row(_call(chain, 0))]))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            await database.audit.append(ChainBatch([maker.row(_call(chain, written + n)) for n in range(batch)]))
            written += batch
    return written


def _call(chain: int, number: int) -> CallRecord:
    return CallRecord(
        trace=TraceContext(f"{chain:016x}{number:016x}", f"{number:016x}"),
        started=time.time(),
        caller=RecordedCaller("shop", "http"),
        asked_name="crm.list_orders",
        called=CalledItem(TOOL_CALL, "crm", "crm.list_orders", "list_orders"),
        duration=0.0125,
        steps=[Stage("upstream", 0.0001, 0.012)],
        arguments={"page": number},
        result={"content": [{"type": "text", "text": "one order"}]},
    )


def measure(url: str, own: bool, batch: int, seconds: float) -> float:
    """Return how many rows a second the processes write together, each into its own chain or all into one."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chains", url, "--chain", str(number * own), "--batch", str(batch),
             "--seconds", str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    written = 0
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in started:
        said, _ = one.communicate()
        written += int(said)
    return written / seconds


def main() -> None:
    """Print a line for each size of a transaction, or write as one of the processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chains", description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--chain", type=int)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.chain is not None:
        print(asyncio.run(_write(given.url, given.chain, given.batch, given.seconds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for url in (f"sqlite+aiosqlite:///{Path(folder) / 'a.db'}", *([given.url] if given.url else [])):
            for batch in _BATCHES:
                pairs = [
                    [measure(url, own, batch, given.seconds) for own in (False, True)] for _ in range(given.rounds)
                ]
                one, own = (sorted(values)[len(values) // 2] for values in zip(*pairs, strict=True))
                ratio = sorted(after / before for before, after in pairs)[len(pairs) // 2]
                said = f"{url.partition(':')[0]}, {PROCESSES} processes, {batch} rows a transaction"
                print(
                    f"{said}: one chain {one:,.0f} rows/s, own chains {own:,.0f} rows/s, ratio {ratio:.2f}", flush=True
                )


if __name__ == "__main__":
    main()
