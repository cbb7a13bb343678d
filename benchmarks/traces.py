"""What it costs that every call leaves a trace: in this process alone, and in whole calls through the HTTP door."""

import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.app import App
from aggregator.audit.metrics_snapshot import Snapshot
from aggregator.config.load import load
from aggregator.domain.principal import Principal
from aggregator.domain.tasks import Tasks
from aggregator.gateway.host import Host
from aggregator.upstream.negotiate import Greeting
from benchmarks.calls import ERAS, compare
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, System, echo_server, free_port, started, write_config

# What is measured in this process: so many calls, with a pause for all else after each few.
_CALLS: Final = 2_000
_FEW: Final = 25
_TOOL: Final = {
    "name": "echo",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 1000}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["text"],
    },
}
_ARGUMENTS: Final = {"text": "a line of text, neither short nor long", "limit": 3}
_RESULT: Final[dict[str, Any]] = {"content": [{"type": "text", "text": "a line of text, neither short nor long"}]}
_SENT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACING: Final = {"OTEL_BSP_MAX_QUEUE_SIZE": "100000"}


@dataclass(frozen=True, slots=True)
class Kept:
    """What is made of every call."""

    name: str
    audit: str | None = None
    metrics: bool = False
    tracing: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"audit": {"enabled": self.audit is not None, "durability": self.audit or "default"}}


OFF: Final = Kept("off")
WAYS: Final = (
    OFF,
    Kept("audit", "default"),
    Kept("audit, metrics", "default", True),
    Kept("audit, metrics, tracing", "default", True, True),
    Kept("audit strict, metrics", "strict", True),
)


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """The parts of a call's own cost, then whole calls."""
    with _receiver() as url:
        yield asyncio.run(_in_process(folder, url, rounds))
        yield from _through_the_door(folder, url, rounds, seconds)


@contextmanager
def _receiver() -> Iterator[str]:
    """Takes spans and forgets them."""
    port = free_port()
    with started([sys.executable, "-m", "benchmarks.otlp_sink", str(port)], port):
        yield f"http://127.0.0.1:{port}"


# -- in this process


async def _in_process(folder: Path, url: str, rounds: int) -> Table:
    """Calls on the whole road of the gateway, to an upstream that answers at once: no socket, no JSON."""
    ways = [way for way in WAYS if way.audit != "strict"]
    taken: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
    for at in range(rounds + 1):
        for way in ways:
            place = folder / f"steps-{way.name.replace(', ', '-')}-{at}"
            place.mkdir()
            async with _running(place, way, url) as app:
                measured = await _round(app)
            # The first round warms up.
            if at:
                taken[way.name].append(measured)
    medians = {name: tuple(map(statistics.median, zip(*many, strict=True))) for name, many in taken.items()}
    loop, beside = medians[OFF.name]
    rows = [
        [name, f"{mine:.1f}", f"{mine - loop:+.1f}", f"{others:.1f}", f"{(mine + others) / (loop + beside):.2f}"]
        for name, (mine, others) in medians.items()
    ]
    heads = ("kept of every call", "event loop, µs", "more than off", "other threads, µs", "both, of off")
    return Table(f"Own cost of a call, processor time (median of {rounds} rounds of {_CALLS} calls)", heads, rows)


@asynccontextmanager
async def _running(place: Path, way: Kept, url: str) -> AsyncIterator[App]:
    policies = place / "policies"
    policies.mkdir()
    (policies / "main.yaml").write_text("agents:\n  shop: { allow: [echo.*], limits: { '*': { concurrent: 1000 } } }\n")
    path = write_config(place, {"echo": {"command": "never"}}, **way.settings)
    app = App(load(path, {}).config, policies, f"sqlite+aiosqlite:///{place / 'aggregator.db'}", caches=True)
    link = app.links["echo"]
    link.definitions, link.state = [_TOOL], "ready"
    link.greeting = Greeting("2025-11-25", {"tools": {}}, {}, None)

    async def answered(*_: Any) -> dict[str, Any]:
        return dict(_RESULT)

    link.call = answered  # type: ignore[method-assign, assignment]
    app.gateway.restock()
    if way.metrics:
        app.observing.count(Snapshot)
    os.environ.update({**_TRACING, _SENT: url} if way.tracing else {})
    try:
        async with app.observing.running(), Tasks("the gateway") as tasks:
            tasks.start(app.gateway.work())
            # The database is opened, and the schema compiled, before the clock runs.
            await _calls(app, 200)
            await _settled(app)
            yield app
            await tasks.cancel()
    finally:
        os.environ.pop(_SENT, None)


async def _round(app: App) -> tuple[float, float]:
    """Microseconds a call: of the thread of the event loop, and of all others; what is written is written by then."""
    gc.collect()
    mine, all_of_us = time.thread_time(), time.process_time()
    await _calls(app, _CALLS)
    await _settled(app)
    mine, all_of_us = time.thread_time() - mine, time.process_time() - all_of_us
    return mine / _CALLS * 1e6, (all_of_us - mine) / _CALLS * 1e6


async def _calls(app: App, count: int) -> None:
    host = Host("http", "canonical", Principal("shop"), "2025-11-25", session="one")
    way, params = _Way(), {"name": "echo.echo", "arguments": _ARGUMENTS}
    for number in range(count):
        answer = await app.gateway.answer(host, "tools/call", dict(params), way)
        assert "isError" not in answer, answer
        if number % _FEW == 0:
            await asyncio.sleep(0)


async def _settled(app: App) -> None:
    """Return once nothing is on its way into the database or to the receiver."""
    audit, spans = app.observing.audit, app.observing.spans
    while audit is not None and audit.report()["waiting"]:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    if spans is not None:
        assert await spans.flush(30.0)


class _Way:
    """The way back of a call that nothing is said on."""

    request_id = 1

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Nobody listens."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nobody is asked")


# -- whole calls


def _through_the_door(folder: Path, url: str, rounds: int, seconds: float) -> Iterator[Table]:
    with ExitStack() as stack:
        urls = {way.name: stack.enter_context(_serving(folder, way, url)) for way in WAYS}
        for era in ERAS:
            systems = [System(way.name, "echo.echo", era=era, url=urls[way.name]) for way in WAYS]
            yield compare(f"Calls and what is kept of them, {era} era", systems, rounds, seconds, OFF.name)


@contextmanager
def _serving(folder: Path, way: Kept, url: str) -> Iterator[str]:
    """`aggregator serve` that keeps so much of its calls."""
    place = folder / f"door-{way.name.replace(', ', '-').replace(' ', '-')}"
    place.mkdir()
    config = write_config(place, {"echo": echo_server()}, **way.settings)
    port = free_port()
    program = AGGREGATOR if way.metrics else (sys.executable, "-m", "benchmarks.uncounted")
    variables = [f"{name}={value}" for name, value in ({**_TRACING, _SENT: url} if way.tracing else {}).items()]
    with started(["env", *variables, *program, "serve", "--config", str(config), "--port", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"
