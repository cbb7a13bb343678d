"""Finding and reading tools through the meta tools: three levels, budgets, misses."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.rendering import answer
from tests.access.gateway_harness import LEGACY, MODERN, error_data, tool
from tests.laws import examples
from tests.meta.conftest import SERVERS, TOOLS, OpenHarness
from tests.peers.toolbox import Json
from tests.search.sample_index import tool as shelved

MANY = {"maps": [tool(f"place_{n}", {"at": {"type": "string"}}, description=f"Place number {n}.") for n in range(40)]}
ONE = {"maps": SERVERS["maps"]}


async def test_level_1_is_a_line_a_tool(open_harness: OpenHarness) -> None:
    """Proves: B2, F5. Each line begins with the canonical name; the best fit comes first."""
    async with open_harness() as harness:
        for host in (harness.host("local"), harness.host("local", MODERN), harness.host("local", names="compatible")):
            text = await harness.text(host, "search_tools", query="weather in a city")
            assert text.splitlines()[0] == "maps.get_weather: Weather forecast of a city for the next days"


async def test_levels_2_and_3_are_compact_json(open_harness: OpenHarness) -> None:
    """Proves: B2, F5. Parameters in a few words, then the whole schema, from whom, and what it is."""
    servers = {**SERVERS, "maps": {**SERVERS["maps"], "trusted": True}}
    async with open_harness(servers=servers) as harness:
        host = harness.host("local")
        brief = (await harness.read(host, "search_tools", query="weather", level=2))["tools"][0]
        assert brief["name"] == "maps.get_weather"
        assert brief["parameters"] == {"city": "string Name of the city", "days": "integer"}
        whole = (await harness.read(host, "search_tools", query="weather", level=3))["tools"][0]
        assert whole["inputSchema"]["properties"].keys() == {"city", "days"}
        assert (whole["source"], whole["server"]) == ("mcp", "maps")
        assert whole["annotations"] == {"readOnlyHint": True}
        assert (await harness.read(host, "describe_tools", names=["maps.get_weather"]))["tools"] == [whole]


async def test_the_hints_of_an_untrusted_server_are_not_vouched_for(open_harness: OpenHarness) -> None:
    """Proves: F5. What a server says of its own tools is shown only where it counts."""
    async with open_harness({"agents": {"a": {"allow": ["*"], "read_only": ["maps.drive"]}}}) as harness:
        described = await harness.read(harness.host("a"), "describe_tools", names=["maps.get_weather", "maps.drive"])
        assert [tool.get("annotations") for tool in described["tools"]] == [None, {"readOnlyHint": True}]


async def test_the_schema_shown_is_the_one_the_agent_is_held_to(open_harness: OpenHarness) -> None:
    """Proves: F5, D4. What a policy adds to a schema is in level 3."""
    only = {"properties": {"city": {"enum": ["Oslo"]}}}
    policies = {"agents": {"a": {"allow": ["maps.*"], "arguments": {"maps.get_weather": only}}}}
    async with open_harness(policies) as harness:
        for asked in ({"query": "weather", "level": 3}, {"names": ["maps.get_weather"]}):
            name = "search_tools" if "query" in asked else "describe_tools"
            assert only in (await harness.read(harness.host("a"), name, **asked))["tools"][0]["inputSchema"]["allOf"]


async def test_the_text_of_a_tool_is_the_agents_own_whoever_asked_before(open_harness: OpenHarness) -> None:
    """Proves: F5, D4. Texts are written once; a tool that a policy changed for one agent has its own."""
    only = {"properties": {"city": {"enum": ["Oslo"]}}}
    policies = {"agents": {"a": {"allow": ["*"]}, "b": {"allow": ["*"], "arguments": {"maps.get_weather": only}}}}
    async with open_harness(policies) as harness:
        asked = {"query": "weather", "level": 2}
        for _ in range(2):
            plain, held = [(await harness.read(harness.host(who), "search_tools", **asked))["tools"][0] for who in "ab"]
            assert (plain.get("lossy"), held.get("lossy")) == (None, True)
            assert {**held, "lossy": None} == {**plain, "lossy": None}


async def test_paging_shows_everything_once(open_harness: OpenHarness) -> None:
    """Proves: F5. `limit` and `cursor` go through all of it, with or without a question, and say what is left."""
    async with open_harness(tools=MANY, servers=ONE) as harness:
        host = harness.host("local")
        for query in ("", "place"):
            seen: list[str] = []
            asked: Json = {"query": query, "limit": 15}
            while True:
                lines = (await harness.text(host, "search_tools", **asked)).splitlines()
                seen += [line.partition(":")[0] for line in lines if not line.startswith("+")]
                if not lines[-1].startswith("+"):
                    break
                assert lines[-1].startswith(f"+{40 - len(seen)} more")
                asked["cursor"] = seen[-1]
            assert len(seen) == len(set(seen)) == 40
        assert "search again" in await harness.text(host, "search_tools", query="place", cursor="maps.gone")


async def test_a_budget_takes_whole_tools_only(open_harness: OpenHarness) -> None:
    """Proves: F5, B2. As many as fit `max_tokens`, the rest counted; one that is too small says what is needed."""
    async with open_harness(tools=MANY, servers=ONE) as harness:
        host = harness.host("local")
        for level in (1, 2, 3):
            text = await harness.text(host, "search_tools", query="place", level=level, limit=40, max_tokens=200)
            assert estimate(text) <= 200
            if level > 1:
                read = json.loads(text)
                assert len(read["tools"]) + read["more"] == 40
        assert "alone takes" in await harness.text(host, "search_tools", query="place", level=3, max_tokens=5)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 60), max_size=30), st.integers(0, 400), st.integers(1, 40), st.sampled_from([1, 2, 3]))
def test_any_answer_fits_and_counts(lengths: list[int], budget: int, limit: int, level: int) -> None:
    """Proves: F5. Whatever the tools and the budget: what is shown fits, and what is not is counted."""
    tools = [shelved(f"s.t{at}") for at in range(len(lengths))]
    words = {tool.own_name: "word " * length for tool, length in zip(tools, lengths, strict=True)}

    def render(tool: object) -> str:
        own = getattr(tool, "own_name", "")
        return f"s.{own}: {words[own]}" if level == 1 else json.dumps({"name": f"s.{own}", "is": words[own]})

    text = answer(tools, level, render, limit, budget)
    if "is too small" in text:
        assert estimate(render(tools[0])) > budget - 30
        return
    assert not tools or estimate(text) <= max(budget, 30)
    if level == 1:
        lines = [line for line in text.splitlines() if line.startswith("s.")]
        left = text.splitlines()[-1] if text else ""
        more = int(left[1 : left.index(" ")]) if left.startswith("+") else 0
        assert len(lines) + more == len(tools)
    else:
        read = json.loads(text)
        assert len(read["tools"]) + read.get("more", 0) == len(tools)


async def test_a_miss_says_where_else_to_look(open_harness: OpenHarness) -> None:
    """Proves: F5, C11. The nearest names, the servers, and those that are away and of which nothing is known."""
    async with open_harness(tools={"maps": TOOLS["maps"]}, down={"git": "unavailable"}) as harness:
        host = harness.host("local")
        missed = await harness.text(host, "search_tools", query="qwxzv")
        assert "No tool fits 'qwxzv'" in missed
        assert "git is unavailable" in missed
        assert "Servers: maps, git." in missed
        assert "Names like it" not in missed
        assert "Names like it: maps.get_weather. " in await harness.text(host, "search_tools", query="getwheather")
        assert "no server 'nope'" in await harness.text(host, "search_tools", server="nope")
        for field in ("server", "cursor"):
            assert len(await harness.text(host, "search_tools", **{field: "x" * 10_000})) < 1000
        described = await harness.read(host, "describe_tools", names=["maps.get_wether", "git.create_issue"])
        assert "maps.get_weather" in described["missing"]["maps.get_wether"]
        assert "unavailable" in described["missing"]["git.create_issue"]


async def test_servers_and_their_state(open_harness: OpenHarness) -> None:
    """Proves: C11, D3, E12. One line each: state, tools, what it is for; nothing of those the agent may not use."""
    for known, count in ((TOOLS, len(TOOLS["git"])), ({"maps": TOOLS["maps"]}, 0)):
        async with open_harness(tools=known, down={"git": "unavailable"}) as harness:
            there, away = (await harness.text(harness.host("local"), "list_servers")).splitlines()
            assert there == "maps (ready, 2 tools): Maps and weather"
            assert re.fullmatch(rf"git \(unavailable for \d+s, {count} tools?\): Code hosting", away)


async def test_tools_of_a_server_that_is_away_are_found(open_harness: OpenHarness) -> None:
    """Proves: F5, C11. A search says so once, a call is answered with the state, and another agent hears nothing."""
    policies = {"agents": {"a": {"allow": ["maps.*"]}, "b": {"allow": ["*"]}}}
    async with open_harness(policies, down={"git": "unavailable"}) as harness:
        for cursor in ({}, {"cursor": "maps.drive"}):
            found = (await harness.text(harness.host("b"), "search_tools", **cursor)).splitlines()
            assert any(line.startswith("git.create_issue") for line in found)
            assert found[-1] == "git is away: calls of its tools are refused until it is back."
        assert "is away" not in await harness.text(harness.host("b"), "search_tools", server="maps")
        assert "git" not in await harness.text(harness.host("a"), "search_tools")
        described = await harness.read(harness.host("b"), "describe_tools", names=["git.create_issue"])
        assert [one["name"] for one in described["tools"]] == ["git.create_issue"]


async def test_servers_that_an_agent_may_not_use_are_not_shown(open_harness: OpenHarness) -> None:
    """Proves: C11, E12. Nor are they while they are away."""
    async with open_harness({"agents": {"a": {"allow": ["maps.*"]}}}, down={"git": "unavailable"}) as harness:
        assert (await harness.text(harness.host("a"), "list_servers")).splitlines() == [
            "maps (ready, 2 tools): Maps and weather"
        ]


async def test_the_same_question_gives_the_same_bytes(open_harness: OpenHarness) -> None:
    """Proves: F5. Byte-stable answers keep prompt caches warm, whoever asked before."""
    policies = {"agents": {"a": {"allow": ["*"]}, "b": {"allow": ["git.*"]}}}
    async with open_harness(policies) as harness:
        asked = {"query": "issue in a repository", "level": 3}
        first = await harness.text(harness.host("a"), "search_tools", **asked)
        for _ in range(2):
            assert "maps." not in await harness.text(harness.host("b"), "search_tools", **asked)
        for limit in (100, 1):
            await harness.text(harness.host("a"), "search_tools", **asked, limit=limit)
        assert await harness.text(harness.host("a"), "search_tools", **asked) == first


@pytest.mark.parametrize(
    ("given_arguments", "place"),
    [({"level": 4}, "/level"), ({"limit": "few"}, "/limit"), ({"query": {"a": 1}}, "/query")],
)
async def test_bad_arguments_name_the_place(open_harness: OpenHarness, given_arguments: Json, place: str) -> None:
    """Proves: D6. A meta tool's own arguments are checked like any tool's."""
    async with open_harness() as harness:
        error = error_data(await harness.call(harness.host("local"), "search_tools", given_arguments))
        assert error["code"] == "invalid_arguments"
        assert error["problems"][0]["pointer"] == place


async def test_a_misspelt_argument_is_told(open_harness: OpenHarness) -> None:
    """Proves: D6, F5. What a meta tool does not know is refused, with what it takes."""
    async with open_harness() as harness:
        answer = await harness.call(harness.host("local"), "search_tools", {"querry": "weather"})
        assert error_data(answer)["code"] == "invalid_arguments"
        assert "does not know 'querry': it takes query," in answer["result"]["content"][0]["text"]


async def test_what_models_often_get_wrong_in_form_is_put_right(open_harness: OpenHarness) -> None:
    """Proves: F5. Numbers as texts, and one name where a list is due."""
    async with open_harness() as harness:
        host = harness.host("local")
        assert len((await harness.text(host, "search_tools", limit="2")).splitlines()) == 3
        assert (await harness.read(host, "describe_tools", names="maps.drive"))["tools"][0]["name"] == "maps.drive"


async def test_a_new_tool_is_found_at_once(open_harness: OpenHarness) -> None:
    """Proves: C5, F5. A server that changes its list changes what is found, for every agent."""
    async with open_harness() as harness:
        host = harness.host("local")
        assert "git.merge" not in await harness.text(host, "search_tools", query="merge branches")
        upstream = harness.app.upstreams["git"]
        upstream.definitions = [*TOOLS["git"], tool("merge", description="Merge two branches.")]
        harness.app.updates.rebuild()
        assert (await harness.text(host, "search_tools", query="merge branches")).startswith("git.merge: ")
        upstream.definitions = list(TOOLS["git"])
        harness.app.updates.rebuild()
        assert "git.merge" not in await harness.text(host, "search_tools", query="merge branches")


async def test_intent_names_what_can_be_called(open_harness: OpenHarness) -> None:
    """Proves: A2, A4, A5, F5. A message that names a tool gives a line to inject; one that does not gives nothing."""
    async with open_harness({"agents": {"a": {"allow": ["maps.*"]}}}) as harness:
        host = harness.host("a")
        found = await harness.read(host, "match_intent", message="use the get_weather tool for Oslo")
        assert (found["intent"], found["tools"], found["server"]) == ("mcp", ["maps.get_weather"], "maps")
        assert "maps.get_weather: Weather forecast" in found["snippet"]
        assert found["tokens"] == estimate(found["snippet"])
        for message in ("what a lovely day", "use the create_issue tool"):
            assert await harness.read(host, "match_intent", message=message) == {"intent": "none", "tools": []}


async def test_the_version_of_the_protocol_changes_nothing(open_harness: OpenHarness) -> None:
    """Proves: F5. Both eras get the same text."""
    async with open_harness() as harness:
        texts = {
            await harness.text(harness.host("local", version), "search_tools", query="route")
            for version in (LEGACY, MODERN)
        }
        assert len(texts) == 1


async def test_the_lines_end_with_the_tools_that_fit(open_harness: OpenHarness) -> None:
    """Proves: F5. The others are counted, and follow behind the cursor, up to the limit."""
    async with open_harness() as harness:
        host = harness.host("local")
        lines = (await harness.text(host, "search_tools", query="get the weather of a city")).splitlines()
        assert lines[0].startswith("maps.get_weather: ")
        rest = next(line for line in lines if line.startswith("+"))
        count, _, said = rest[1:].partition(" ")
        assert said.startswith("more that only share a word, go on with cursor ")
        shown = lines.index(rest)
        cursor = said.rpartition(" ")[2]
        behind = (
            await harness.text(host, "search_tools", query="get the weather of a city", cursor=cursor)
        ).splitlines()
        assert len(behind) == int(count)
        assert not {*lines[:shown]} & {*behind}
        one = (await harness.text(host, "search_tools", query="get the weather of a city", limit=1)).splitlines()
        assert one[0] == lines[0]


@pytest.mark.parametrize(("policies", "told"), [(None, True), ({"agents": {"local": {"allow": ["*"]}}}, False)])
async def test_the_times_of_calls_are_told_to_an_agent_that_is_alone(
    open_harness: OpenHarness, policies: Json | None, told: bool
) -> None:
    """Proves: D4. To one of several they would say what the others do."""
    async with open_harness(policies) as harness:
        host = harness.host("local")
        await harness.call(host, "maps.drive", {})
        said = await harness.text(host, "list_servers", server="maps")
        assert ("calls of the last 5 minutes: 1" in said) is told
