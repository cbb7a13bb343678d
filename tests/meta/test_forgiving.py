"""Names and arguments as models write them: each form saves a round, and none lets a call past a rule."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.catalog.names import SpellingLookup
from aggregator.domain.errors import BadArguments
from aggregator.domain.names import keeps_parts, loosened
from aggregator.gateway.meta.argument_aliases import in_form
from aggregator.gateway.meta.registry import load_meta_tools
from tests.access.gateway_harness import FORMS, MODERN, error_data, tool
from tests.laws import examples
from tests.meta.conftest import SERVERS, TOOLS, OpenHarness
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, text_result
from tests.search.sample_index import tool as shelved

CITY = {"city": "Oslo"}
SAME: dict[str, list[Json]] = {
    "maps": [*TOOLS["maps"], tool("list_items")],
    "git": [
        *TOOLS["git"],
        tool("list_items"),
        tool("run", {"input": {"type": "string"}, "tool": {"type": "string"}}),
        tool("filter", {"query": {"type": "string"}, "args": {"type": "object"}}),
        tool("Merge-Branch", {"name": {"type": "string"}}),
    ],
}


@pytest.mark.parametrize(
    "name",
    [
        "get_weather",
        "getWeather",
        "Get-Weather",
        "maps/get_weather",
        "maps__get_weather",
        "maps:get_weather",
        "maps.get-weather",
        "maps_get_weather",
        "MAPS.GET_WEATHER",
        "mcp__aggregator__maps__get_weather",
        "mcp__aggregator__get_weather",
        "mcp__maps__get_weather",
        "aggregator.maps.get_weather",
        "`maps.get_weather`",
        "```\nget_weather\n```",
        "functions.maps.get_weather",
        "functions.get_weather",
        "maps.get_weather()",
        "`functions.maps.get_weather()`",
    ],
)
async def test_a_name_that_only_one_tool_can_have_is_that_tool(open_harness: OpenHarness, name: str) -> None:
    """Proves: F5. In calls, descriptions and the record of the call, which has the canonical name."""
    async with open_harness(tools=SAME) as harness:
        host = harness.host("local")
        answer = await harness.call(host, "call_tool", {"name": name, "arguments": CITY})
        assert answer["result"]["content"] == text_result("did get_weather")["content"]
        assert harness.fake_upstreams["maps"].calls[-1]["arguments"] == CITY
        described = await harness.read(host, "describe_tools", names=[name])
        assert [one["name"] for one in described["tools"]] == ["maps.get_weather"]


async def test_nothing_is_chosen_between_two(open_harness: OpenHarness) -> None:
    """Proves: F5. A name that two tools have names both; nothing is called."""
    async with open_harness(tools=SAME) as harness:
        host = harness.host("local")
        error = error_data(await harness.call(host, "call_tool", {"name": "list-items"}))
        assert error["code"] == "invalid_arguments"
        assert "maps.list_items, git.list_items" in error["message"]
        missing = (await harness.read(host, "describe_tools", names="list_items"))["missing"]
        assert "maps.list_items, git.list_items" in missing["list_items"]
        assert harness.sent == []


async def test_only_what_the_agent_may_call_counts(open_harness: OpenHarness) -> None:
    """Proves: F3, D9. A tool it may not call makes no name ambiguous, is never meant, and is not told of."""
    policies = {"agents": {"h": {"allow": ["maps.*"], "denials": "hidden"}, "e": {"allow": ["maps.*"]}}}
    async with open_harness(policies, tools=SAME) as harness:
        for agent in ("h", "e"):
            host = harness.host(agent)
            assert (await harness.call(host, "call_tool", {"name": "list_items"}))["result"]["content"]
            for name in ("create_issue", "mcp__aggregator__git__create_issue", "Git.Create_Issue", "git"):
                for absent in (name.replace("create_issue", "nowhere"), name.replace("git", "got")):
                    said, none = [
                        error_data(await harness.call(host, "call_tool", {"name": one})) for one in (name, absent)
                    ]
                    assert (said["code"], said.keys()) == (none["code"], none.keys()) or agent == "e"
                assert said["code"] in ("unknown_tool", "tool_not_allowed")
        assert harness.sent == [("maps", "list_items")] * 2


async def test_what_is_denied_as_it_is_written_is_not_taken_for_another(open_harness: OpenHarness) -> None:
    """Proves: D5. `a.b_c` is refused although `a_b.c`, which is spelled like it, is allowed."""
    tools = {"maps": [tool("b_c")], "git": [tool("c")]}
    servers = {"maps": {**SERVERS["maps"], "prefix": "a"}, "git": {**SERVERS["git"], "prefix": "ab"}}
    async with open_harness({"agents": {"e": {"allow": ["ab.*"]}}}, tools=tools, servers=servers) as harness:
        denied = error_data(await harness.call(harness.host("e"), "call_tool", {"name": "a.b_c"}))
        assert denied["code"] == "tool_not_allowed"
        assert harness.sent == []


@pytest.mark.parametrize(
    ("sent", "reached", "arrives"),
    [
        *(
            ({"name": "get_weather", member: CITY}, "get_weather", CITY)
            for member in (
                *("arguments", "parameters", "args", "input", "params"),
                *("tool_input", "toolArguments", "tool_arguments", "kwargs", "payload"),
            )
        ),
        *(
            ({"name": "get_weather", member: text}, "get_weather", CITY)
            for member in ("arguments", "payload")
            for text in (
                '```json\n{"city": "Oslo"}\n```',
                '```{"city": "Oslo"}```',
                '`{"city": "Oslo"}`',
                '"{\\"city\\": \\"Oslo\\"}"',
            )
        ),
        ({"toolName": "get_weather", "toolArguments": CITY}, "get_weather", CITY),
        ({"arguments": {"name": "get_weather", "arguments": CITY}}, "get_weather", CITY),
        ({"input": {"tool": "get_weather", "input": CITY}}, "get_weather", CITY),
        ({"function": "get_weather", "arguments": CITY}, "get_weather", CITY),
        ({"name": "git.run", "function": "main"}, "run", {"function": "main"}),
        ({"name": "get_weather", "arguments_json": '{"city": "Oslo"}'}, "get_weather", CITY),
        ({"name": "get_weather", "args": '{"city": "Oslo"}'}, "get_weather", CITY),
        ({"tool": "get_weather", **CITY}, "get_weather", CITY),
        ({"tool_name": "get_weather", "parameters": CITY}, "get_weather", CITY),
        ({"name": "get_weather", "tool": "get_weather", "args": CITY}, "get_weather", CITY),
        ({"name": "get_weather", "args": None}, "get_weather", {}),
        # Arguments of the tool itself that have one of these names.
        ({"name": "git.run", "input": "x"}, "run", {"input": "x"}),
        ({"name": "git.run", "input": '{"input": "x"}'}, "run", {"input": '{"input": "x"}'}),
        ({"name": "git.run", "input": {"input": "x"}}, "run", {"input": "x"}),
        ({"name": "git.run", "args": {"input": "x"}}, "run", {"input": "x"}),
        ({"name": "git.run", "arguments": {"input": "x", "tool": "y"}}, "run", {"input": "x", "tool": "y"}),
        ({"name": "git.run", "tool": "hammer", "input": "x"}, "run", {"input": "x", "tool": "hammer"}),
        ({"name": "git.run", "tool": "git.run", "input": "x"}, "run", {"input": "x", "tool": "git.run"}),
        ({"name": "git.filter", "query": "x", "args": {"a": 1}}, "filter", {"query": "x", "args": {"a": 1}}),
        ({"name": "git.filter", "args": {"query": "x"}}, "filter", {"args": {"query": "x"}}),
        ({"tool": "git.delete_repo", "name": "x"}, "delete_repo", {"name": "x"}),
        ({"tool": "merge_branch", "name": "x"}, "Merge-Branch", {"name": "x"}),
        # A call of a meta tool inside a call.
        ({"name": "call_tool", "args": {"tool": "get_weather", "params": CITY}}, "get_weather", CITY),
        ({"name": "mcp__aggregator__call_tool", "args": {"name": "get_weather", **CITY}}, "get_weather", CITY),
    ],
)
async def test_arguments_in_every_form(open_harness: OpenHarness, sent: Json, reached: str, arrives: Json) -> None:
    """Proves: F5. Other names of the members, beside each other or not, never in the place of the tool's own."""
    async with open_harness(tools=SAME) as harness:
        for version in ("2025-11-25", MODERN):
            answer = await harness.call(harness.host("local", version), "call_tool", sent)
            assert answer["result"]["content"] == text_result(f"did {reached}")["content"]
        for upstream in harness.fake_upstreams.values():
            assert all(call.get("arguments", {}) == arrives for call in upstream.calls)


@pytest.mark.parametrize(
    ("sent", "said_of_it"),
    [
        ({"name": "get_weather", "arguments": CITY, "args": CITY}, "'arguments', 'args'"),
        ({"name": "get_weather", "arguments": {}, "args": CITY}, "'arguments', 'args'"),
        ({"name": "get_weather", "parameters": CITY, "input": CITY}, "'parameters', 'input'"),
        ({"name": "get_weather", "args": CITY, "days": 2}, "'days' beside `args`"),
        ({"name": "get_weather", "Arguments": CITY}, "write `arguments`"),
        ({"name": "get_weather", "arguments": CITY, "ARGS": CITY}, "write `args`"),
        ({"name": "get_weather", "Name": "git.delete_repo"}, "write `name`"),
        ({"name": "get_weather", "tool": "git.delete_repo"}, "'name', 'tool'"),
        ({"name": "git.run", "tool": "git.delete_repo", "tool_name": "x"}, "give the tool as `name`"),
        ({"tool": ""}, "needs `name`"),
        ({"toolName": "get_weather", "function": "git.delete_repo"}, "'toolName', 'function'"),
        ({"name": "get_weather", "payload": CITY, "kwargs": CITY}, "'kwargs', 'payload'"),
        ({"name": "get_weather", "Payload": CITY}, "write `payload`"),
        ({"toolname": "get_weather"}, "needs `name`"),
        ({"name": "get_weather", "arguments": "```json\n[1]\n```"}, "must be a JSON object"),
        ({"name": "get_weather", "arguments": '"\\"{}\\""'}, "must be a JSON object"),
    ],
)
async def test_one_thing_given_twice_is_refused(open_harness: OpenHarness, sent: Json, said_of_it: str) -> None:
    """Proves: D4, D6. What is decided about is what is sent: no second object of arguments beside the first."""
    async with open_harness(tools=SAME) as harness:
        error = error_data(await harness.call(harness.host("local"), "call_tool", sent))
        assert error["code"] == "invalid_arguments"
        assert said_of_it in error["message"]
        assert harness.sent == []


async def test_rules_hold_for_every_form(open_harness: OpenHarness) -> None:
    """Proves: D4, D5, B6. Schema, denial and confirmation are those of the tool that is called, by its whole name."""
    policies: Any = {
        "agents": {
            "a": {
                "allow": ["maps.*", "git.delete_repo"],
                "deny": ["maps.drive"],
                "arguments": {"maps.get_weather": {"properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}},
                "confirm": ["git.delete_repo"],
            }
        }
    }

    async def agrees(params: Json) -> Json:
        return {"action": "accept", "content": {"allow": True}}

    async with open_harness(policies) as harness:
        host = harness.host("a", capabilities=FORMS)
        for member in ("arguments", "args", "input"):
            unfit = error_data(await harness.call(host, "call_tool", {"name": "getWeather", member: {"city": "Rome"}}))
            assert (unfit["code"], unfit["tool"]) == ("invalid_arguments", "maps.get_weather")
        assert error_data(await harness.call(host, "call_tool", {"tool": "maps/drive"}))["code"] == "tool_not_allowed"
        channel = AnsweringBackChannel(agrees)
        sent = {"tool": "DeleteRepo", "parameters": {"name": "x"}}
        assert (await harness.call(host, "call_tool", sent, channel))["result"]["content"]
        assert "'delete_repo' of the server 'git'" in channel.asked[0]["message"]
        assert harness.sent == [("git", "delete_repo")]


async def test_a_server_is_told_from_a_tool(open_harness: OpenHarness) -> None:
    """Proves: F5. `call_tool github` names the tools of github; a misspelt server names the nearest."""
    async with open_harness() as harness:
        host = harness.host("local")
        for name in ("maps", "Maps"):
            answer = await harness.call(host, "call_tool", {"name": name})
            assert error_data(answer)["code"] == "unknown_tool"
            said = answer["result"]["content"][0]["text"]
            assert said.startswith("maps is a server, not a tool. Its tools:\nmaps.get_weather: Weather")
            assert (await harness.read(host, "describe_tools", names=name))["missing"] == {name: said}
        assert "Did you mean maps?" in await harness.text(host, "search_tools", server="map")
        assert "Did you mean maps?" in await harness.text(host, "list_servers", server="mapps")
        named = await harness.call(host, "list_servers", {"name": "GIT"})
        assert named["result"]["content"][0]["text"].startswith("git (ready")
        assert "maps.drive" in await harness.text(host, "search_tools", server="MAPS")


async def test_a_misspelt_name_without_a_server_has_nearest_ones(open_harness: OpenHarness) -> None:
    """Proves: F5, C9. The names to take instead are whole ones."""
    async with open_harness(tools=SAME) as harness:
        for name in ("get_wether", "get_the_weather"):
            error = error_data(await harness.call(harness.host("local"), "call_tool", {"name": name}))
            assert (error["code"], error["nearest"][:1]) == ("unknown_tool", ["maps.get_weather"])


async def test_many_tools_of_a_server_are_counted(open_harness: OpenHarness) -> None:
    """Proves: F5. The lines about a server stay within a budget."""
    many = {"maps": [tool(f"place_{n}", description=f"Place number {n} of the city.") for n in range(400)]}
    async with open_harness(tools=many, servers={"maps": SERVERS["maps"]}) as harness:
        answer = await harness.call(harness.host("local"), "call_tool", {"name": "maps"})
        said = answer["result"]["content"][0]["text"].splitlines()
        assert 10 < len(said) < 50
        assert said[-1] == f"+{400 - len(said) + 2} more: search_tools with server maps lists them all"


@pytest.mark.parametrize(
    ("name", "sent", "read"),
    [
        ("search_tools", {"q": "x"}, {"query": "x"}),
        ("search_tools", {"keywords": ["x", "y"]}, {"query": "x y"}),
        ("search_tools", {"text": "x", "limit": 500}, {"query": "x", "limit": 100}),
        ("search_tools", {"search": "x", "limit": -3}, {"query": "x", "limit": 1}),
        ("search_tools", {"limit": "1000"}, {"limit": 100}),
        ("search_tools", {"limit": 1e400}, {"limit": 100}),
        ("search_tools", {"limit": "ten"}, {"limit": "ten"}),
        ("search_tools", {"limit": True}, {"limit": True}),
        ("search_tools", {"limit": "nan"}, {"limit": 1}),
        ("search_tools", {"limit": 1.5}, {"limit": 1.5}),
        ("search_tools", {"limit": 2, "top_k": "2.0"}, {"limit": 2}),
        ("search_tools", {"level": "Full"}, {"level": 3}),
        ("search_tools", {"level": "json_schema"}, {"level": 3}),
        ("search_tools", {"level": "brief"}, {"level": "brief"}),
        ("describe_tools", {"tools": "a.b"}, {"names": ["a.b"]}),
        ("describe_tools", {"name": "a.b, c.d"}, {"names": ["a.b", "c.d"]}),
        ("describe_tools", {"names": '["a.b", "c.d"]'}, {"names": ["a.b", "c.d"]}),
        ("describe_tools", {"names": "[a.b"}, {"names": "[a.b"}),
        ("describe_tools", {"names": "`a.b`, `c.d`"}, {"names": ["`a.b`", "`c.d`"]}),
        ("describe_tools", {"names": {"name": "a.b"}}, {"names": ["a.b"]}),
        ("describe_tools", {"names": [{"name": "a.b", "level": 1}]}, {"names": [{"name": "a.b", "level": 1}]}),
        ("describe_tools", {"tools": [{"name": "a.b"}]}, {"names": ["a.b"]}),
        ("list_servers", {"name": "a"}, {"server": "a"}),
        ("match_intent", {"text": "a"}, {"message": "a"}),
        (
            "read_result",
            {"lines": 2, "case_sensitive": True, "count_only": False},
            {"context": 2, "case": True, "count": False},
        ),
        ("read_result", {"id": "agr_1"}, {"handle": "agr_1"}),
        ("read_result", {"fields": ["a"], "filter": {"a": 1}}, {"columns": ["a"], "where": {"a": 1}}),
        ("read_result", {"select": "a, b", "where": "a = 1"}, {"columns": "a, b", "where": "a = 1"}),
        ("read_result", {"params": {"id": "agr_1"}}, {"handle": "agr_1"}),
        ("search_tools", {"arguments": {"q": "x", "limit": "3"}}, {"query": "x", "limit": 3}),
        ("search_tools", {"input": "x"}, {"input": "x"}),
        ("search_tools", {"arguments": {"q": "x"}, "limit": 3}, {"arguments": {"q": "x"}, "limit": 3}),
        ("describe_tools", {"other": {"names": ["a.b"]}}, {"other": {"names": ["a.b"]}}),
        (
            "read_result",
            {"uri": "u", "pattern": "a", "start": 5, "max_tokens": 9},
            {"handle": "u", "grep": "a", "offset": 5, "limit": 9},
        ),
        ("search_tools", {"nonsense": 1}, {"nonsense": 1}),
        ("search_tools", {"query": "a", "q": "a"}, {"query": "a"}),
        ("search_tools", {"query": "a", "detail": "Full"}, {"query": "a", "level": 3}),
        ("search_tools", {"detail": "brief", "level": 1}, {"level": 1}),
        ("search_tools", {"detail": "some"}, {"detail": "some"}),
        ("describe_tools", {"names": ["a.b"], "name": "a.b"}, {"names": ["a.b"]}),
        ("describe_tools", {"names": "a.b", "detail": "brief"}, {"names": ["a.b"], "level": 2}),
        ("describe_tools", {"names": '```json\n["a.b"]\n```'}, {"names": ["a.b"]}),
    ],
)
def test_the_arguments_of_meta_tools(name: str, sent: Json, read: Json) -> None:
    """Proves: F5. Other names, lone values, numbers outside the bounds; what is not clear stays for the check."""
    assert in_form(name, load_meta_tools()[name].accepted.definition["inputSchema"], sent) == read


@pytest.mark.parametrize(
    ("name", "own", "others"),
    [
        ("search_tools", "query", "q keywords keyword text search"),
        ("search_tools", "server", "server_name"),
        ("search_tools", "limit", "max_results top_k"),
        ("describe_tools", "names", "tools name tool tool_name tool_names"),
        ("list_servers", "server", "name server_name"),
        ("read_result", "handle", "id result result_id uri"),
        ("read_result", "grep", "pattern regex query search"),
        ("read_result", "offset", "start"),
        ("read_result", "limit", "max_tokens"),
        ("read_result", "context", "context_lines lines"),
        ("read_result", "case", "case_sensitive"),
        ("read_result", "count", "count_only"),
        ("read_result", "columns", "fields select cols"),
        ("read_result", "where", "filter condition conditions"),
        ("report_tool", "name", "tool tool_name names"),
        ("report_tool", "why", "reason message description text problem issue"),
        ("match_intent", "message", "text query input"),
    ],
)
def test_every_other_name_of_an_argument(name: str, own: str, others: str) -> None:
    """Proves: F5. Each means the argument, and says no other thing beside it."""
    schema = load_meta_tools()[name].accepted.definition["inputSchema"]
    for other in others.split():
        assert in_form(name, schema, {other: 1}) == in_form(name, schema, {own: 1})
        assert in_form(name, schema, {own: "a", other: "a"}) == in_form(name, schema, {own: "a"})
        for one, another in (("a", "b"), (1, True), (True, 1)):
            with pytest.raises(BadArguments):
                in_form(name, schema, {own: one, other: another})


@pytest.mark.parametrize("name", ["search_tools", "describe_tools"])
def test_every_word_for_a_level(name: str) -> None:
    """Proves: F5. `brief` is what the tool shows by itself, so only `detail` has it."""
    schema = load_meta_tools()[name].accepted.definition["inputSchema"]
    words = (
        "line,lines,one line,short,minimal,name,names",
        "parameters,params,medium,signature",
        "full,schema,JSON Schema,json_schema,all,complete,whole,max,maximum",
    )
    for level, some in enumerate(words, 1):
        assert {in_form(name, schema, {"level": word})["level"] for word in some.split(",")} == {level}
    details = {word: in_form(name, schema, {"detail": word})["level"] for word in ("brief", "FULL")}
    assert details == {"brief": 1 if name == "search_tools" else 2, "FULL": 3}


async def test_a_question_given_twice_is_refused(open_harness: OpenHarness) -> None:
    """Proves: D6. `query` and `q` at once: neither is dropped."""
    async with open_harness() as harness:
        error = error_data(await harness.call(harness.host("local"), "search_tools", {"query": "a", "q": "b"}))
        assert "`query` twice" in error["message"]


async def test_names_between_blanks_and_every_server(open_harness: OpenHarness) -> None:
    """Proves: F5. Each of the names is one tool's, or the whole stays one name; `all` is no server's name here."""
    async with open_harness(tools=SAME) as harness:
        host = harness.host("local")
        described = await harness.read(host, "describe_tools", names="maps.get_weather `git.run`")
        assert [one["name"] for one in described["tools"]] == ["maps.get_weather", "git.run"]
        described = await harness.read(host, "describe_tools", names="Get Weather")
        assert [one["name"] for one in described["tools"]] == ["maps.get_weather"]
        missing = (await harness.read(host, "describe_tools", names="git.run nowhere"))["missing"]
        assert missing.keys() == {"git.run nowhere"}
        for server in ("all", "ALL", "*", ""):
            assert "maps.get_weather" in await harness.text(host, "search_tools", query="weather", server=server)
            assert "git (" in await harness.text(host, "list_servers", server=server)
        assert (await harness.text(host, "search_tools", server="alle")).startswith("There is no server 'alle'")


def spelled(chance: random.Random, name: str) -> str:
    """Return the name with its case and the signs between its words changed."""
    signs = ["_", "-", ".", "/", ":", " ", "__", ""]
    return "".join(chance.choice(signs) if char in "._-" else chance.choice([char.upper(), char]) for char in name)


WORDS = st.lists(st.sampled_from(["get", "set", "issue", "a", "b", "ab", "list"]), min_size=1, max_size=3)
OWN = st.builds(lambda words, sign: sign.join(words), WORDS, st.sampled_from(["_", "-", ""]))
NAMES = st.lists(st.tuples(st.sampled_from(["git", "a", "ab", "maps"]), OWN), min_size=1, max_size=12, unique=True)


@settings(max_examples=examples(400), deadline=None)
@given(NAMES, st.integers(0, 11), st.randoms(use_true_random=False), st.booleans())
def test_a_spelling_never_means_a_different_tool(
    names: list[tuple[str, str]], at: int, chance: random.Random, whole: bool
) -> None:
    """Proves: F5. Whatever the tools: a spelling of one gives that one, or all that share it, or one written so."""
    lookup = SpellingLookup()
    for prefix, own in names:
        lookup.add(shelved(f"{prefix}.{own}"))
    prefix, own = names[at % len(names)]
    written = spelled(chance, f"{prefix}.{own}" if whole else own)
    found = {one.name for one in lookup.tools(written)}
    loose = loosened(written)
    wholly = {
        f"{p}.{o}" for p, o in names if o == written or (loosened(p + o) == loose and keeps_parts(written, f"{p}.{o}"))
    }
    bare = {f"{p}.{o}" for p, o in names if loosened(o) == loose and keeps_parts(written, o)}
    assert found == (wholly or bare)
    assert f"{prefix}.{own}" in found or wholly


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_a_name_that_can_be_looked_for(name: str) -> None:
    """Proves: D6. Nothing that a model writes raises; what has no letters is nothing's name."""
    lookup = SpellingLookup()
    lookup.add(shelved("git.-_-"))
    lookup.add(shelved("git.get_issue"))
    for one in lookup.tools(name):
        assert loosened(name) in (loosened(one.name), loosened(one.own_name))
        assert json.dumps(one.name)
