"""Names in other spellings through `call_tool`: what changes between two calls holds for the second."""

import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.config.difference import difference
from aggregator.config.load import load
from aggregator.domain.names import Style
from aggregator.domain.records import ItemRecord, ToolRecord
from aggregator.gateway.views.current import HeldItems
from aggregator.pins.gateway.state import HeldItem
from tests.direct.direct_harness import DIRECT, PIPELINE, DirectHarness, ask, child, direct_harness
from tests.direct.test_between_calls import NO_TRACE, list_again, named, rules
from tests.end_to_end.scripted_host import MODERN
from tests.end_to_end.server_harness import write_config
from tests.peers.toolbox import Json

# No server is asked.
OURS: Final = "none"
SERVERS: Final[dict[str, Json]] = {"old": child("legacy"), "new": child("modern"), "mcp": child("modern")}
# The tools of the server `old`, beside `any`.
TOOLS: Final = ("solo", "more_solo")
ONE: Final[Json] = {"n": 1}


class Case(NamedTuple):
    """A call of `call_tool` that takes no task, a change, and the way of the same call then. `later`: the way once a
    task has made such a call, if that is another one.
    """

    inner: Json
    change: Callable[[DirectHarness], Awaitable[None]]
    way: str = OURS
    later: str | None = None


async def nothing(it: DirectHarness) -> None:
    """Change nothing."""


async def removed(it: DirectHarness) -> None:
    await list_again(it)


async def denied(it: DirectHarness) -> None:
    rules(it, deny=["old.solo"])


async def another_of_that_name(it: DirectHarness) -> None:
    await list_again(it, named("Solo"), any_tool="new.any")


async def added(it: DirectHarness, startup_wait: float = 10.0, **entry: Any) -> None:
    """Put a configuration with one more server into force."""
    path = write_config(it.path.parent, {**SERVERS, "more": entry}, startup_wait=startup_wait)
    loaded, app = load(path, dict(os.environ)), it.app._reconfiguration
    await app.prepare(loaded.config)
    app.apply(difference(app.config, loaded.config))


async def a_server_of_the_name_that_is_away(it: DirectHarness) -> None:
    """Its tools are not known: the name may be that of one of them."""
    await added(it, command="none", enabled=False)


async def a_server_that_starts(it: DirectHarness) -> None:
    """It may have a tool of the very name."""
    await added(it, 0.01, command=sys.executable, args=["-I", "-S", "-c", "import sys; sys.stdin.read()"])


async def a_held_tool(it: DirectHarness) -> None:
    """It has the very name, but for the approval."""
    tool = ToolRecord("new", "OLD", "SOLO", {"name": "SOLO", "inputSchema": {}}, {"canonical": "OLD.SOLO"}, 10.0)
    held = HeldItem("new", "tool", "SOLO", "its description changed")
    it.app.gateway._current.held = HeldItems(Catalog([tool]), why={("new", "tool", "SOLO"): held})


async def a_server_of_the_prefix(it: DirectHarness) -> None:
    """Until now the agent could have nothing of the server `mcp`."""
    item = ItemRecord("resource", "mcp", "mcp", "note://one", {"uri": "note://one", "name": "one"}, LISTED)
    it.app.gateway._current.resources = ItemCatalog([item])


LISTED: Final[dict[Style, str]] = {"canonical": "note://one", "compatible": "note://one"}
PREFIXED: Final[Json] = {"name": "mcp__old__solo", "arguments": ONE}
LOUD: Final[Json] = {"name": "OLD.SOLO", "arguments": ONE}
SHORT: Final[Json] = {"name": "SOLO", "arguments": ONE}
BESIDE: Final[Json] = {"name": "solo", "server": "OLD", "arguments": ONE}
CASES: Final[dict[str, Case]] = {
    "nothing, with a prefix": Case(PREFIXED, nothing, DIRECT),
    "nothing, in another case": Case(LOUD, nothing, DIRECT),
    "nothing, its own name": Case(SHORT, nothing, DIRECT),
    "nothing, its server beside": Case(BESIDE, nothing, DIRECT),
    "nothing, its server by another member": Case({"name": "solo", "server_name": "old"}, nothing, DIRECT),
    "the tool is gone": Case(LOUD, removed, PIPELINE),
    "the tool of a server is gone": Case(BESIDE, removed, PIPELINE),
    "the tool is denied": Case(LOUD, denied, PIPELINE),
    "the tool of a server is denied": Case(BESIDE, denied, PIPELINE),
    "two tools of the name": Case(SHORT, another_of_that_name),
    "two tools of the name, but one server": Case(BESIDE, another_of_that_name, PIPELINE, DIRECT),
    "a server is away": Case({"name": "more.solo", "arguments": ONE}, a_server_of_the_name_that_is_away, PIPELINE),
    "a server starts": Case(LOUD, a_server_that_starts, PIPELINE),
    "a held tool": Case(LOUD, a_held_tool, PIPELINE),
    "a server of the prefix": Case(PREFIXED, a_server_of_the_prefix, PIPELINE),
}


@pytest.mark.parametrize("changed", CASES)
async def test_a_change_between_two_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """A3, C8: a name in another spelling means what it means in a task, also after a call that took none."""
    case = CASES[changed]
    params = {"name": "call_tool", "arguments": case.inner}
    async with direct_harness(tmp_path, monkeypatch, SERVERS, policies=tmp_path / "policies") as it:
        assert it.app.live is not None
        rules(it, allow=["old.*", "new.*", "more.*", "resource:**"])
        await list_again(it, *map(named, TOOLS))
        async with it.host("http", MODERN) as usual, it.host("http", MODERN) as host:
            it.on = False
            await ask(usual, params)
            await ask(host, params)
            it.on = True
            await ask(host, params)
            assert it.way == DIRECT
            await case.change(it)
            it.on, before = True, len(it.ways)
            found = await it.outcome(lambda: ask(host, params))
            ways = it.ways[before:] or [OURS]
            it.on = False
            expected = await it.outcome(lambda: ask(usual, params))
            it.on, after = True, len(it.ways)
            again = await it.outcome(lambda: ask(host, params))
            for _, records in (found, expected, again):
                records[:] = [replace(record, trace=NO_TRACE) for record in records]
            assert found == expected
            assert again == expected
            assert (it.ways[after:] or [OURS]) == [case.later or case.way]
            # With other rules, a request is authenticated anew.
            assert ways in ([case.way], [PIPELINE]) if case.change is denied else ways == [case.way]
        it.nothing_is_left()


FORMS: Final[dict[str, tuple[Json, str]]] = {
    "more signs than a name has": ({"name": f"{' ' * 400}old.solo", "arguments": ONE}, PIPELINE),
    "two members for the server": ({"name": "solo", "server": "old", "server_name": "old"}, PIPELINE),
    "a server without a name": ({"name": "old.solo", "server": ""}, PIPELINE),
    "a server that is no text": ({"name": "old.solo", "server": 1}, PIPELINE),
    "another server": ({"name": "old.solo", "server": "new"}, OURS),
    "a server that is an argument": ({"name": "old.served", "server": "old"}, PIPELINE),
    "arguments that are no object": ({"name": "old.solo", "arguments": "[1]"}, OURS),
    "arguments in a text": ({"name": "old.solo", "arguments": '{"n": 1}'}, DIRECT),
    "all of it in a member": ({"arguments": {"name": "old.solo", "arguments": ONE}}, DIRECT),
    "a tool for programs": ({"name": "new.app"}, PIPELINE),
    "a tool for programs, in another case": ({"name": "NEW.APP"}, PIPELINE),
    "one to read": ({"name": "OLD.SOLO", "arguments": ONE}, PIPELINE),
}


@pytest.mark.parametrize("form", FORMS)
async def test_each_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A3, C8: forms of a call in a call are what they are in a task."""
    inner, way = FORMS[form]
    params = {"name": "read_tool" if form == "one to read" else "call_tool", "arguments": inner}
    served = {"name": "served", "inputSchema": {"type": "object", "properties": {"server": {"type": "string"}}}}
    async with direct_harness(tmp_path, monkeypatch, SERVERS, read_tool=True) as it:
        await list_again(it, *map(named, TOOLS), served)
        async with it.host("http", MODERN) as host:
            it.on = False
            expected = await it.outcome(lambda: ask(host, params))
            await ask(host, {"name": params["name"], "arguments": {"name": "old.any", "arguments": ONE}})
            it.on, before = True, len(it.ways)
            assert await it.outcome(lambda: ask(host, params)) == expected
            assert (it.ways[before:] or [OURS]) == [way]
        it.nothing_is_left()
