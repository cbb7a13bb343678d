"""What an agent sees is what it may call, whatever the policy, the catalog, the spelling and the door."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aggregator.domain.names import Style, listed_canonical, listed_compatible
from tests.access.desk import LEGACY, MODERN, Desk, configured, tool
from tests.access.played import Box
from tests.access.rooms import WAYS, OpenRoom
from tests.peers.toolbox import Json
from tests.policy.build import book
from tests.policy.test_properties import (
    AGENTS,
    belonging,
    documents,
    hints,
    patterns,
    with_tenants,
)

# `a__b` is a prefix that reads like another's separator.
SERVERS: Final = ("a", "b", "a_b", "a__b", "A")
OWN: Final = ("get", "delete_x", "x.y", "Get", "get ", "x__y", "b/get", "查", "get_4abcdefg", "b__get", "b:get")
World = Mapping[str, list[Json]]

worlds: st.SearchStrategy[World] = st.dictionaries(
    st.sampled_from(SERVERS),
    st.dictionaries(st.sampled_from(OWN), hints, min_size=1, max_size=3).map(
        lambda named: [tool(name, annotations=claims or {}) for name, claims in named.items()]
    ),
    min_size=1,
    max_size=4,
)
# Without shrinking: a failure takes as long as a success.
quick = settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def spelled(world: World) -> list[str]:
    """Every way to write the name of a tool that is there, and some of tools that are not."""
    names = ["nothing.there", "a.nothing", "nothing", "a."]
    for prefix, definitions in world.items():
        for own in (definition["name"] for definition in definitions):
            names += [f"{prefix}{separator}{own}" for separator in (".", "__", "/", ":")]
            names += [listed_canonical(prefix, own), listed_compatible(prefix, own)]
            names += [listed_canonical(prefix, own, ambiguous=True), own, f"{prefix}.{own}"[:-1]]
    return list(dict.fromkeys(names))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def reached(desk: Desk, agent: str, name: str, version: str = LEGACY) -> tuple[str, str] | None:
    """The tool that a call of this name reaches, or would once a person agreed."""
    before = len(desk.sent)
    answer = await desk.call(desk.host(agent, version), name)
    sent = desk.sent[before:]
    if sent:
        assert len(sent) == 1
        server, own = sent[0]
        return server, own
    error = answer.get("result", {}).get("_meta", {}).get("aggregator/error", {})
    if error.get("code") == "not_confirmed":
        prefix, _, own = error["tool"].partition(".")
        return prefix, own
    return None


@quick
@given(documents, belonging, worlds, st.sampled_from(["canonical", "compatible"]), st.sampled_from([LEGACY, MODERN]))
def test_what_is_listed_is_what_can_be_called(
    tmp_path: Path, content: Any, belong: Any, world: World, style: Style, version: str
) -> None:
    """Proves: D4, F3."""

    async def work() -> None:
        desk = Desk(config, world, with_tenants(content, belong))
        for agent in AGENTS:
            host = desk.host(agent, names=style)
            listed = {one["name"] for one in await desk.listed(host)}
            by_list = {name: await reached(desk, agent, name, version) for name in listed}
            assert None not in by_list.values()
            assert len(set(by_list.values())) == len(listed)
            for name in spelled(world):
                found = await reached(desk, agent, name, version)
                assert found is None or found in by_list.values(), name

    config = configured(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


@quick
@given(documents, belonging, worlds)
def test_what_an_agent_may_not_see_changes_nothing_for_it(
    tmp_path: Path, content: Any, belong: Any, world: World
) -> None:
    """D4: with hidden denials, every answer is the one of a world that has only what the agent may call."""
    content = with_tenants(content, belong)
    for body in (*content["agents"].values(), *content["roles"].values(), content["defaults"]):
        body["denials"] = "hidden"

    async def work() -> None:
        whole = Desk(config, world, content)
        for agent in AGENTS:
            seen = {await reached(whole, agent, one["name"]) for one in await whole.listed(whole.host(agent))}
            less = {name: [one for one in tools if (name, one["name"]) in seen] for name, tools in world.items()}
            part = Desk(config, less, content)
            for name in spelled(world):
                answers = [await desk.call(desk.host(agent), name) for desk in (whole, part)]
                assert answers[0] == answers[1], (agent, name)

    config = configured(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


@quick
@given(documents, belonging, worlds, patterns, st.data())
def test_a_deny_more_lets_nothing_through(
    tmp_path: Path, content: Any, belong: Any, world: World, pattern: str, data: Any
) -> None:
    """Proves: D4."""
    content = with_tenants(content, belong)
    tighter = json.loads(json.dumps(content))
    group, name = data.draw(st.sampled_from([("agents", "one"), ("roles", "r0"), ("defaults", None)]))
    body = tighter[group][name] if name else tighter[group]
    body["deny"] = [*body.get("deny", []), pattern]

    async def work() -> None:
        desks = [Desk(config, world, rules) for rules in (content, tighter)]
        for agent in AGENTS:
            for spelling in spelled(world):
                before, after = [await reached(desk, agent, spelling) for desk in desks]
                assert after in (None, before), spelling

    config = configured(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


@quick
@given(documents, belonging, worlds)
def test_tenants_are_disjoint(tmp_path: Path, content: Any, belong: Any, world: World) -> None:
    """Proves: D4."""
    content = with_tenants(content, belong)
    claims = {server: name for name, body in content["tenants"].items() for server in body["servers"]}

    async def work() -> None:
        desk = Desk(config, world, book(content))
        for agent in AGENTS:
            for name in spelled(world):
                found = await reached(desk, agent, name)
                assert found is None or claims.get(found[0]) in (None, belong.get(agent)), name

    config = configured(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


DEFINITIONS: Final = [tool("get"), tool("put"), tool("deep.er"), tool("wipe")]
POLICIES: Final = {
    "agents": {
        "one": {"allow": ["shop.*"], "deny": ["shop.wipe"], "denials": "hidden"},
        "two": {"allow": ["shop.get", "mail.*"], "bindings": {"put": "mail"}, "names": "compatible"},
    }
}
MAY: Final = {
    "one": {("shop", "get"), ("shop", "put"), ("shop", "deep.er")},
    "two": {("shop", "get"), *(("mail", one["name"]) for one in DEFINITIONS)},
}


@pytest.mark.parametrize("way", WAYS)
async def test_at_every_door(open_room: OpenRoom, way: tuple[str, str]) -> None:
    """D4, F3: the list is what the policy says, and every spelling of every tool leads there or nowhere."""
    boxes = {name: Box(DEFINITIONS) for name in ("shop", "mail")}
    room = open_room({name: box.upstream() for name, box in boxes.items()}, POLICIES)
    names = [f"{s}{by}{one['name']}" for s in boxes for one in DEFINITIONS for by in (".", "__", "/", ":")]

    def taken() -> list[tuple[str, str]]:
        """What reached the upstreams since this was last asked."""
        calls = [(server, call["name"]) for server, box in boxes.items() for call in box.calls]
        for box in boxes.values():
            box.calls.clear()
        return calls

    for agent, may in MAY.items():
        async with room.guest(way, agent) as host:
            listed = await host.list()
            for one in listed:
                await host.call(one["name"]).result()
            assert sorted(taken()) == sorted(may)
            assert len(listed) == len(may)
            answers = [await host.call(name).message() for name in [*names, "put"]]
        served = [one for one in answers if "result" in one and not one["result"].get("isError")]
        calls = taken()
        assert set(calls) == may
        assert len(calls) == len(served) == 4 * len(may) + (agent == "two")
