"""One server with 50,000 tools: for how long everything else stands still while they are taken in, listed and searched.

A stall is the time between two turns of the event loop, as far as this process had the processor meanwhile.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.cli.runtime.collector import spare_catalogs, spare_start
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.config.load import load
from aggregator.domain.principal import Principal
from aggregator.gateway.host import Host
from aggregator.wire.codec import encode
from benchmarks.messages import LEGACY
from benchmarks.report import Table
from benchmarks.systems import HERE, python_server, write_config

TOOLS: Final = 50_000
_AGENT: Final = "shop"
_RULES: Final = f"agents:\n  {_AGENT}:\n    allow: ['*']\n"
_TURN: Final = 0.001
_SEARCH: Final = {"name": "search_tools", "arguments": {"query": "record by date"}}


def measure(folder: Path) -> Iterator[Table]:
    """Yield what each step took."""
    rows: list[list[str]] = []
    run_loop(_measure(folder, rows))
    yield Table(f"{TOOLS:,} tools of one server", ("step", "longest stall, ms", "processor time, ms", "took, ms"), rows)


async def _measure(folder: Path, rows: list[list[str]]) -> None:
    large = python_server("-I", "-S", str(HERE / "large_stdio.py"), str(TOOLS))
    config = load(write_config(folder, {"large": large}, expose="all"), {}).config
    policies = folder / "policies"
    policies.mkdir()
    (policies / "agents.yaml").write_text(_RULES)
    app = build_app(config, policies, f"sqlite+aiosqlite:///{folder / 'large.db'}", keeps_records=True)
    gateway, turns = app.gateway, _Turns(rows)
    host = Host("http", "canonical", Principal(_AGENT), LEGACY, session="one", initialized=True)

    async def ask(method: str, params: dict[str, Any]) -> Any:
        return await gateway.answer(host, method, params, _Channel())

    spare_start()
    async with app.running(), asyncio.TaskGroup() as tasks:
        beside = [tasks.create_task(turns.count()), tasks.create_task(spare_catalogs(app.updates))]
        await turns.during("the server connects", app.supervisor.wait_all_tried(60))
        gateway.list_changes.attach(host)
        await turns.during("first list of an agent", ask("tools/list", {}))
        await turns.during("the same page again, as bytes", _page(ask))
        await turns.during("first search", ask("tools/call", _SEARCH))
        await turns.during("until all are indexed", app.updates.indexed())
        await turns.during("search", ask("tools/call", _SEARCH))
        await turns.during("the list changes by one tool", _changed(app, ask))
        await turns.during("list after that", ask("tools/list", {}))
        await turns.during("until that is indexed", app.updates.indexed())
        for task in beside:
            task.cancel()


async def _page(ask: Any) -> None:
    assert len(encode(await ask("tools/list", {}))) > 0


async def _changed(app: App, ask: Any) -> None:
    before = app.gateway.catalog
    await ask("tools/call", {"name": "large.tool_7", "arguments": {"id": "1"}})
    await app.updates.replaced(before)


class _Turns:
    """The turns of the event loop, and the longest time between two of them."""

    def __init__(self, rows: list[list[str]]) -> None:
        self._rows = rows
        self._longest = 0.0

    async def count(self) -> None:
        """Look at each turn until cancelled."""
        while True:
            began, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(_TURN)
            self._longest = max(self._longest, min(time.perf_counter() - began, time.process_time() - used))

    async def during(self, step: str, work: Awaitable[Any]) -> None:
        """Do one step, and add its row."""
        # What came before has ended, and its last turn was looked at.
        await asyncio.sleep(5 * _TURN)
        self._longest = 0.0
        began, used = time.perf_counter(), time.process_time()
        await work
        took, used = time.perf_counter() - began, time.process_time() - used
        await asyncio.sleep(5 * _TURN)
        self._rows.append([step, *(f"{1000 * seconds:.1f}" for seconds in (self._longest, used, took))])
        print(f"{step} ...", file=sys.stderr, flush=True)


class _Channel:
    """A channel that sends nothing."""

    request_id = 1

    def notify(self, method: str, params: Any) -> None:
        """Send nothing."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("no host is asked")
