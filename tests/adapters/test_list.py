"""What an agent is offered as LangChain tools: which tools, with what of them, and how it hears of changes."""

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import pytest
from agents import FunctionTool
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

import aggregator
from aggregator.adapters import openai_agents
from aggregator.adapters.langchain import LangChainTool, LangChainTools, open_tools
from tests.access.recording_toolbox import RecordingToolbox
from tests.adapters.config_folder import BOUND, TEXT, ConfigFolder, recording_server, tool_message, tools_by_name
from tests.peers.sdk import http_app
from tests.peers.serving import serving
from tests.peers.toolbox import Json, Toolbox, text_result, tool

RULES: Final = {"type": "object", "properties": {"n": {"maximum": 3}}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at twenty times a second."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)


async def until_changed(tools: LangChainTools) -> None:
    async with asyncio.timeout(BOUND):
        assert await tools.changed()
    assert await tools.refresh()


async def test_a_tool_has_all_that_its_server_says(tmp_path: Path) -> None:
    """Proves: E6, E12. Name, description and schema whole; where it comes from; the definition with unknown fields."""
    async with serving(http_app()) as address:
        local = recording_server("get", "deep.er")
        config_folder = ConfigFolder(
            tmp_path, {"shop": local.config_entry(), "far": {"type": "http", "url": f"{address}/mcp"}}
        )
        async with open_tools(config_folder) as tools:
            by_name = tools_by_name(tools)
            for server, source, definitions in (
                ("shop", "local", local.definitions),
                ("far", "mcp", Toolbox().definitions),
            ):
                theirs = [t for t in tools if t.metadata is not None and t.metadata["server"] == server]
                assert len(theirs) == len(definitions)
                for one, definition in zip(theirs, definitions, strict=True):
                    assert isinstance(one, LangChainTool)
                    assert one.metadata is not None
                    assert one.description == definition["description"]
                    assert one.args_schema == definition["inputSchema"]
                    assert one.definition == {**definition, "name": one.name}
                    assert one.metadata["source"] == source
                    assert one.metadata["canonical_name"] == f"{server}.{definition['name']}"
                    assert one.metadata["annotations"] == definition["annotations"]
                    assert one.metadata["schema_version"]
            assert {"shop__get", "far__echo"} <= set(by_name)
            assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for name in by_name)


async def test_local_tools_and_tools_of_servers_are_one_list(tmp_path: Path) -> None:
    """Proves: E11. A program's own tools stand beside the aggregator's; each call goes where it belongs."""

    def own(words: str) -> str:
        return f"own: {words}"

    ordinary: BaseTool = StructuredTool.from_function(own, description="A function of the program.")
    shop = recording_server("get")
    async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry()})) as tools:
        together = [*tools, ordinary]
        assert together == tools + [ordinary]  # noqa: RUF005
        assert [convert_to_openai_tool(one)["function"]["name"] for one in together] == ["shop__get", "own"]
        by_name = tools_by_name(together)
        assert (await tool_message(by_name["own"], words="hello")).content == "own: hello"
        assert (await tool_message(by_name["shop__get"])).content == "did get"
        tools.append(ordinary)
        assert not await tools.refresh()
        assert tools_by_name(tools).keys() == by_name.keys()


async def test_a_schema_without_properties_is_read_all_the_same(tmp_path: Path) -> None:
    """Proves: E6. LangChain's own readers of a tool find no arguments where there are none."""
    bare = RecordingToolbox([{"name": "now", "inputSchema": {"type": "object"}}])
    async with open_tools(ConfigFolder(tmp_path, {"shop": bare.config_entry()})) as tools:
        assert tools[0].args == {}
        assert tools[0].description == ""
        assert convert_to_openai_tool(tools[0])["function"]["parameters"] == {"type": "object", "properties": {}}
        assert (await tool_message(tools[0])).content == "did now"


async def test_a_tool_without_a_description_has_its_title(tmp_path: Path) -> None:
    """Proves: E6. A model reads at least the title: with LangChain, the OpenAI Agents SDK and in a program."""
    titled = RecordingToolbox([{"name": "now", "title": "Tell the time", "inputSchema": {"type": "object"}}])
    config_folder = ConfigFolder(tmp_path, {"shop": titled.config_entry()})
    async with open_tools(config_folder) as tools:
        assert [tool.description for tool in tools] == ["Tell the time"]
    async with openai_agents.open_tools(config_folder) as functions:
        assert [one.description for one in functions if isinstance(one, FunctionTool)] == ["Tell the time"]
    async with aggregator.open_gateway(config_folder) as gateway:
        assert [tool.description for tool in await gateway.list()] == ["Tell the time"]


async def test_each_agent_is_offered_what_it_may_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E6, D4. By name or by `AGGREGATOR_AGENT`; with the policy's schema, and in the agent's spelling."""
    policies = {
        "agents": {
            "one": {"allow": ["shop.get"], "arguments": {"shop.get": RULES}},
            "two": {"allow": ["shop.*"], "names": "canonical"},
        }
    }
    config_folder = ConfigFolder(tmp_path, {"shop": recording_server("get", "put").config_entry()}, policies)
    monkeypatch.setenv("AGGREGATOR_AGENT", "two")
    async with (
        open_tools(config_folder, agent="one") as one,
        open_tools(config_folder) as two,
        open_tools(config_folder, agent="x") as none,
    ):
        assert [list(tools_by_name(tools)) for tools in (one, two, none)] == [
            ["shop__get"],
            ["shop.get", "shop.put"],
            [],
        ]
        schema: Any = one[0].args_schema
        assert schema["allOf"] == [RULES]


BOOM: Final[Json] = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(40)}


@pytest.mark.parametrize(
    ("properties", "more", "said"),
    [
        pytest.param(
            {"a": {"$ref": "#/$defs/d0"}},
            {"$defs": {**BOOM, "d40": TEXT}},
            "shop__bad is left out",
            id="two to the fortieth",
        ),
        # The catalog itself leaves it out, for every host.
        pytest.param({"a": {"$ref": "#/$defs/gone"}}, {}, "tool 'bad' is left out", id="a reference to nothing"),
        pytest.param({"$ref": {"type": "string"}}, {}, "shop__bad is left out", id="an argument called $ref"),
    ],
)
async def test_a_schema_that_langchain_cannot_read_costs_its_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, properties: Json, more: Json, said: str
) -> None:
    """Proves: E4. Left in the list it would keep every other tool from being bound."""
    bad = {"name": "bad", "inputSchema": {"type": "object", "properties": properties, **more}}
    with caplog.at_level(logging.WARNING, "aggregator"):
        async with open_tools(
            ConfigFolder(tmp_path, {"shop": RecordingToolbox([bad, tool("good", "")]).config_entry()})
        ) as tools:
            assert [convert_to_openai_tool(one)["function"]["name"] for one in tools] == ["shop__good"]
    assert said in caplog.text


async def test_what_langchain_cannot_read_of_a_policy_is_enforced_unseen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: E6, D6. References of the policy's own schema are its own, which LangChain does not know of."""
    small = {"$defs": {"few": {"maximum": 3}}, "properties": {"n": {"$ref": "#/$defs/few"}}}
    policies = {"agents": {"one": {"allow": ["*"], "arguments": {"shop.get": small}}}}
    shop = RecordingToolbox([tool("get", "", {"n": {"type": "integer"}})])
    with caplog.at_level(logging.WARNING, "aggregator"):
        async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry()}, policies), agent="one") as tools:
            assert tools[0].args_schema == shop.definitions[0]["inputSchema"]
            assert (await tool_message(tools[0], n=3)).status == "success"
            assert (await tool_message(tools[0], n=4)).status == "error"
    assert "is shown without what the policy adds" in caplog.text
    assert [call["arguments"] for call in shop.calls] == [{"n": 3}]


async def test_examples_of_a_schema_are_shown(tmp_path: Path) -> None:
    """Proves: E12. How a tool is called, where its server says so."""
    weather = tool("weather", "", {"city": {"type": "string", "examples": ["北京"]}})
    async with open_tools(ConfigFolder(tmp_path, {"shop": RecordingToolbox([weather]).config_entry()})) as tools:
        assert (tools[0].metadata or {})["examples"] == [{"city": "北京"}]


async def test_tools_come_and_go(tmp_path: Path) -> None:
    """Proves: E6, D4. A server's change and a policy's are heard of; what did not change is the same object."""
    toolbox = Toolbox([tool("grow", "", {"name": TEXT}), tool("echo", "")])
    async with serving(http_app(toolbox)) as address:
        servers = {"shop": {"type": "http", "url": f"{address}/mcp", "on_new": "show"}}
        config_folder = ConfigFolder(tmp_path, servers, {"agents": {"a": {"allow": ["*"]}}})
        async with open_tools(config_folder, agent="a") as tools:
            before = tools_by_name(tools)
            await tool_message(before["shop__grow"], name="grown")
            await until_changed(tools)
            after = tools_by_name(tools)
            assert after.keys() - before.keys() == {"shop__grown"}
            assert all(after[name] is tool for name, tool in before.items())
            assert (await tool_message(after["shop__grown"])).status == "success"

            config_folder.set_policies({"agents": {"a": {"allow": ["shop.echo"]}}})
            await until_changed(tools)
            assert list(tools_by_name(tools)) == ["shop__echo"]
            assert not await tools.refresh()
            gone = await tool_message(after["shop__grown"])
            assert gone.status == "error"
            assert gone.artifact["_meta"]["aggregator/error"]["code"] == "tool_not_allowed"


async def test_the_end_is_told_to_whoever_waits_or_calls(tmp_path: Path) -> None:
    """Waiting for a change ends with False; a call says what is wrong in the program."""
    async with open_tools(ConfigFolder(tmp_path, {"shop": recording_server("get").config_entry()})) as tools:
        waiting = asyncio.ensure_future(tools.changed())
    async with asyncio.timeout(BOUND):
        assert await waiting is False
    with pytest.raises(RuntimeError, match="was closed"):
        await tool_message(tools[0])
    assert repr(tools[0]._inside) == "<Inside closed, agent local>"  # type: ignore[attr-defined]


async def test_few_tools_may_stand_for_many(tmp_path: Path) -> None:
    """Proves: F5, E12. With `expose: search` the own tools are the list, and the others are called by them."""
    shop = recording_server("get", "put")
    async with open_tools(ConfigFolder(tmp_path, {"shop": shop.config_entry()}, expose="search")) as tools:
        by_name = tools_by_name(tools)
        assert {"search_tools", "call_tool"} <= by_name.keys()
        assert {(one.metadata or {})["source"] for one in tools} == {"aggregator"}
        assert "shop.put" in (await tool_message(by_name["search_tools"], query="put")).content
        assert (await tool_message(by_name["call_tool"], name="shop.put", arguments={"n": 1})).content == "did put"
    assert [call["arguments"] for call in shop.calls] == [{"n": 1}]


async def test_what_was_there_is_there_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: F4. Tools are kept for the next start; one that is left before its servers are up ends in silence."""
    config_folder = ConfigFolder(tmp_path, {"shop": recording_server("get").config_entry()})
    for _ in range(5):
        async with open_tools(config_folder) as tools:
            assert list(tools_by_name(tools)) == ["shop__get"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_server_that_fails_costs_its_own_tools(tmp_path: Path) -> None:
    """Proves: E4. The others' are there, and the program goes on."""
    servers = {
        "gone": {"command": "no-such-program-anywhere"},
        "shop": recording_server(get=text_result("got")).config_entry(),
    }
    async with open_tools(ConfigFolder(tmp_path, servers)) as tools:
        assert list(tools_by_name(tools)) == ["shop__get"]
        assert (await tool_message(tools[0])).content == "got"
