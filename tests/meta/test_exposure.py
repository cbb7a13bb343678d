"""How much is listed: everything, five tools, or what the cost of the list decides."""

import pytest

from aggregator.catalog.describe.tokens import estimate
from aggregator.wire.codec import encode
from tests.access.desk import LEGACY, MODERN
from tests.meta.conftest import WORLD, Open
from tests.peers.toolbox import Json

META = ["search_tools", "describe_tools", "call_tool", "list_servers", "match_intent"]
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
async def test_the_nearest_word_counts(opened: Open, settings: Json, expected: list[str]) -> None:
    """Proves: F5. `expose` for all doors, for one, by cost; pinned tools stay on the short list."""
    async with opened(**settings) as counter:
        host = counter.host("local")
        assert names(await counter.listed(host)) == expected
        for name in ("maps.drive", "git__create_issue"):
            assert (await counter.call(host, name))["result"]["content"], "whatever is listed, all can be called"
        assert await counter.text(host, "list_servers")


async def test_a_policy_says_it_for_an_agent(opened: Open) -> None:
    """Proves: F5, D4. The agent's word is nearer than the door's; what is pinned must be allowed all the same."""
    policies = {
        "agents": {
            "short": {"allow": ["maps.*"], "expose": "search", "pinned": ["maps.drive", "git.*"]},
            "long": {"allow": ["git.*"], "roles": ["whole"]},
        },
        "roles": {"whole": {"expose": "all"}},
    }
    async with opened(policies, expose="search") as counter:
        assert names(await counter.listed(counter.host("short"))) == [*META, "maps.drive"]
        assert names(await counter.listed(counter.host("long"))) == ["git.create_issue", "git.delete_repo"]


async def test_nothing_that_is_called_changes_the_list(opened: Open) -> None:
    """Proves: F5. The list depends on agent and catalog only (S/server/tools)."""
    async with opened(expose="search") as counter:
        for host in (counter.host("local"), counter.host("local", MODERN)):
            before = encode(await counter.listed(host))
            await counter.text(host, "search_tools", query="weather")
            await counter.call(host, "call_tool", {"name": "maps.get_weather", "arguments": {}})
            assert encode(await counter.listed(host)) == before


async def test_the_five_are_cheap_and_said_in_the_instructions(opened: Open) -> None:
    """Proves: F5. Their definitions cost at most 350 tokens, have no dots, and the host is told what they are for."""
    async with opened(expose="search") as counter:
        host = counter.host("local")
        listed = await counter.listed(host)
        assert estimate(encode(listed).decode()) <= 350
        assert not any("." in name for name in names(listed))
        told = await counter.ask(host, "initialize", {"protocolVersion": LEGACY})
        assert "search_tools" in told["result"]["instructions"]
    async with opened() as counter:
        told = await counter.ask(counter.host("local"), "initialize", {"protocolVersion": LEGACY})
        assert "search_tools" not in told["result"]["instructions"]


async def test_auto_decides_for_each_agent_by_what_it_may_call(opened: Open) -> None:
    """Proves: F5, D4. A long list is short for one agent and whole for another, by their own costs."""
    policies = {"agents": {"all": {"allow": ["*"]}, "few": {"allow": ["maps.drive"]}}}
    cost = sum(estimate(encode(tool).decode()) for tools in WORLD.values() for tool in tools)
    async with opened(policies, expose="auto", expose_budget=cost // 2) as counter:
        assert names(await counter.listed(counter.host("all"))) == META
        assert names(await counter.listed(counter.host("few"))) == ["maps.drive"]
