"""How much is listed: everything, a few tools, or what the cost of the list decides."""

import pytest

from aggregator.domain.text.tokens import estimate
from aggregator.wire.codec import encode
from tests.access.gateway_harness import LEGACY, MODERN, tool
from tests.meta.conftest import TOOLS, OpenHarness
from tests.peers.toolbox import Json

META = ["search_tools", "describe_tools", "call_tool", "list_servers"]
ALL = ["maps.get_weather", "maps.drive", "git.create_issue", "git.delete_repo"]


def names(listed: list[Json]) -> list[str]:
    return [tool["name"] for tool in listed]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ALL),
        ({"expose": "all"}, ALL),
        ({"expose": "search"}, META),
        ({"expose": "auto"}, ALL),
        ({"expose": "auto", "expose_budget": 50}, META),
        ({"expose": "search", "sse": {"expose": "all"}}, ALL),
        ({"sse": {"expose": "search"}}, META),
        ({"http": {"expose": "search"}}, ALL),
        ({"expose": "search", "pinned": ["maps.*"]}, [*META, "maps.get_weather", "maps.drive"]),
        ({"expose": "all", "pinned": ["maps.*"]}, ALL),
        ({"expose": "search", "read_tool": True}, [*META, "read_tool"]),
    ],
)
async def test_the_nearest_word_counts(open_harness: OpenHarness, settings: Json, expected: list[str]) -> None:
    """Proves: F5. `expose` for all frontends, for one, by cost; pinned tools stay on the short list."""
    async with open_harness(**settings) as harness:
        host = harness.host("local")
        assert names(await harness.listed(host)) == expected
        for name in ("maps.drive", "git__create_issue"):
            assert (await harness.call(host, name))["result"]["content"], "whatever is listed, all can be called"
        assert await harness.text(host, "list_servers")


async def test_a_policy_says_it_for_an_agent(open_harness: OpenHarness) -> None:
    """Proves: F5, D4. The agent's word is nearer than the frontend's; what is pinned must be allowed all the same."""
    policies = {
        "agents": {
            "short": {"allow": ["maps.*"], "expose": "search", "pinned": ["maps.drive", "git.*"]},
            "long": {"allow": ["git.*"], "roles": ["whole"]},
        },
        "roles": {"whole": {"expose": "all"}},
    }
    async with open_harness(policies, expose="search") as harness:
        assert names(await harness.listed(harness.host("short"))) == [*META, "maps.drive"]
        assert names(await harness.listed(harness.host("long"))) == ["git.create_issue", "git.delete_repo"]


async def test_nothing_that_is_called_changes_the_list(open_harness: OpenHarness) -> None:
    """Proves: F5. The list depends on agent and catalog only (S/server/tools)."""
    async with open_harness(expose="search") as harness:
        for host in (harness.host("local"), harness.host("local", MODERN)):
            before = encode(await harness.listed(host))
            await harness.text(host, "search_tools", query="weather")
            await harness.call(host, "call_tool", {"name": "maps.get_weather", "arguments": {}})
            assert encode(await harness.listed(host)) == before


async def test_the_meta_tools_are_cheap_and_said_in_the_instructions(open_harness: OpenHarness) -> None:
    """Proves: F5. At most 275 tokens, 320 with `read_result`; no dots; the host is told what they are for."""
    async with open_harness(expose="search") as harness:
        host = harness.host("local")
        listed = await harness.listed(host)
        assert estimate(encode(listed).decode()) <= 275
        assert not any("." in name for name in names(listed))
        told = await harness.ask(host, "initialize", {"protocolVersion": LEGACY})
        assert "search_tools" in told["result"]["instructions"]
    async with open_harness() as harness:
        told = await harness.ask(harness.host("local"), "initialize", {"protocolVersion": LEGACY})
        assert "search_tools" not in told["result"]["instructions"]


async def test_an_application_calls_match_intent_though_no_list_has_it(open_harness: OpenHarness) -> None:
    """No model pays for a tool that only programs use."""
    async with open_harness(expose="search") as harness:
        host = harness.host("local")
        assert "match_intent" not in names(await harness.listed(host))
        found = await harness.read(host, "match_intent", message="use the get_weather tool for Oslo")
        assert found["tools"] == ["maps.get_weather"]


async def test_auto_counts_as_the_stated_cost_does(open_harness: OpenHarness) -> None:
    """Proves: F5, D9. What `/metrics` calls the cost of the whole list is what the budget is compared with."""
    async with open_harness(expose="auto") as harness:
        await harness.listed(harness.host("local"))
        ((whole, _),) = harness.app.gateway.list_costs().values()
    for budget, expected in ((whole, ALL), (whole - 1, META)):
        async with open_harness(expose="auto", expose_budget=budget) as harness:
            assert names(await harness.listed(harness.host("local"))) == expected


async def test_auto_decides_for_each_agent_by_what_it_may_call(open_harness: OpenHarness) -> None:
    """Proves: F5, D4. A long list is short for one agent and whole for another, by their own costs."""
    policies = {"agents": {"all": {"allow": ["*"]}, "few": {"allow": ["maps.drive"]}}}
    cost = sum(estimate(encode(tool).decode()) for tools in TOOLS.values() for tool in tools)
    async with open_harness(policies, expose="auto", expose_budget=cost // 2) as harness:
        assert names(await harness.listed(harness.host("all"))) == META
        assert names(await harness.listed(harness.host("few"))) == ["maps.drive"]


@pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ({"expose": "search", "pinned": ["git.*"]}, [*META, *ALL[2:]], [*META, *ALL[2:], "git.merge"]),
        ({"expose": "auto", "expose_budget": 250}, ALL, META),
        ({"expose": "all"}, ALL, [*ALL, "git.merge"]),
    ],
)
async def test_a_short_list_follows_the_tools_and_the_configuration(
    open_harness: OpenHarness, settings: Json, before: list[str], after: list[str]
) -> None:
    """Proves: C5, F5. Also one that was made before, and for the same agent."""
    async with open_harness(**settings) as harness:
        host = harness.host("local")
        upstream, merge = harness.app.upstreams["git"], tool("merge", description="Merge two branches. " * 20)
        for more, expected in (([], before), ([merge], after), ([], before)):
            upstream.definitions = [*TOOLS["git"], *more]
            harness.app.updates.rebuild()
            for _ in range(2):
                assert names(await harness.listed(host)) == expected
