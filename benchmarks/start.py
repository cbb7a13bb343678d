"""Start: how soon a stdio host is answered, and how soon the list it gets is whole."""

import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.host import StdioHost, list_tools
from benchmarks.report import Table
from benchmarks.systems import (
    Rivals,
    aggregator_over_http,
    aggregator_over_stdio,
    echo_server,
    fastmcp_over_stdio,
    write_config,
)

UPSTREAMS: Final = (0, 1, 32)
READY_PATH: Final = "/readyz"


def measure(folder: Path, rivals: Rivals, rounds: int) -> Iterator[Table]:
    """Yield the medians of `rounds` fresh processes each: over stdio, and of each aggregator in turns."""
    yield _over_stdio(folder, rivals, rounds)
    yield _in_turns(folder, rivals, rounds)


def _in_turns(folder: Path, rivals: Rivals, rounds: int) -> Table:
    ways: dict[str, Callable[[Path, Sequence[str]], float]] = {
        "`--help`": lambda _, program: _run([*program, "--help"], 1)[0],
        "`stdio`: initialize answered": lambda config, program: _start(aggregator_over_stdio(config, program), 0)[0],
        "`serve`: ready": _serve,
    }
    configs = {name: _config_of(folder / f"turns-{at}") for at, name in enumerate(rivals.programs)}
    taken: dict[tuple[str, str], list[float]] = {}
    # The first round makes the databases, and the bytecode where it may be written.
    for turn in range(rounds + 1):
        for way, measured in ways.items():
            for name, program in rivals.programs.items():
                seconds = measured(configs[name], program)
                if turn:
                    taken.setdefault((way, name), []).append(seconds)
    rows = [[way, *(_seconds(taken[way, name]) for name in rivals.programs)] for way in ways]
    return Table(f"Start, in turns (median of {rounds}, and the range), s", ("until", *rivals.programs), rows)


def _config_of(folder: Path) -> Path:
    folder.mkdir()
    return write_config(folder, {})


def _serve(config: Path, program: Sequence[str]) -> float:
    began = time.perf_counter()
    with aggregator_over_http(config, program=program) as (url, _):
        while True:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
            connection.request("GET", READY_PATH)
            status = connection.getresponse().status
            connection.close()
            if status == HTTPStatus.OK:
                return time.perf_counter() - began
            time.sleep(0.005)


def _over_stdio(folder: Path, rivals: Rivals, rounds: int) -> Table:
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
