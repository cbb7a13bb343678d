"""Very long lists of one server: gone through a piece at a time, and whatever others ask is answered in between."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.catalog import pages as pages_module
from aggregator.catalog import resources as offer_module
from aggregator.catalog import validate as vet_module
from aggregator.domain.bounds import slices as slices_module
from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.gateway.meta.exposure import Exposure
from aggregator.gateway.views.list_changed import notification
from aggregator.gateway.views.views import View
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from tests.access.gateway_harness import LEGACY, GatewayHarness, make_config, tool
from tests.faults.app_harness import Json
from tests.peers.fake_connection import FakeConnection
from tests.polling import until

# More than is done in one go of anything.
MANY: Final = 1_100
ONE: Final = {"agents": {"one": {"allow": ["*"], "deny": ["big.tool_7*"]}, "two": {"allow": ["*"]}}}


def note(said: list[str], method: str, params: object) -> None:
    said.append(method)


@pytest.fixture(autouse=True)
def pieces_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_module, "SLICE", 0.0)


class Turns:
    """Counts the turns of the loop, and in each of them the calls of what it watches."""

    def __init__(self) -> None:
        self.now = 0
        self.calls: Counter[int] = Counter()

    async def count(self) -> None:
        while True:
            self.now += 1
            await asyncio.sleep(0)

    def watching(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **more: Any) -> Any:
            self.calls[self.now] += 1
            return work(*args, **more)

        return watched

    def were_spread(self, calls: int) -> bool:
        """Return whether there were so many calls, and never more than a few in one turn of the loop."""
        return sum(self.calls.values()) >= calls and max(self.calls.values()) <= 4


@asynccontextmanager
async def turning() -> AsyncIterator[Turns]:
    turns = Turns()
    counting = asyncio.ensure_future(turns.count())
    try:
        yield turns
    finally:
        counting.cancel()


def many(*more: Json) -> list[Json]:
    return [*(tool(f"tool_{number}") for number in range(MANY)), *more]


def harness_with(
    folder: Path, policies: object = None, tools: list[Json] | None = None, **settings: Any
) -> GatewayHarness:
    config = make_config(folder, {"big": {"command": "played"}, "quick": {"command": "played"}}, **settings)
    return GatewayHarness(config, {"big": many() if tools is None else tools, "quick": [tool("echo")]}, policies)


class Listing:
    """A server's connection: each `tools/list` is answered with the next of these lists."""

    def __init__(self, *lists: list[Json]) -> None:
        self.lists = list(lists)

    async def request(self, method: str, params: Json, *rest: Any) -> Json:
        return {"tools": self.lists.pop(0)}


def session_with(*lists: list[Json]) -> UpstreamSession:
    """A session whose server lists its tools so, one time after the other."""
    connection: Any = Listing(*lists)
    return UpstreamSession(connection, Negotiated(LEGACY, {}, {"tools": {}}), "local", {})


class UnlosableSession:
    """A `SessionHolder` that must not lose its session."""

    session: UpstreamSession | None = None
    busy = False
    calls = 0

    async def for_lists(self) -> UpstreamSession | None:
        return self.session

    def lose(self, session: UpstreamSession, reason: str) -> None:
        raise AssertionError(reason)


async def test_a_list_that_changed_is_looked_over_between_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C5: until all of it was looked over, the list before it counts, whole."""
    harness = harness_with(tmp_path, {"agents": {"one": {"allow": ["*"]}}}, tools=[tool("before")])
    session = session_with(many())
    async with turning() as turns:
        monkeypatch.setattr(vet_module, "definition_digest", turns.watching(vet_module.definition_digest))
        reading = asyncio.ensure_future(harness.app.upstreams["big"].lists.refresh(session, "tool", UnlosableSession()))
        await until(lambda: turns.calls, "it is being looked over")
        answer = await harness.call(harness.host("one"), "quick.echo")
        assert answer["result"]["content"][0]["text"] == "did echo"
        assert not reading.done()
        assert [record.name for record in harness.app.gateway.catalog.tools] == ["big.before", "quick.echo"]
        assert await reading
    assert len(harness.app.gateway.catalog.tools) == MANY + 1
    assert turns.were_spread(MANY)


async def test_a_newer_list_takes_the_place_of_one_still_being_looked_over(tmp_path: Path) -> None:
    """C5: however long the older one takes."""
    harness = harness_with(tmp_path, tools=[])
    session = session_with(many(), [tool("newer")])
    lists = harness.app.upstreams["big"].lists
    holder = UnlosableSession()
    await asyncio.gather(lists.refresh(session, "tool", holder), lists.refresh(session, "tool", holder))
    assert [record.name for record in harness.app.gateway.catalog.tools] == ["big.newer", "quick.echo"]


async def test_what_did_not_change_stays_the_same_record(tmp_path: Path) -> None:
    """B3: so that it costs nothing to see what changed; true is another value than 1."""
    harness = harness_with(tmp_path, tools=many(tool("flag", {"a": {"default": 1}})))
    before = {record.own_name: record for record in harness.app.gateway.catalog.tools}
    lists = harness.app.upstreams["big"].lists
    session = session_with(many(tool("flag", {"a": {"default": True}})))
    assert await lists.refresh(session, "tool", UnlosableSession())
    after = {record.own_name: record for record in harness.app.gateway.catalog.tools}
    assert [name for name, record in after.items() if before[name] is not record] == ["flag"]


@pytest.mark.parametrize("method", ["tools/list", "initialize"])
async def test_what_an_agent_may_call_is_decided_between_calls(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4, E5: the first host of an agent waits for its list, and nobody else does."""
    harness = harness_with(tmp_path, ONE)
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {}} if method == "initialize" else {}
    async with turning() as turns:
        monkeypatch.setattr(View, "ruling", turns.watching(View.ruling))
        asking = asyncio.ensure_future(harness.ask(harness.host("one"), method, params))
        await until(lambda: turns.calls, "it is being decided about")
        answer = await harness.call(harness.host("two"), "quick.echo")
        assert answer["result"]["content"][0]["text"] == "did echo"
        assert not asking.done()
        assert "result" in await asking
    assert turns.were_spread(MANY)
    names = {listed["name"] for listed in await harness.listed(harness.host("one"))}
    assert "quick.echo" in names
    assert not any(name.startswith("big.tool_7") for name in names)


async def test_the_pages_of_a_list_are_made_between_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C5"""
    harness = harness_with(tmp_path)
    async with turning() as turns:
        monkeypatch.setattr(pages_module, "render", turns.watching(pages_module.render))
        assert len(await harness.listed(harness.host("local"))) == MANY + 1
    assert turns.were_spread(MANY)


async def test_a_short_list_is_chosen_between_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: what is pinned is looked for in all there is."""
    harness = harness_with(tmp_path, {"agents": {"one": {"allow": ["*"]}}}, expose="search", pinned=["quick.*"])
    async with turning() as turns:
        monkeypatch.setattr(Exposure, "_is_pinned", turns.watching(Exposure._is_pinned))
        names = [listed["name"] for listed in await harness.listed(harness.host("one"))]
    assert names[0] == "search_tools"
    assert names[-1] == "quick.echo"
    assert turns.were_spread(MANY)


async def test_a_name_that_nothing_has_is_compared_between_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6"""
    harness = harness_with(tmp_path, ONE)
    harness.app.gateway._resolver.patience = 0.0
    async with turning() as turns:
        monkeypatch.setattr(View, "ruling", turns.watching(View.ruling))
        answer = await harness.call(harness.host("one"), "big.tol_5")
    assert "big.tool_5" in answer["error"]["message"]
    assert turns.were_spread(MANY)


async def test_hosts_are_notified_of_changes_that_take_long_to_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C5: once, of the list that changed, and the host of another agent that sees none of it does not."""
    harness = harness_with(tmp_path, {"agents": {"one": {"allow": ["*"]}, "two": {"allow": ["quick.*"]}}})
    heard: dict[str, list[str]] = {"one": [], "two": []}
    for agent, said in heard.items():
        host = harness.host(agent)
        host.initialized = True
        host.connection = FakeConnection(partial(note, said))
        harness.app.gateway.list_changes.attach(host)
        await harness.listed(host)
    async with turning() as turns:
        monkeypatch.setattr(View, "ruling", turns.watching(View.ruling))
        harness.app.upstreams["big"].definitions = many(tool("new"))
        harness.app.updates.rebuild()
        await until(lambda: heard["one"], "it was told")
        await until(lambda: harness.app.gateway.list_changes._notifying is not None, "all are being told")
        telling = harness.app.gateway.list_changes._notifying
        assert telling is not None
        await telling
    assert heard == {"one": [notification("tools")], "two": []}
    assert turns.were_spread(2 * MANY)


async def test_many_resources_are_offered_between_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C10: and each agent has its own part of them."""
    rules = {"agents": {"one": {"allow": ["*", "resource:big.*"], "deny": ["resource:big.file:///7*"]}}}
    harness = harness_with(tmp_path, rules, tools=[])
    uris = [{"uri": f"file:///{number}", "name": "n"} for number in range(MANY)]
    working = asyncio.gather(harness.app.gateway.run(), harness.app.updates.run(), return_exceptions=True)
    try:
        async with turning() as turns:
            monkeypatch.setattr(offer_module, "_distinct", turns.watching(offer_module._distinct))
            monkeypatch.setattr(View, "shows", turns.watching(View.shows))
            await harness.app.upstreams["big"].lists._examine("resource", uris)
            harness.app.upstreams["big"].lists.put("resource", uris)
            harness.app.updates.rebuild()
            await until(lambda: harness.app.gateway.resources.items, "they are offered")
            listed = (await harness.ask(harness.host("one"), "resources/list", {}))["result"]["resources"]
    finally:
        working.cancel()
        await asyncio.wait([working])
    assert len(harness.app.gateway.resources.items) == MANY
    assert {one["uri"] for one in listed} < {item.listed["canonical"] for item in harness.app.gateway.resources.items}
    assert turns.were_spread(2 * MANY)


async def test_one_piece_in_a_turn_however_much_there_is_to_do() -> None:
    """C5: many hosts that wait for their lists hold nobody else up."""
    slices = Slices()
    async with turning() as turns:

        def work(steps: int) -> Steps[int]:
            for _ in range(steps):
                turns.calls[turns.now] += 1
                yield
            return steps

        assert await asyncio.gather(*(slices.run(work(20)) for _ in range(10))) == [20] * 10
    assert sum(turns.calls.values()) == 200
    assert max(turns.calls.values()) <= 2


async def test_a_piece_of_work_that_fails_lets_the_next_have_its_turn() -> None:
    slices = Slices()

    def fails() -> Steps[None]:
        yield
        raise ValueError("a bug")

    def works() -> Steps[int]:
        yield
        return 1

    with pytest.raises(ValueError, match="a bug"):
        await slices.run(fails())
    assert await slices.run(works()) == 1
