"""Start: how soon a stdio host is answered, and how soon the list it gets is whole."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.host import StdioHost, list_tools
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, Rivals, aggregator_over_stdio, echo_server, fastmcp_over_stdio, write_config

UPSTREAMS: Final = (0, 1, 32)


def measure(folder: Path, rivals: Rivals, rounds: int) -> Table:
    """Medians of `rounds` fresh processes each."""
    rows = []
    for upstreams in UPSTREAMS:
        config = write_config(folder, {f"echo{number}": echo_server() for number in range(upstreams)})
        systems = {"aggregator": aggregator_over_stdio(config)}
        if rivals.fastmcp is not None and upstreams:
            systems["FastMCP proxy"] = fastmcp_over_stdio(rivals.fastmcp, config)
        for name, command in systems.items():
            taken = [_start(command, upstreams) for _ in range(rounds)]
            rows.append([name, str(upstreams), *(_seconds(column) for column in zip(*taken, strict=True))])
    rows.append(["`python -c pass`, for comparison", "", _seconds(_run([sys.executable, "-c", "pass"], rounds)), ""])
    rows.append(["`aggregator --help`", "", _seconds(_run([*AGGREGATOR, "--help"], rounds)), ""])
    heads = ("system", "upstreams", "initialize answered or done, s", "first complete tools/list, s")
    return Table(f"Start over stdio (median of {rounds}, and the range)", heads, rows)


def _start(command: list[str], upstreams: int) -> tuple[float, float]:
    began = time.perf_counter()
    with StdioHost(command) as host:
        host.initialize()
        greeted = time.perf_counter() - began
        while len(list_tools(host)[0]) < upstreams:
            time.sleep(0.01)
        return greeted, time.perf_counter() - began


def _run(command: list[str], rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return taken


def _seconds(taken: list[float] | tuple[float, ...]) -> str:
    return f"{statistics.median(taken):.3f} ({min(taken):.3f}-{max(taken):.3f})"
