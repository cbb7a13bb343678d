"""What an agent sees is what it may call, whatever the policy, the catalog, the spelling and the frontend."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aggregator.domain.names import Style, listed_canonical, listed_compatible
from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, make_config, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, OpenHarness
from tests.laws import examples
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
Definitions = Mapping[str, list[Json]]

any_definitions: st.SearchStrategy[Definitions] = st.dictionaries(
    st.sampled_from(SERVERS),
    st.dictionaries(st.sampled_from(OWN), hints, min_size=1, max_size=3).map(
        lambda named: [tool(name, annotations=claims or {}) for name, claims in named.items()]
    ),
    min_size=1,
    max_size=4,
)
# Without shrinking: a failure takes as long as a success.
quick = settings(
    max_examples=examples(40),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def spellings(world: Definitions) -> list[str]:
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


async def reached(harness: GatewayHarness, agent: str, name: str, version: str = LEGACY) -> tuple[str, str] | None:
    """The tool that a call of this name reaches, or would once a person agreed."""
    before = len(harness.sent)
    answer = await harness.call(harness.host(agent, version), name)
    sent = harness.sent[before:]
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
@given(
    documents,
    belonging,
    any_definitions,
    st.sampled_from(["canonical", "compatible"]),
    st.sampled_from([LEGACY, MODERN]),
)
def test_what_is_listed_is_what_can_be_called(
    tmp_path: Path, content: Any, belong: Any, world: Definitions, style: Style, version: str
) -> None:
    """Proves: D4, F3."""

    async def work() -> None:
        harness = GatewayHarness(config, world, with_tenants(content, belong))
        for agent in AGENTS:
            host = harness.host(agent, names=style)
            listed = {one["name"] for one in await harness.listed(host)}
            by_list = {name: await reached(harness, agent, name, version) for name in listed}
            assert None not in by_list.values()
            assert len(set(by_list.values())) == len(listed)
            for name in spellings(world):
                found = await reached(harness, agent, name, version)
                assert found is None or found in by_list.values(), name

    config = make_config(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


@quick
@given(documents, belonging, any_definitions)
def test_what_an_agent_may_not_see_changes_nothing_for_it(
    tmp_path: Path, content: Any, belong: Any, world: Definitions
) -> None:
    """D4: with hidden denials, every answer is the one of a world that has only what the agent may call."""
    content = with_tenants(content, belong)
    for body in (*content["agents"].values(), *content["roles"].values(), content["defaults"]):
        body["denials"] = "hidden"

    async def work() -> None:
        whole = GatewayHarness(config, world, content)
        for agent in AGENTS:
            seen = {await reached(whole, agent, one["name"]) for one in await whole.listed(whole.host(agent))}
            less = {name: [one for one in tools if (name, one["name"]) in seen] for name, tools in world.items()}
            part = GatewayHarness(config, less, content)
            for name in spellings(world):
                answers = [await harness.call(harness.host(agent), name) for harness in (whole, part)]
                for answer in answers:
                    # The second of one answer may be over before the other.
                    answer.get("result", {}).get("_meta", {}).get("aggregator/provenance", {}).pop("retrieved_at", None)
                assert answers[0] == answers[1], (agent, name)

    config = make_config(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


@quick
@given(documents, belonging, any_definitions, patterns, st.data())
def test_a_deny_more_lets_nothing_through(
    tmp_path: Path, content: Any, belong: Any, world: Definitions, pattern: str, data: Any
) -> None:
    """Proves: D4."""
    content = with_tenants(content, belong)
    tighter = json.loads(json.dumps(content))
    group, name = data.draw(st.sampled_from([("agents", "one"), ("roles", "r0"), ("defaults", None)]))
    body = tighter[group][name] if name else tighter[group]
    body["deny"] = [*body.get("deny", []), pattern]

    own = {
        listed_canonical(prefix, one["name"]): (prefix, one["name"]) for prefix, tools in world.items() for one in tools
    }

    async def work() -> None:
        desks = [GatewayHarness(config, world, rules) for rules in (content, tighter)]
        for agent in AGENTS:
            found = {name: [await reached(harness, agent, name) for harness in desks] for name in spellings(world)}
            reachable = {before for before, _ in found.values()}
            for spelling, (before, after) in found.items():
                # `a__b/get` may be `b/get` of `a` and `get` of `a__b`: with the one hidden it is the other, as if the
                # hidden tool did not exist. A name that is one tool's own never moves to another.
                assert after is None or after in ({before} if before == own.get(spelling) else reachable), spelling

    config = make_config(tmp_path, {name: {"command": "played"} for name in SERVERS})
    run(work())


@quick
@given(documents, belonging, any_definitions)
def test_tenants_are_disjoint(tmp_path: Path, content: Any, belong: Any, world: Definitions) -> None:
    """Proves: D4."""
    content = with_tenants(content, belong)
    claims = {server: name for name, body in content["tenants"].items() for server in body["servers"]}

    async def work() -> None:
        harness = GatewayHarness(config, world, book(content))
        for agent in AGENTS:
            for name in spellings(world):
                found = await reached(harness, agent, name)
                assert found is None or claims.get(found[0]) in (None, belong.get(agent)), name

    config = make_config(tmp_path, {name: {"command": "played"} for name in SERVERS})
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


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_at_every_frontend(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """D4, F3: the list is what the policy says, and every spelling of every tool leads there or nowhere."""
    boxes = {name: RecordingToolbox(DEFINITIONS) for name in ("shop", "mail")}
    harness = open_harness({name: toolbox.config_entry() for name, toolbox in boxes.items()}, POLICIES)
    names = [f"{s}{by}{one['name']}" for s in boxes for one in DEFINITIONS for by in (".", "__", "/", ":")]

    def taken() -> list[tuple[str, str]]:
        """Return what reached the upstreams since the last call."""
        calls = [(server, call["name"]) for server, toolbox in boxes.items() for call in toolbox.calls]
        for toolbox in boxes.values():
            toolbox.calls.clear()
        return calls

    for agent, may in MAY.items():
        async with harness.connect_as(host_kind, agent) as host:
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
