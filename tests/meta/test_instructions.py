"""The instructions for a model: within their budget, the same bytes again, and part of what a list is said to cost."""

import pytest

from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.principal import Principal
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.views.instructions import MOST_TOKENS, MOST_TOKENS_SHORT, instructions, instructions_at_start
from aggregator.gateway.views.views import View
from tests.access.gateway_harness import LEGACY
from tests.faults.app_harness import running_app, server_config, text_of
from tests.meta.conftest import OpenHarness
from tests.policy.build import book

NAMES = ("github", "aws-logs", "aws-network", "slack", "n8n", "地图", "postgres_main", "postgres_spare")


def made(count: int, words: str = "Notes and what goes with them") -> list[ServerConfig]:
    """Servers with names of several kinds."""
    names = [NAMES[at % 8] + (f"-{at // 8}" if at >= 8 else "") for at in range(count)]
    return [
        ServerConfig(id=name, key=name, prefix=name, type="stdio", command="none", description=words) for name in names
    ]


@pytest.mark.parametrize("count", [0, 1, 3, 8, 20, 60, 61, 93, 1_000])
@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("words", ["x", "Notes and what goes with them. " * 40, "查询天气和路线。" * 60])
def test_never_more_than_the_budget(count: int, short: bool, words: str) -> None:
    """F5: with any number of servers, whatever they say."""
    servers = made(count, words)
    said = {server.id: words for server in servers}
    text = instructions(servers, said, short=short)
    assert estimate(text) <= (MOST_TOKENS_SHORT if short else MOST_TOKENS) <= (150 if short else 300)
    assert text == instructions(made(count, words), dict(said), short=short)
    assert ("search_tools" in text) is short
    named = servers[0].prefix in text if servers else True
    assert named


def test_few_servers_are_told_of_in_full() -> None:
    servers = made(2)
    text = instructions(servers, {"github": "Ask me.\nFor \x1b[1missues."}, short=True)
    assert "- github: Notes and what goes with them" in text
    assert "- github: Ask me. For [1missues." in text, "their own words, on one line, behind the operator's"


def test_descriptions_are_left_out_last_first_then_names() -> None:
    """With more servers, the first ones keep their descriptions longest; nothing is left out unsaid."""
    forty = instructions(made(40, "Notes and what goes with them and more"), {}, short=False)
    assert "- github: Notes" in forty
    assert "Also: " in forty
    assert all(server.prefix in forty for server in made(40))
    some = instructions(made(16, "Notes and what goes with them and more"), {}, short=True)
    assert "- github: Notes" in some
    assert all(server.prefix.rpartition("_")[2].rpartition("aws-")[2] in some for server in made(16))
    many = instructions(made(1_000), {}, short=True)
    assert "aws-{logs, network, logs-1" in many
    assert " more. What each is for: list_servers." in many


async def test_they_are_part_of_the_stated_cost(open_harness: OpenHarness) -> None:
    """Proves: D9. What a list is said to cost has the instructions in it, once an agent was given them."""
    async with open_harness(expose="search") as harness:
        host = harness.host("local")
        await harness.listed(host)
        ((whole, shown),) = harness.app.gateway.list_costs().values()
        told = await harness.ask(host, "initialize", {"protocolVersion": LEGACY})
        ((whole_told, shown_told),) = harness.app.gateway.list_costs().values()
        cost = estimate(told["result"]["instructions"])
        assert cost > 20
        assert (whole_told - whole, shown_told - shown) == (cost, cost)


@pytest.mark.parametrize("short", [False, True])
def test_an_agent_that_may_use_no_server_is_said_so(short: bool) -> None:
    """Rather than a heading with nothing below it."""
    text = instructions([], {}, short=short)
    assert "No tools are allowed here" in text
    assert "each named after its server:" not in text


@pytest.mark.parametrize(("count", "said"), [(1, "aws_0 is switched off"), (5, "and 2 more are switched off")])
async def test_servers_that_are_switched_off_are_said_if_there_is_no_other(count: int, said: str) -> None:
    """In place of words about what is allowed, at the start of a host over stdio and later, and by `list_servers`."""
    off = tuple(
        server_config(f"aws_{at}", type="stdio", command="none", enabled=False, prefix=f"aws_{at}")
        for at in range(count)
    )
    assert said in instructions_at_start(Config(servers=off), None)
    async with running_app(*off) as harness:
        told = await harness.ask("initialize", {"protocolVersion": LEGACY})
        assert said in told["instructions"]
        assert said in text_of(await harness.call("list_servers"))


def test_servers_that_an_agent_may_not_use_are_not_named() -> None:
    """Proves: E4. Whether they are switched on or off."""
    config = Config(servers=(server_config("bank", type="stdio", command="none", enabled=False),))
    rules = book({"agents": {"clerk": {"allow": ["bank.*"]}, "guest": {"allow": ["shop.*"]}}})
    assert "bank is switched off" in instructions_at_start(config, View(Principal("clerk"), rules, {}))
    hidden = instructions_at_start(config, View(Principal("guest"), rules, {}))
    assert "No tools are allowed here" in hidden
    assert "bank" not in hidden
