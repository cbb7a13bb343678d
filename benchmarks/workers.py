"""Workers: calls a second, processor time and memory of `aggregator serve` with 1, 2 and 4 processes. Linux only."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.calls import Loader
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, System, aggregator_over_http, echo_server, write_config

COUNTS: Final = (1, 2, 4)
IN_FLIGHT: Final = 32
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MIB: Final = 1024


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """Yield the table: each number of workers on a database of its own, with the audit on, in turns."""
    with ExitStack() as stack:
        systems, starts = {}, {}
        for count in COUNTS:
            own = folder / f"workers-{count}"
            own.mkdir()
            config = write_config(own, {"echo": echo_server()})
            began = time.perf_counter()
            url, pid = stack.enter_context(aggregator_over_http(config, program=AGGREGATOR, options=_options(count)))
            starts[count] = time.perf_counter() - began
            loader = Loader(System(f"{count} workers", "echo.echo", url=url))
            stack.callback(loader.close)
            systems[count] = (loader, pid)
        time.sleep(3 * seconds)
        found: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
        for _ in range(rounds):
            for count, (loader, pid) in systems.items():
                before = _processor_time(pid, count)
                took = loader.round(IN_FLIGHT, seconds)
                took["cpu"] = (_processor_time(pid, count) - before) / took["calls"]
                found[count].append(took)
        rows = []
        for count, (_, pid) in systems.items():
            rates = [one["calls"] / one["seconds"] for one in found[count]]
            ratios = [mine / alone["calls"] * alone["seconds"] for mine, alone in zip(rates, found[1], strict=True)]
            rows.append(
                [
                    str(count),
                    f"{median(rates):,.0f}",
                    f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                    f"{median(one['p95'] for one in found[count]) * 1e3:.1f}",
                    f"{median(one['cpu'] for one in found[count]) * 1e6:.0f}",
                    f"{sum(map(_own_memory, _processes(pid, count))):.0f}",
                    f"{starts[count]:.1f}",
                ]
            )
    heads = ("workers", "calls/s", "of one", "p95, ms", "CPU a call, µs", "memory, MiB (PSS)", "listens after, s")
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    yield Table(f"Workers, {IN_FLIGHT} in flight, {os.cpu_count()} cores, load {load}", heads, rows)


def _options(count: int) -> tuple[str, ...]:
    return ("--workers", str(count)) if count > 1 else ()


def _processes(pid: int, count: int) -> list[int]:
    """Return the aggregator's own processes: the one that was started, and its workers."""
    if count == 1:
        return [pid]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [pid, *map(int, children.split())]


def _processor_time(pid: int, count: int) -> float:
    """Return the seconds of processor time that they have used."""
    ticks = 0
    for process in _processes(pid, count):
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _own_memory(pid: int) -> float:
    """Return the memory of one process in MiB; what it shares counts in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / _MIB
    raise RuntimeError(f"no such process: {pid}")
