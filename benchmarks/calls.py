"""Calls: latency and calls per second, the systems in turns, so that what disturbs one round disturbs them all."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.load import MARK
from benchmarks.messages import Era
from benchmarks.report import Table
from benchmarks.systems import (
    ECHO,
    ROOT,
    Rivals,
    System,
    aggregator_over_http,
    aggregator_over_stdio,
    echo_over_http,
    echo_server,
    fastmcp_over_http,
    fastmcp_over_stdio,
    lazy_mcp_over_http,
    lazy_mcp_over_stdio,
    write_config,
)

ERAS: Final[tuple[Era, ...]] = ("legacy", "modern")
IN_FLIGHT: Final = (1, 16)
WARM_UP: Final = 0.4

# What lazy-mcp wraps a call into.
_LAZY: Final = {"server": "echo", "command_name": "echo"}


class Loader:
    """The load process of one system, idle between rounds."""

    def __init__(self, system: System) -> None:
        self.system = system
        spec = {
            "era": system.era,
            "tool": system.tool,
            "arguments": system.arguments,
            "url": system.url,
            "command": list(system.command),
            "key": system.key,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load", json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._line()

    def round(self, in_flight: int, seconds: float) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{in_flight} {seconds}\n")
        self._process.stdin.flush()
        measured: dict[str, float] = json.loads(self._line())
        return measured

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.kill()
            raise RuntimeError(f"{self.system.name} ({self.system.era}) could not be called")
        return line


def measure(folder: Path, rivals: Rivals, rounds: int, seconds: float) -> Iterator[Table]:
    """One table per pair of transports; the first system of each is the upstream itself."""
    with _http_to_stdio(folder, rivals) as systems:
        yield compare("Calls, HTTP host -> stdio upstream", systems, rounds, seconds)
    with _http_to_http(folder, rivals) as systems:
        yield compare("Calls, HTTP host -> HTTP upstream", systems, rounds, seconds)
    yield compare("Calls, stdio host -> stdio upstream", _stdio_to_stdio(folder, rivals), rounds, seconds)


@contextmanager
def _http_to_stdio(folder: Path, rivals: Rivals) -> Iterator[list[System]]:
    config = write_config(folder, {"echo": echo_server()})
    with ExitStack() as stack:
        systems = [System("direct (stdio)", "echo", command=ECHO)]
        systems += _aggregators(stack, folder, rivals, {"echo": echo_server()})
        if rivals.fastmcp is not None:
            url, _ = stack.enter_context(fastmcp_over_http(rivals.fastmcp, config))
            systems.append(fastmcp(url=url))
        if rivals.lazy_mcp is not None:
            url, _ = stack.enter_context(lazy_mcp_over_http(rivals.lazy_mcp, folder))
            systems.append(lazy(url=url))
        yield systems


@contextmanager
def _http_to_http(folder: Path, rivals: Rivals) -> Iterator[list[System]]:
    with ExitStack() as stack:
        upstream = stack.enter_context(echo_over_http())
        servers = {"echo": {"type": "http", "url": upstream}}
        config = write_config(folder, servers)
        systems = [System("direct (HTTP)", "echo", url=upstream), *_aggregators(stack, folder, rivals, servers)]
        if rivals.fastmcp is not None:
            url, _ = stack.enter_context(fastmcp_over_http(rivals.fastmcp, config))
            systems.append(fastmcp(url=url))
        yield systems


def _stdio_to_stdio(folder: Path, rivals: Rivals) -> list[System]:
    config = write_config(folder, {"echo": echo_server()})
    systems = [System("direct (stdio)", "echo", command=ECHO)]
    for name, program in rivals.programs.items():
        own = write_config(own_folder(folder, name), {"echo": echo_server()})
        systems += _aggregator(name, command=aggregator_over_stdio(own, program))
    if rivals.fastmcp is not None:
        systems.append(fastmcp(command=fastmcp_over_stdio(rivals.fastmcp, config)))
    if rivals.lazy_mcp is not None:
        systems.append(lazy(command=lazy_mcp_over_stdio(rivals.lazy_mcp, folder)))
    return systems


def _aggregators(stack: ExitStack, folder: Path, rivals: Rivals, servers: Mapping[str, Any]) -> list[System]:
    systems = []
    for name, program in rivals.programs.items():
        config = write_config(own_folder(folder, name), servers)
        url, _ = stack.enter_context(aggregator_over_http(config, program=program))
        systems += _aggregator(name, url=url)
    return systems


def own_folder(folder: Path, name: str) -> Path:
    """Return a folder with a database of its own: that of a newer checkout cannot be used by an older one."""
    own = folder / name.replace("/", "-")
    own.mkdir(exist_ok=True)
    return own


def _aggregator(name: str, **where: Any) -> list[System]:
    return [System(name, "echo.echo", era=era, **where) for era in ERAS]


def fastmcp(**where: Any) -> System:
    """Return FastMCP's proxy as a system."""
    # The older era only: it speaks to an upstream in the era it is spoken to, and ours is of the older ones.
    return System("FastMCP proxy", "echo_echo", **where)


def lazy(**where: Any) -> System:
    """Return lazy-mcp as a system."""
    return System("lazy-mcp", "invoke_command", arguments={**_LAZY, "parameters": {"text": MARK}}, **where)


def compare(name: str, systems: Sequence[System], rounds: int, seconds: float, base: str = "direct") -> Table:
    """The systems in turns, each held against the first of them, which the columns call `base`."""
    loaders = [Loader(system) for system in systems]
    try:
        for loader in loaders:
            for in_flight in IN_FLIGHT:
                loader.round(in_flight, WARM_UP)
        taken: dict[tuple[int, int], list[dict[str, float]]] = {}
        for _ in range(rounds):
            for in_flight in IN_FLIGHT:
                for at, loader in enumerate(loaders):
                    taken.setdefault((in_flight, at), []).append(loader.round(in_flight, seconds))
    finally:
        for loader in loaders:
            loader.close()
    rows = [
        _row(system, in_flight, taken[in_flight, at], taken[in_flight, 0])
        for in_flight in IN_FLIGHT
        for at, system in enumerate(systems)
    ]
    heads = ("in flight", "system", "era", "p50 ms", "p95 ms", "calls/s", "spread", f"of {base}", "added p50 ms")
    return Table(f"{name} ({rounds} rounds of {seconds:g} s each)", heads, rows)


def _row(system: System, in_flight: int, taken: list[dict[str, float]], direct: list[dict[str, float]]) -> list[str]:
    """Medians over the rounds; ratios and differences are taken within each round first."""
    rates = [one["calls"] / one["seconds"] for one in taken]
    shares = [rate / (d["calls"] / d["seconds"]) for rate, d in zip(rates, direct, strict=True)]
    added = [one["p50"] - d["p50"] for one, d in zip(taken, direct, strict=True)]
    median = statistics.median
    return [
        str(in_flight),
        system.name,
        system.era,
        f"{median(one['p50'] for one in taken) * 1e3:.2f}",
        f"{median(one['p95'] for one in taken) * 1e3:.2f}",
        f"{median(rates):,.0f}",
        f"{min(rates):,.0f}-{max(rates):,.0f}",
        f"{median(shares):.3f}",
        f"{median(added) * 1e3:.2f}",
    ]
