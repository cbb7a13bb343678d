"""What a call leaves behind is freed with it: the garbage collector, at which everything stands still, has no work."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.direct.direct_harness import HOST_KINDS, DirectHarness, ask, child, direct_harness, text
from tests.direct.scripted_web import ScriptedWeb
from tests.end_to_end.scripted_host import MODERN
from tests.peers.toolbox import Json
from tests.polling import until

CALLS: Final = 20
# By way: the params of the call, and whether a task makes it from the start.
WAYS: Final[dict[str, tuple[Json, bool]]] = {
    "by name": ({"name": "old.any", "arguments": {"n": 1}}, False),
    "to a server of 2026-07-28": ({"name": "new.any", "arguments": {"n": 1}}, False),
    "over HTTP": ({"name": "web.any", "arguments": {"n": 1}}, False),
    "by a meta tool": ({"name": "call_tool", "arguments": {"name": "old.any", "arguments": {"n": 1}}}, False),
    "in a task": ({"name": "old.any", "arguments": {"n": 1}}, True),
    "taken over": ({"name": "old.any", "arguments": {"first": ["{}"], "writes": [text("x" * 70_000)]}}, False),
    "of a meta tool, again": ({"name": "search_tools", "arguments": {"query": "any"}}, False),
    "of a meta tool": ({"name": "list_servers"}, False),
    "refused": ({"name": "old.none", "arguments": {}}, False),
}


@contextmanager
def garbage() -> Iterator[Counter[str]]:
    """Count the objects of the package that nothing but the garbage collector frees, by type."""
    found: Counter[str] = Counter()
    gc.collect()
    # What other tests left in this process need not be looked through again.
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        kinds = (type(one) for one in gc.garbage)
        found.update(kind.__qualname__ for kind in kinds if kind.__module__.startswith("aggregator."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def make(it: DirectHarness, host: Any, params: Json, *, in_task: bool) -> None:
    """Make calls one after the other, and forget what is known of them."""
    it.on = not in_task
    for _ in range(CALLS):
        await ask(host, params)
    await until(lambda: len(it.app.gateway.drain) == 0, "nothing runs")
    it.forget()


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_no_call_waits_for_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]
) -> None:
    """Nothing of a call is in a cycle of references; objects of other work are, now and then."""
    async with AsyncExitStack() as stack:
        web = ScriptedWeb(modern=kind[1] == MODERN)
        await web.start()
        stack.push_async_callback(web.stop)
        servers = {"old": child("legacy"), "new": child("modern"), "web": {"type": "http", "url": web.url}}
        it = await stack.enter_async_context(direct_harness(tmp_path, monkeypatch, servers))
        host = await stack.enter_async_context(it.host(*kind))
        await it.app.gateway._finder.index.wait_indexed()
        for way, (params, in_task) in WAYS.items():
            await make(it, host, params, in_task=in_task)
            with garbage() as found:
                await make(it, host, params, in_task=in_task)
            often = {kind: count for kind, count in found.items() if count >= CALLS}
            assert not often, way


async def test_no_call_over_v1_waits_for_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As over MCP."""
    body = {"tool_call": {"name": "old.any", "arguments": {"n": 1}}}
    async with direct_harness(tmp_path, monkeypatch) as it, it.host("http", MODERN) as host:

        async def calls() -> None:
            for _ in range(CALLS):
                assert (await host.connection.ask("/v1/tool_calls", body)).status == 200
            it.forget()

        await calls()
        with garbage() as found:
            await calls()
        assert not {kind: count for kind, count in found.items() if count >= CALLS}
