"""Calls through meta tools that are odd or hostile: no other tool runs, no rule is lost, and nothing breaks."""

from typing import Any

import pytest

from aggregator.gateway.meta import name_resolution
from tests.access.gateway_harness import error_data, tool
from tests.meta.conftest import SERVERS, TOOLS, OpenHarness
from tests.peers.toolbox import Json, text_result

TEXT: Json = {"type": "string"}
NAMED_ALIKE: dict[str, list[Json]] = {
    "maps": [tool("search_tools", {"query": TEXT}), tool("call_tool", {"name": TEXT}), tool("list")],
    "git": [tool("list"), tool("find", {"server": TEXT}), tool("only_here", {"title": TEXT})],
}


@pytest.mark.parametrize("name", ["search_tools", "mcp__aggregator__search_tools", "aggregator.search_tools"])
async def test_what_a_host_calls_a_meta_tool_is_no_other_tool(open_harness: OpenHarness, name: str) -> None:
    """Proves: F2, F5. `maps` has a tool of the same name, which takes its own whole name to be called."""
    async with open_harness(tools=NAMED_ALIKE) as harness:
        host = harness.host("local")
        assert "maps.list: " in await harness.text(host, "call_tool", tool=name, arguments={})
        assert harness.sent == []
        await harness.text(host, "call_tool", tool="maps.search_tools", arguments={})
        assert harness.sent == [("maps", "search_tools")]


@pytest.mark.parametrize(("outer", "nested"), [("call_tool", "read_tool"), ("read_tool", "call_tool")])
async def test_a_call_that_only_reads_stays_one_inside_another(
    open_harness: OpenHarness, outer: str, nested: str
) -> None:
    """Proves: F5, D6. `read_tool` anywhere on the way refuses what is not known to only read."""
    policies = {"agents": {"a": {"allow": ["*"], "read_only": ["git.create_issue"]}}}
    async with open_harness(policies, read_tool=True) as harness:
        host = harness.host("a")
        for name, code in (("git.delete_repo", "not_read_only"), ("git.create_issue", None)):
            answer = await harness.call(host, outer, {"name": nested, "arguments": {"name": name}})
            assert (error_data(answer)["code"] if code else None) == code
        assert harness.sent == [("git", "create_issue")]


NO_SCHEMAS = [
    {"type": "object", "allOf": 5},
    {"type": "object", "anyOf": {"properties": 5}},
    {"type": "object", "properties": {"input": {"type": 5}, "city": TEXT}},
    {"type": "object", "properties": {"input": {"type": {"object": 1}}, "city": TEXT}},
    {"type": "object", "properties": ["input"]},
    {"type": "object", "$ref": "#/$defs/none"},
    {"type": "object", "allOf": ["input", None, 3]},
]


@pytest.mark.parametrize("schema", NO_SCHEMAS)
async def test_a_schema_that_is_none_breaks_nothing(open_harness: OpenHarness, schema: Json) -> None:
    """Proves: D6. Its tool is left out, in whatever form the arguments come."""
    async with open_harness(tools={"maps": [{"name": "odd", "inputSchema": schema}]}) as harness:
        forms: list[Json] = [{"input": {"city": "Oslo"}}, {"args": {"input": {}}}, {"input": "{}"}]
        for sent in forms:
            error = error_data(await harness.call(harness.host("local"), "call_tool", {"name": "maps.odd", **sent}))
            assert error["message"] == "Unknown tool: 'maps.odd'."
        assert harness.sent == []


async def test_arguments_that_a_reference_declares_are_the_tools_own(open_harness: OpenHarness) -> None:
    """Proves: D4, F5. `input` of the schema behind `$ref` is an argument, and not the object of all arguments."""
    options = {"type": "object", "properties": {"input": {"$ref": "#/$defs/Input"}}}
    defs = {"Options": options, "Input": {"type": "object"}}
    tools = {
        "maps": [
            {"name": "at_top", "inputSchema": {"type": "object", "$ref": "#/$defs/Options", "$defs": defs}},
            {
                "name": "in_part",
                "inputSchema": {"type": "object", "allOf": [{"$ref": "#/$defs/Options"}], "$defs": defs},
            },
            {"name": "below", "inputSchema": {**options, "$defs": defs}},
        ]
    }
    async with open_harness(tools=tools) as harness:
        for name in ("at_top", "in_part", "below"):
            await harness.text(harness.host("local"), "call_tool", tool=f"maps.{name}", input={"input": {}})
            assert harness.fake_upstreams["maps"].calls[-1]["arguments"] == {"input": {"input": {}}}


@pytest.mark.parametrize(
    ("sent", "reached", "arrives"),
    [
        ({"server": "maps", "name": "list"}, ("maps", "list"), {}),
        ({"server_name": "GIT", "tool": "only-here", "args": {"title": "x"}}, ("git", "only_here"), {"title": "x"}),
        ({"server": "git", "tool": "git.only_here", "title": "x"}, ("git", "only_here"), {"title": "x"}),
        # An argument of the tool itself.
        ({"server": "git", "name": "find"}, ("git", "find"), {"server": "git"}),
        ({"server": "oslo", "name": "git.find"}, ("git", "find"), {"server": "oslo"}),
        # The host gave every member that it knows.
        ({"name": "git.only_here", "arguments": {"title": "x"}, "args": None}, ("git", "only_here"), {"title": "x"}),
        ({"name": "git.list", "arguments": []}, ("git", "list"), {}),
    ],
)  # fmt: skip
async def test_a_server_beside_the_name(
    open_harness: OpenHarness, sent: Json, reached: tuple[str, str], arrives: Json
) -> None:
    """Proves: F5. It tells two tools of one name apart, and is sent to neither."""
    async with open_harness(tools=NAMED_ALIKE) as harness:
        answer = await harness.call(harness.host("local"), "call_tool", sent)
        assert answer["result"]["content"] == text_result(f"did {reached[1]}")["content"]
        assert harness.sent == [reached]
        assert harness.fake_upstreams[reached[0]].calls[-1].get("arguments", {}) == arrives


async def test_a_server_that_is_not_the_tools_is_refused(open_harness: OpenHarness) -> None:
    """Proves: D4, D6. A tool of another server does not run, and a server that is hidden is told like an absent one."""
    policies = {"agents": {"a": {"allow": ["git.*"], "denials": "hidden"}}}
    async with open_harness(policies, tools=NAMED_ALIKE) as harness:
        for name in ("only_here", "list"):
            said = [
                error_data(await harness.call(harness.host("a"), "call_tool", {"server": server, "name": name}))
                for server in ("maps", "caps")
            ]
            assert f"git.{name} is of another server than 'maps'" in said[0]["message"]
            assert str(said[0]).replace("maps", "caps") == str(said[1])
        for server in ("maps", "caps"):
            hidden = await harness.call(harness.host("a"), "call_tool", {"server": server, "name": "search_it"})
            assert f"Unknown tool: '{server}.search_it'" in hidden["result"]["content"][0]["text"]
        assert harness.sent == []


async def test_answers_about_what_is_huge_are_short(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D6, F5. Names and members that are repeated are cut, and no long name is compared with every server."""
    lengths: list[int] = []

    def measured(name: str) -> str:
        lengths.append(len(name))
        return name.lower()

    monkeypatch.setattr(name_resolution, "loosened", measured)
    huge, many = "a_" * 100_000, {f"k{at}": 1 for at in range(5_000)}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("call_tool", {"name": huge}),
        ("call_tool", {"name": "git.list", "arguments": {"a": 1}, **many}),
        ("search_tools", {"server": huge}),
        ("search_tools", many),
        ("list_servers", {"server": huge}),
        ("describe_tools", {"names": [huge, f"mcp__{huge}"]}),
    ]
    async with open_harness(tools=TOOLS, servers=SERVERS) as harness:
        for name, arguments in asked:
            answer = await harness.call(harness.host("local"), name, arguments)
            assert len(str(answer)) < 2_000
        assert max(lengths) <= 200
        assert harness.sent == []


@pytest.mark.parametrize("name", ["data.base_drop", "data__base_drop", "database_dr.op", "vault.drop_all"])
async def test_a_dot_does_not_move(open_harness: OpenHarness, name: str) -> None:
    """Proves: D4, D5. What is written as a tool of `data` is not one of `database`, though the letters are the same."""
    tools = {"database": [tool("drop")], "files": [tool("vaultdrop_all")]}
    async with open_harness({"agents": {"a": {"allow": ["*"], "denials": "hidden"}}}, tools, {
        server: {"command": "never"} for server in tools
    }) as harness:  # fmt: skip
        host = harness.host("a")
        assert error_data(await harness.call(host, "call_tool", {"name": name}))["code"] == "unknown_tool"
        assert harness.sent == []
        for same in ("database_drop", "DataBase.Drop", "data-base.drop", "databasedrop", "vault_drop_all"):
            assert (await harness.call(host, "call_tool", {"name": same}))["result"]["content"]


@pytest.mark.parametrize("visibility", [["app"], ["app", "window"]])
async def test_a_tool_for_apps_is_no_models(open_harness: OpenHarness, visibility: list[str]) -> None:
    """Proves: D6. By no name and no meta tool; its program calls it by its own name, and others are as they were."""
    hidden = tool("redraw", _meta={"ui": {"visibility": visibility}})
    tools = {"maps": [hidden, tool("see", _meta={"ui": {"visibility": ["app", "model"]}})]}
    async with open_harness(tools=tools, read_tool=True) as harness:
        host = harness.host("local")
        for name in ("maps.redraw", "redraw", "maps__redraw", "`maps.redraw`"):
            for outer in ("call_tool", "read_tool"):
                sent = {"name": outer, "arguments": {"name": name}}
                for params in ({"name": name}, sent):
                    said = error_data(await harness.call(host, outer, params))
                    assert said["code"] == "unknown_tool"
            described = await harness.read(host, "describe_tools", names=[name, "maps.see"])
            assert [one["name"] for one in described["tools"]] == ["maps.see"]
            assert described["missing"][name].startswith("Unknown tool")
        assert "redraw" not in await harness.text(host, "search_tools")
        assert harness.sent == []
        assert (await harness.call(host, "maps.redraw", {}))["result"]["content"]
        assert (await harness.call(host, "call_tool", {"name": "maps.see"}))["result"]["content"]
        assert harness.sent == [("maps", "redraw"), ("maps", "see")]


async def test_arguments_that_only_look_like_ours_are_the_tools_own(open_harness: OpenHarness) -> None:
    """Proves: D4, F5. `Name`, `ARGS` and `Server` are arguments of a tool that declares them."""
    own = {"Name": "n", "ARGS": "a", "Server": "s"}
    tools = {"maps": [tool("odd", dict.fromkeys(own, TEXT)), tool("plain")]}
    async with open_harness(tools=tools) as harness:
        host = harness.host("local")
        assert (await harness.call(host, "call_tool", {"name": "maps.odd", **own}))["result"]["content"]
        assert harness.fake_upstreams["maps"].calls[-1]["arguments"] == own
        for name in ("Name", "ARGS"):
            said = error_data(await harness.call(host, "call_tool", {"name": "maps.plain", name: "x"}))
            assert f"does not know '{name}'" in said["message"]
        assert harness.sent == [("maps", "odd")]


async def test_an_object_with_other_members_does_not_hold_the_arguments(open_harness: OpenHarness) -> None:
    """Proves: D4. Under the name of an argument it is its value, which does not fit: nothing is called with it."""
    async with open_harness(tools={"maps": [tool("run", {"input": TEXT, "way": TEXT})]}) as harness:
        host = harness.host("local")
        for given in ({"input": {"other": "x"}}, {"input": {"input": "x", "other": "y"}}):
            error = error_data(await harness.call(host, "call_tool", {"name": "maps.run", **given}))
            assert (error["code"], error["tool"]) == ("invalid_arguments", "maps.run")
        assert harness.sent == []
        for given in ({"input": {"input": "x", "way": "y"}}, {"input": {"way": "y"}}):
            assert (await harness.call(host, "call_tool", {"name": "maps.run", **given}))["result"]["content"]
            assert harness.fake_upstreams["maps"].calls[-1]["arguments"] == given["input"]
