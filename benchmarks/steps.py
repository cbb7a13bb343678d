"""The aggregator's own cost of a call: processor time from message to answer, without sockets and programs.

Each way is a process of its own, and they take turns; so does another checkout, if there is one to compare with.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.domain.principal import Principal
from aggregator.frontends.server import WebServer
from aggregator.gateway.host import Host
from aggregator.identity.keys import new_key, policy_line
from aggregator.telemetry.snapshot import Snapshot
from benchmarks.fakes import CALL, RESULT, FakeHost, SilentChannel, fake_stdio_upstreams
from benchmarks.messages import ENVELOPE, LEGACY, MODERN, Era
from benchmarks.recording import OFF, SENT, Recording, receiver
from benchmarks.report import Table
from benchmarks.systems import ROOT, write_config

# In one round: so many calls, with a pause for all else after each few.
_CALLS: Final = 1_000
_FEW: Final = 25
_ERAS: Final[tuple[Era, ...]] = ("legacy", "modern")
# In its policy is a limit that each call is charged to.
LIMITED: Final = Recording("audit, metrics, a limit", "default", True)
VARIANTS: Final = (
    OFF,
    Recording("audit", "default"),
    Recording("audit, metrics", "default", True),
    LIMITED,
    Recording("audit, metrics, tracing", "default", True, True),
)

Call = Callable[[], Awaitable[object]]
Measured = dict[str, tuple[float, float]]
"""By road: microseconds a call of the thread of the event loop, and of all other threads."""


def measure(folder: Path, rounds: int, other: Path | None) -> Iterator[Table]:
    """Of this tree, and of another checkout beside it."""
    trees = [ROOT] if other is None else [ROOT, other.resolve()]
    with receiver() as url, ExitStack() as stack:
        workers = [
            [
                stack.enter_context(_worker(_mixed(folder / f"{at}-{variant.folder}", tree), variant, url))
                for variant in VARIANTS
            ]
            for at, tree in enumerate(trees)
        ]
        # The first round warms up.
        taken = [[[work() for work in of_tree] for of_tree in workers] for _ in range(rounds + 1)][1:]
    for at, tree in enumerate(trees):
        yield _table(tree, [one[at] for one in taken])


def _table(tree: Path, taken: list[list[Measured]]) -> Table:
    roads = list(taken[0][0])
    rows = [[variant.name] for variant in VARIANTS]
    for row, measured in zip(rows, zip(*taken, strict=True), strict=True):
        for road in roads:
            mine, others = (min(one[road][part] for one in measured) for part in (0, 1))
            row.append(f"{mine:.1f} + {others:.1f}")
    title = f"Own cost of a call in {tree}, µs of the event loop + of other threads"
    return Table(f"{title} (least of {len(taken)} rounds of {_CALLS} calls)", ("kept of every call", *roads), rows)


def _mixed(place: Path, tree: Path) -> Path:
    """Return a folder from which a tree is measured, by its own benchmarks, which know the names in it."""
    place.mkdir()
    (place / "aggregator").symlink_to(tree / "aggregator")
    (place / "benchmarks").symlink_to(tree / "benchmarks")
    return place


@contextmanager
def _worker(place: Path, variant: Recording, url: str) -> Iterator[Callable[[], Measured]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.steps", variant.name, url],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines, answers = process.stdin, process.stdout

    def work() -> Measured:
        lines.write("again\n")
        lines.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"the calls in {place} failed")
        measured: Measured = json.loads(answer)
        return measured

    try:
        yield work
    finally:
        lines.close()
        process.wait(30)
        answers.close()


# -- in the worker


async def _work(place: Path, variant: Recording, url: str) -> None:
    """A round for each line that comes in."""
    fake_stdio_upstreams()
    async with _running(place, variant, url) as (app, web, key):
        roads = await _paths(app, web, key)
        # As `aggregator serve` has it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps({road: await _round(app, call) for road, call in roads.items()}), flush=True)


@asynccontextmanager
async def _running(place: Path, variant: Recording, url: str) -> AsyncIterator[tuple[App, WebServer, str]]:
    policies = place / "policies"
    policies.mkdir()
    key = new_key("shop", now=time.time())
    limits = ", limits: { '*': { concurrent: 1000 } }" if variant is LIMITED else ""
    rules = f"agents:\n  shop: {{ keys: ['{policy_line(key.record)}'], allow: [echo.*]{limits} }}\n"
    (policies / "main.yaml").write_text(rules)
    config = load(write_config(place, {"echo": {"command": "played"}}, **variant.settings), {}).config
    app = build_app(config, policies, f"sqlite+aiosqlite:///{place / 'aggregator.db'}", keeps_records=True)
    await app.load_keys()
    if variant.metrics:
        app.telemetry.enable_metrics(Snapshot)
    os.environ.update(variant.variables(url))
    try:
        async with app.running():
            await app.supervisor.wait_all_tried()
            web = WebServer(app.gateway, config, app.access, app.report)
            async with web.running():
                yield app, web, key.text
    finally:
        os.environ.pop(SENT, None)


async def _paths(app: App, web: WebServer, key: str) -> Mapping[str, Call]:
    """By name: the gateway alone, from params to result, and the whole way from a post to the bytes of its answer."""
    roads: dict[str, Call] = {}
    for era in _ERAS:
        roads[f"gateway, {era}"] = _gateway(app, era)
    for era in _ERAS:
        host = FakeHost(web.app, era, key)
        await host.open()
        roads[f"socket to pipe, {era}"] = host.call
    for call in roads.values():
        for _ in range(100):
            await call()
    return roads


def _gateway(app: App, era: Era) -> Call:
    upstream, variant = app.upstreams["echo"], SilentChannel()
    params: dict[str, Any] = {**CALL, "_meta": ENVELOPE} if era == "modern" else dict(CALL)
    version, session = (MODERN, None) if era == "modern" else (LEGACY, "one")
    host = Host("http", "canonical", Principal("shop"), version, session=session)

    async def answered(*_: Any) -> dict[str, Any]:
        return dict(RESULT)

    async def call() -> None:
        upstream.call = answered  # type: ignore[method-assign, assignment]
        try:
            answer = await app.gateway.answer(host, "tools/call", params, variant)
        finally:
            del upstream.call
        assert "isError" not in answer, answer

    return call


async def _round(app: App, call: Call) -> tuple[float, float]:
    """Microseconds a call: of the thread of the event loop, and of all others; what is written is written by then."""
    gc.collect()
    mine, all_of_us = time.thread_time(), time.process_time()
    for number in range(_CALLS):
        await call()
        if number % _FEW == 0:
            await asyncio.sleep(0)
    await _settled(app)
    mine, all_of_us = time.thread_time() - mine, time.process_time() - all_of_us
    return mine / _CALLS * 1e6, (all_of_us - mine) / _CALLS * 1e6


async def _settled(app: App) -> None:
    """Return once nothing is on its way into the database or to the receiver."""
    audit, spans = app.telemetry.audit, app.telemetry.spans
    while audit is not None and audit.report()["waiting"]:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.05)
    if spans is not None:
        assert await spans.flush(30.0)


if __name__ == "__main__":
    asyncio.run(_work(Path.cwd(), next(variant for variant in VARIANTS if variant.name == sys.argv[1]), sys.argv[2]))
