"""Calls with each gateway and its stdio upstream on one core, and the load and the HTTP upstream on another.

The systems take turns, each with its audit on; each figure is held against that of relay A in the same round.
"""

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from aggregator.identity.keys import new_key, policy_line
from benchmarks.calls import IN_FLIGHT, Loader, fastmcp, lazy, own_folder
from benchmarks.host import HttpHost
from benchmarks.load import MARK, NUMBER
from benchmarks.messages import headers, request
from benchmarks.report import Table
from benchmarks.systems import (
    HERE,
    Rivals,
    System,
    aggregator_over_http,
    echo_over_http,
    echo_server,
    fastmcp_over_http,
    lazy_mcp_over_http,
    relay_over_http,
    write_config,
)

STDIO: Final = "HTTP to stdio"
HTTP: Final = "HTTP to HTTP"
AGGREGATOR: Final = "aggregator"
RELAY_A: Final = "relay A"
HEADS: Final = (
    *("transports", "in flight", "system", "era", "calls/s", "spread", "p50 ms", "p99 ms", "CPU µs"),
    *("calls/s of A", "p50 of A", "p99 of A", "CPU of A", "CPU of direct"),
)

# Servers behind the gateway where models call through meta tools.
SERVERS: Final = (1, 93)

_POLICY: Final = "agents:\n  local: { allow: [server:*] }\n"
# A call of the tool by its name: the other ways are held against it, too.
DIRECT: Final = "direct"
# What a gateway of its own is told, by way: the rules of the agent, and those of all.
_RULES: Final[Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]] = {
    "a key and limits": ({"limits": {"*": {"per_minute": 100_000_000, "concurrent": 1_000}}}, {}),
    "flow rules": (
        {},
        {
            "labels": {"private": ["other.*"], "outward": ["echo.*"]},
            "flow": [{"after": "private", "calls": "outward", "then": "deny"}],
        },
    ),
}
# By way: a meta tool and its arguments. The answer holds `MARK`: as what the tool was given, or in its description.
# `NUMBER` makes each query another one: answers to the last few are kept.
_META_TOOLS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "call_tool": ("call_tool", {"name": "echo.echo", "arguments": {"text": MARK}}),
    "call_tool, spelled": ("call_tool", {"name": "mcp__aggregator__echo__echo", "arguments": {"text": MARK}}),
    "search_tools": ("search_tools", {"query": MARK}),
    "search_tools anew": ("search_tools", {"query": f"{MARK} {NUMBER}"}),
}
_WARM_UP: Final = 1.0
# A process is quiet when it takes less than a fiftieth of a core; it has so long to become so.
_QUIET: Final = 0.02
_PAUSE: Final = 0.15
_PATIENCE: Final = 10.0


class Load(Protocol):
    """What calls one system: a round gives `calls`, `seconds`, `p50` and `p99`."""

    def round(self, in_flight: int, seconds: float) -> dict[str, float]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that runs, its process, and the load on it."""

    system: System
    pid: int
    load: Load


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one system: calls per second; seconds until half the answers were there, and until 99 of 100 were;
    processor time a call.
    """

    rate: float
    p50: float
    p99: float
    processor: float


class Wrk:
    """The program `wrk`, started for each round."""

    def __init__(self, system: System) -> None:
        assert system.url is not None
        self._name = f"{system.name} ({system.era})"
        self._url = system.url
        session = None
        if system.era == "legacy":
            host = HttpHost(system.url)
            host.initialize()
            host.close()
            session = host.session
        params = {"name": system.tool, "arguments": system.arguments}
        # In place of the id, which the script puts in.
        body = request(system.era, 0, "tools/call", params).decode().replace('"id":0', '"id":%d', 1)
        lines = headers(system.era, "tools/call", params, session)
        if system.key is not None:
            lines["authorization"] = f"Bearer {system.key}"
        self._args = [MARK, body, *(part for line in lines.items() for part in line)]

    def round(self, in_flight: int, seconds: float) -> dict[str, float]:
        # The slowest systems need more than a second for an answer to 16 calls.
        for longer in (1, 4, 16):
            said = self._run(in_flight, max(1, round(seconds)) * longer)
            if said["wrong"]:
                raise RuntimeError(f"{self._name}: {said['wrong']:.0f} wrong answers, {said['calls']:.0f} in all")
            if said["calls"]:
                return said
        raise RuntimeError(f"{self._name} does not answer")

    def _run(self, in_flight: int, seconds: int) -> dict[str, float]:
        """Run it; it knows whole seconds only."""
        options = ["-t1", f"-c{in_flight}", f"-d{seconds}", "--timeout", "30", "-s", str(HERE / "wrk.lua")]
        command = ["wrk", *options, self._url, "--", *self._args]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return said

    def close(self) -> None:
        """Nothing runs between rounds."""


def measure(folder: Path, rivals: Rivals, rounds: int, seconds: float) -> Table:
    """Of both kinds of upstream: the figures of each system, and their ratios to those of relay A."""
    here, there = two_cores()
    load = "wrk" if shutil.which("wrk") else "benchmarks/load.py"
    rows = []
    for transports, upstream in ((STDIO, _stdio()), (HTTP, _http(there))):
        place = folder / transports.replace(" ", "-")
        place.mkdir()
        with upstream as servers, ExitStack() as stack:
            with on_core(here):
                gateways = list(_gateways(stack, place, rivals, servers))
            with on_core(there):
                running = [Running(system, pid, _load(system)) for system, pid in gateways]
                taken = _in_turns(running, rounds, seconds)
        rows += [[transports, *row] for row in _rows([one.system for one in running], taken)]
    for count in SERVERS:
        rows += _through_meta_tools(folder, count, rounds, seconds)
    title = f"Pinned calls, load by {load} ({rounds} rounds of {seconds:g} s each)"
    return Table(title, HEADS, rows)


def _through_meta_tools(folder: Path, servers: int, rounds: int, seconds: float) -> Iterator[list[str]]:
    """Of calls of meta tools: the figures, and their ratios to those of relay A, which is called directly."""
    here, there = two_cores()
    place = folder / f"meta-{servers}"
    place.mkdir()
    entries = {"echo": echo_server("marked"), **{f"other{number}": echo_server() for number in range(1, servers)}}
    with ExitStack() as stack:
        with on_core(here):
            relay = _relay(stack, place, "A", {"echo": echo_server()})
            own = own_folder(place, AGGREGATOR)
            (own / "policies").mkdir()
            (own / "policies" / "main.yaml").write_text(_POLICY)
            url, pid = stack.enter_context(aggregator_over_http(write_config(own, entries)))
            ways = {DIRECT: (System(AGGREGATOR, "echo.echo", era="modern", url=url), pid)}
            for way, (tool, arguments) in _META_TOOLS.items():
                ways[way] = System(AGGREGATOR, tool, era="modern", url=url, arguments=arguments), pid
            if servers == 1:
                there_is = url.removesuffix("/mcp")
                ways["/v1"] = System(AGGREGATOR, "echo.echo", era="v1", url=f"{there_is}/v1/tool_calls"), pid
                ways |= {way: _with_rules(stack, place, way, entries) for way in _RULES}
        with on_core(there):
            running = [Running(system, of, _load(system)) for system, of in (relay, *ways.values())]
            taken = _in_turns(running, rounds, seconds)
    # Calls in flight, one after the other, of relay A and of each way.
    names = ["", *(f"{way}, {servers} servers" if servers > 1 else f"{way}, 1 server" for way in ways)]
    rows = _rows([one.system for one in running], taken, direct=1)
    for name, row in zip(names * len(IN_FLIGHT), rows, strict=True):
        if name:
            yield [name, *row]


def _with_rules(stack: ExitStack, folder: Path, way: str, servers: Mapping[str, Any]) -> tuple[System, int]:
    """Start a gateway whose agent has a key, and the rules of a way."""
    own, key = own_folder(folder, way.replace(" ", "-")), new_key("local", now=time.time())
    of_agent, of_all = _RULES[way]
    agent = {"allow": ["server:*"], "keys": [policy_line(key.record)], **of_agent}
    (own / "policies").mkdir()
    (own / "policies" / "main.yaml").write_text(json.dumps({"agents": {"local": agent}, **of_all}))
    url, pid = stack.enter_context(aggregator_over_http(write_config(own, servers)))
    return System(AGGREGATOR, "echo.echo", era="modern", url=url, key=key.text), pid


def two_cores() -> tuple[int, int]:
    """Return the core of the gateways, and that of all else.

    Raises:
        RuntimeError: there is only one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise RuntimeError("two cores are needed: one for the gateway, one for the load")
    return cores[0], cores[1]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Let the programs that are started here run on one core, with all that they start."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _stdio() -> Iterator[Mapping[str, Any]]:
    yield {"echo": echo_server()}


@contextmanager
def _http(core: int) -> Iterator[Mapping[str, Any]]:
    with ExitStack() as stack:
        with on_core(core):
            url = stack.enter_context(echo_over_http())
        yield {"echo": {"type": "http", "url": url}}


def _gateways(
    stack: ExitStack, folder: Path, rivals: Rivals, servers: Mapping[str, Any]
) -> Iterator[tuple[System, int]]:
    """Start every system, each with a folder of its own; gives the process of each too."""
    # The systems to be compared stand beside relay A: so they have the same minute of the machine.
    yield _relay(stack, folder, "A", servers)
    for name, program in rivals.programs.items():
        place = own_folder(folder, name)
        (place / "policies").mkdir()
        (place / "policies" / "main.yaml").write_text(_POLICY)
        url, pid = stack.enter_context(aggregator_over_http(write_config(place, servers), program=program))
        modern = System(name, "echo.echo", era="modern", url=url)
        yield modern, pid
        yield replace(modern, era="legacy"), pid
    yield _relay(stack, folder, "B", servers)
    if rivals.fastmcp is not None:
        place = own_folder(folder, "fastmcp")
        url, pid = stack.enter_context(fastmcp_over_http(rivals.fastmcp, write_config(place, servers)))
        yield fastmcp(url=url), pid
    if rivals.lazy_mcp is not None and "command" in servers["echo"]:
        url, pid = stack.enter_context(lazy_mcp_over_http(rivals.lazy_mcp, own_folder(folder, "lazy-mcp")))
        yield lazy(url=url), pid


def _relay(stack: ExitStack, folder: Path, letter: str, servers: Mapping[str, Any]) -> tuple[System, int]:
    name = f"relay {letter}"
    config = write_config(own_folder(folder, name), servers)
    url, pid = stack.enter_context(relay_over_http(letter.lower(), config))
    return System(name, "echo.echo", era="modern", url=url), pid


def _load(system: System) -> Load:
    return Wrk(system) if shutil.which("wrk") else Loader(system)


def _in_turns(running: Sequence[Running], rounds: int, seconds: float) -> dict[tuple[int, int], list[Measured]]:
    """Measure by calls in flight and place of the system."""
    taken: dict[tuple[int, int], list[Measured]] = {}
    try:
        for one in running:
            for in_flight in IN_FLIGHT:
                one.load.round(in_flight, _WARM_UP)
        for _ in range(rounds):
            for in_flight in IN_FLIGHT:
                for at, one in enumerate(running):
                    taken.setdefault((in_flight, at), []).append(_round(one, in_flight, seconds))
    finally:
        for one in running:
            one.load.close()
    return taken


def _round(one: Running, in_flight: int, seconds: float) -> Measured:
    before = _when_quiet(one.pid)
    said = one.load.round(in_flight, seconds)
    # What a call leaves to be done later is a part of its cost.
    used = _when_quiet(one.pid) - before
    return Measured(said["calls"] / said["seconds"], said["p50"], said["p99"], used / said["calls"])


def _when_quiet(pid: int) -> float:
    """Return the processor time of a process once it has nothing left to do."""
    deadline = time.monotonic() + _PATIENCE
    used = processor_time(pid)
    while time.monotonic() < deadline:
        time.sleep(_PAUSE)
        before, used = used, processor_time(pid)
        if used - before < _QUIET * _PAUSE:
            return used
    raise RuntimeError(f"process {pid} does not become quiet")


def processor_time(pid: int) -> float:
    """Return the seconds that all threads of a process have run, also those that ended; its children not counted."""
    # The clock of another process, as clock_getcpuclockid(3) has it.
    return time.clock_gettime((~pid << 3) | 2)


def _rows(
    systems: Sequence[System], taken: Mapping[tuple[int, int], list[Measured]], direct: int | None = None
) -> Iterator[list[str]]:
    """Medians over the rounds; ratios are taken within each round first. `direct`: the place of the direct call."""
    median = statistics.median
    base = [system.name for system in systems].index(RELAY_A)
    for in_flight in IN_FLIGHT:
        for at, system in enumerate(systems):
            own = taken[in_flight, at]
            rates = [one.rate for one in own]
            pairs = list(zip(own, taken[in_flight, base], strict=True))
            plain = list(zip(own, taken[in_flight, direct], strict=True)) if direct is not None and at != base else []
            yield [
                str(in_flight),
                system.name,
                system.era,
                f"{median(rates):,.0f}",
                f"{min(rates):,.0f}-{max(rates):,.0f}",
                f"{median(one.p50 for one in own) * 1e3:.2f}",
                f"{median(one.p99 for one in own) * 1e3:.2f}",
                f"{median(one.processor for one in own) * 1e6:.0f}",
                f"{median(one.rate / a.rate for one, a in pairs):.3f}",
                f"{median(one.p50 / a.p50 for one, a in pairs):.3f}",
                f"{median(one.p99 / a.p99 for one, a in pairs):.3f}",
                f"{median(one.processor / a.processor for one, a in pairs):.3f}",
                f"{median(one.processor / other.processor for one, other in plain):.3f}" if plain else "",
            ]
