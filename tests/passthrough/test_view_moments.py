"""What an agent's lists remember, and what makes them decide anew: for each fact, a change of that alone."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.gateway.views.current import HeldItems
from aggregator.pins.gateway.state import HeldItem
from aggregator.upstream.lifecycle.states import StateAndReason
from tests.access.gateway_harness import LEGACY, GatewayHarness, error_data, make_config, tool
from tests.passthrough.test_read_moments import NOTE, OPEN, Desk, code
from tests.peers.toolbox import Json

READS: Final[Json] = {"readOnlyHint": True}


async def test_tools_are_decided_about_anew_if_their_server_is_trusted_no_more(tmp_path: Path) -> None:
    """Its list is the same as before, as are the rules."""
    rules = {"agents": {"one": {"allow": ["*"], "annotations": {"destructive": "deny"}, "expose": "all"}}}
    config = make_config(tmp_path, {"crm": {"command": "played"}})
    harness = GatewayHarness(config, {"crm": [tool("get", annotations=READS), tool("wipe")]}, rules)
    gateway, host = harness.app.gateway, harness.host("one")
    for trusted, shown in ((False, []), (True, ["crm.get"]), (False, []), (True, ["crm.get"])):
        gateway.views.trusted = {"crm": trusted}
        gateway._current.replace_tools(Catalog(parts=gateway.catalog.parts))
        assert [one["name"] for one in await harness.listed(host)] == shown
        assert ("isError" in (await harness.call(host, "crm.get")).get("result", {"isError": 1})) is not trusted


async def test_a_prompt_is_decided_about_anew_if_its_server_calls_it_otherwise(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"one": {"allow": ["prompt:a.pay", "prompt:a.paid"]}})
    host, items = desk.host("one"), desk.gateway.resources.items
    for sent_as, shown in (("", True), ("pay_all", False), ("paid", True), ("", True), ("pay_all", False)):
        desk.gateway._current.resources = ItemCatalog(
            [replace(one, sent_as=sent_as) if (one.kind, one.server) == ("prompt", "a") else one for one in items]
        )
        assert await desk.found(host, "prompts/list", "name") == (["a.pay"] if shown else [])
        assert code(await desk.get(host)) == ("read" if shown else "not_allowed")


async def test_a_file_is_decided_about_anew_if_a_skill_contains_it_by_now(tmp_path: Path) -> None:
    """A rule that allows a skill allows its files, once its server lists the skill."""
    file, skill = "file:///skills/pay/notes.md", "file:///skills/pay/SKILL.md"
    desk = Desk(tmp_path, {"one": {"allow": ["skill:a.*pay*"]}}, uris=(file,))
    host = desk.host("one")
    without = desk.gateway.resources
    listed = ItemCatalog([*without.items, *desk.records("a", "skill", skill)])
    for items, shown in ((without, False), (listed, True), (without, False)):
        desk.gateway._current.resources = items
        assert len(await desk.found(host, "resources/list", "uri")) == shown
        assert code(await desk.read(host, file)) == ("read" if shown else "not_allowed")


@pytest.mark.parametrize("kind", ["resource", "prompt"])
@pytest.mark.parametrize(("servers", "named"), [({"a": {}}, "a"), ({"a": {"prefix": "shop"}}, "shop")])
async def test_labels_of_items_go_by_the_prefix_of_their_server(
    tmp_path: Path, servers: Json, named: str, kind: str
) -> None:
    """As the rules that allow and deny them do."""
    desk = Desk(tmp_path, {}, servers={**servers, "b": {}})
    labels = {"private": [f"{kind}:{named}.*"], "outward": ["resource:b.*"]}
    flow = [{"after": "private", "calls": "outward", "then": "deny"}]
    desk.set_policies({"labels": labels, "flow": flow, "agents": {"one": OPEN}})
    host = desk.host("one", LEGACY)
    assert code(await desk.read(host, server="b")) == "read"
    item: Any = desk.read(host, server=named) if kind == "resource" else desk.get(host, f"{named}.pay")
    assert code(await item) == "read"
    assert code(await desk.read(host, NOTE, "b")) == "flow_denied"


async def test_the_links_of_one_result_are_matched_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the templates of all servers; later links have the server's prefix, which is always right."""
    monkeypatch.setattr("aggregator.gateway.agent_items._LOOKS", 6)
    desk = Desk(tmp_path)
    desk.show("b", "template", "https://h0/{id}", "https://h1/{id}")
    upstream, items = desk.app.upstreams["a"], desk.gateway._agent_items
    for _ in range(2):
        elsewhere = items.elsewhere(desk.host("one"), upstream)
        uris = ["https://x/1", "https://h1/1", "https://x/2", "https://x/3", "https://x/4"]
        assert [elsewhere(uri) for uri in uris] == [False, True, False, True, True]


# -- servers, and held tools


async def listed(desk: Desk, agent: str) -> str:
    """Return what an agent is told of all servers."""
    answer = await desk.call(desk.host(agent), "list_servers")
    text: str = answer["result"]["content"][0]["text"]
    return text


HIDES: Final[Json] = {**OPEN, "deny": ["prompt:a.*", "a.get"], "denials": "hidden"}


async def test_what_waits_for_an_approval_is_counted_for_those_who_may_have_it(tmp_path: Path) -> None:
    """Held prompts, and prompts and tools that are served as they were approved; a held name of one that is served is
    counted with that.
    """
    desk = Desk(tmp_path, {"one": OPEN, "two": HIDES})
    desk.app.upstreams["a"].definitions = [tool("get")]
    desk.hold("a", "prompt", "new")
    assert ["held" in await listed(desk, agent) for agent in ("one", "two")] == [True, False]
    desk.hold("a", "prompt", "new", served=True, before="pay")
    assert "held" not in await listed(desk, "one")
    desk.gateway._current.held = HeldItems()
    for kind, name in (("prompt", "pay"), ("tool", "get")):
        waits = [HeldItem("a", kind, name, "its description changed")]  # type: ignore[arg-type]
        pins = SimpleNamespace(moment=object(), waiting=lambda server, waits=waits: waits if server == "a" else [])
        desk.gateway._finder._known_servers._pins = pins
        assert ["newer definitions wait" in await listed(desk, agent) for agent in ("one", "two", "one")] == [
            True,
            False,
            True,
        ]
        pins.moment, pins.waiting = object(), lambda server: []
        assert "wait" not in await listed(desk, "one"), "they were approved"


async def test_a_server_with_nothing_to_show_is_told_to_those_who_might_use_it(tmp_path: Path) -> None:
    """One that is away, or is connected and has nothing; one that is switched off is told to none of them."""
    rules = {"one": {"allow": ["b.*", "a.*"]}, "two": {"allow": ["a.*"]}}
    desk = Desk(tmp_path, rules, uris=(), prompts=())
    for state in ("unavailable", "ready"):
        desk.app.upstreams["b"].lifecycle.current = StateAndReason(state, since=0.0)
        assert ["b (" in await listed(desk, agent) for agent in ("one", "two")] == [True, False]
    desk = Desk(tmp_path, rules, uris=(), prompts=(), servers={"a": {}, "b": {"enabled": False}})
    assert ["b (" in await listed(desk, agent) for agent in ("one", "two")] == [False, False]


async def test_a_server_is_looked_at_again_for_those_who_might_call_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is started for them alone. What is held by then is held."""
    rules = {"agents": {"one": {"allow": ["crm.*"]}, "two": {"allow": ["crm.get"]}}}
    harness = GatewayHarness(make_config(tmp_path, {"crm": {"command": "x"}}), {"crm": [tool("get")]}, rules)
    upstream, looks = harness.app.upstreams["crm"], list[str]()
    current, new = harness.app.gateway._current, tool("new")
    record = replace(harness.app.gateway.catalog.tools[0], own_name="new", sent_as="new", definition=new)

    async def look() -> bool:
        looks.append("looked")
        held = HeldItem("crm", "tool", "new", "it is new", approved=1.0, before="old")
        current.held = HeldItems(Catalog([record]), why={("crm", "tool", "new"): held})
        return True

    monkeypatch.setattr(upstream, "look_again", look)
    monkeypatch.setattr(upstream, "start", lambda: looks.append("started"))
    two, one = harness.host("two"), harness.host("one")
    await harness.call(two, "crm.new")
    assert looks == []
    refused = error_data(await harness.call(one, "crm.new"))
    assert (refused["code"], looks) == ("tool_held", ["looked"])
    upstream.lifecycle.current = StateAndReason("stopped", since=0.0)
    upstream.lifecycle.known = False
    current.held, looks[:] = HeldItems(), []
    harness.app.gateway._resolver.patience = 0.0
    await harness.call(two, "crm.other")
    assert looks == []


async def test_the_name_before_of_a_held_tool_is_told_to_those_who_may_know_it(tmp_path: Path) -> None:
    rules: Json = {"allow": ["crm.*"], "denials": "hidden"}
    policies = {
        "agents": {"one": rules, "two": {**rules, "deny": ["crm.old"]}, "three": {**rules, "deny": ["crm.new"]}}
    }
    harness = GatewayHarness(make_config(tmp_path, {"crm": {"command": "x"}}), {"crm": [tool("get")]}, policies)
    record = replace(harness.app.gateway.catalog.tools[0], own_name="new", sent_as="new", definition=tool("new"))
    held = HeldItem("crm", "tool", "new", "it was renamed", approved=1.0, before="old")
    harness.app.gateway._current.held = HeldItems(Catalog([record]), why={("crm", "tool", "new"): held})
    said = [await harness.call(harness.host(agent), "crm.new") for agent in ("one", "two", "three")]
    assert ["tool_held" in str(one) for one in said] == [True, True, False]
    assert ["`old`" in str(one) for one in said] == [True, False, False]
    renamed = [await harness.call(harness.host(agent), "crm.old") for agent in ("one", "two", "three")]
    assert ["tool_held" in str(one) for one in renamed] == [True, False, False]
