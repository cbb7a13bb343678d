"""Tools for the OpenAI Agents SDK, run by the SDK itself with a model that says what it is told to say."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, ToolOutputImage, Usage, function_tool
from agents.items import ToolCallOutputItem
from mcp.server import Server
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from aggregator.adapters.openai_agents import RESULT, OpenAIAgentsTools, open_tools
from tests.adapters.config_folder import BOUND, ConfigFolder, recording_server
from tests.observability.observed_harness import calls_in
from tests.peers import sdk
from tests.peers.toolbox import DEFINITIONS, PIXEL, Json

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
QUIET: Final = RunConfig(tracing_disabled=True)

whole: Server[Any] = sdk.build()


class Scripted(Model):
    """A model that makes these calls at once, then ends. `given` is its input in each turn."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self._calls = calls
        self.given: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:
        self.given.append(input)
        outputs: list[Any] = []
        if len(self.given) == 1:
            for number, (name, arguments) in enumerate(self._calls):
                call = {"call_id": f"call-{number}", "name": name, "arguments": arguments, "type": "function_call"}
                outputs.append(ResponseFunctionToolCall(**call))
        else:
            said = ResponseOutputText(text="Done.", type="output_text", annotations=[])
            message = {"id": "1", "content": [said], "role": "assistant", "status": "completed", "type": "message"}
            outputs.append(ResponseOutputMessage(**message))
        return ModelResponse(output=outputs, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def outputs(tools: OpenAIAgentsTools, *calls: tuple[str, Json | str], config: RunConfig = QUIET) -> list[Any]:
    """Return the output items of calls that a model makes in the SDK's own loop."""
    model = Scripted(*((name, args if isinstance(args, str) else json.dumps(args)) for name, args in calls))
    async with asyncio.timeout(BOUND):
        out = await Runner.run(Agent(name="test", model=model, tools=list(tools)), "Go.", run_config=config)
    assert out.final_output == "Done."
    return [item for item in out.new_items if isinstance(item, ToolCallOutputItem)]


def by_name(tools: OpenAIAgentsTools) -> dict[str, FunctionTool]:
    return {tool.name: tool for tool in tools if isinstance(tool, FunctionTool)}


def test_the_program_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: E6, E11. As it stands in docs/python.md#agent-frameworks."""
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    target = {"legal": {"target": "examples.legal.server:build_server"}}
    ConfigFolder(tmp_path, target, {"agents": {"shop": {"allow": ["legal.search_*"]}}})
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n([^`]*adapters\.openai_agents import.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "docs/python.md", "exec"), names)  # noqa: S102
    model = Scripted(("legal__search_statutes", '{"query": "劳动合同"}'), ("dice", '{"sides": 6}'))
    asyncio.run(names["main"](model))
    printed = capsys.readouterr().out
    assert printed.startswith("Done.\n")
    assert "劳动合同法" in printed


async def test_a_tool_has_all_that_its_server_says(tmp_path: Path) -> None:
    """Proves: E6. Description and schema whole; and a result is what the model may see, with all of it beside."""
    config_folder = ConfigFolder(tmp_path, {"peer": {"target": f"{__name__}:whole"}})
    async with open_tools(config_folder) as tools:
        echo = by_name(tools)["peer__echo"]
        (served,) = (one for one in DEFINITIONS if one["name"] == "echo")
        assert echo.description == served["description"]
        assert echo.params_json_schema == {"properties": {}, **served["inputSchema"]}
        assert not echo.strict_json_schema
        said, picture, refused, declined = await outputs(
            tools, ("peer__echo", {"text": "hello"}), ("peer__picture", {}), ("peer__refuse", {}), ("peer__decline", {})
        )
    assert said.output == '{"text": "hello"}'
    assert said.custom_data[RESULT]["structuredContent"]["received"]["arguments"] == {"text": "hello"}
    assert picture.output == [ToolOutputImage(image_url=f"data:image/png;base64,{PIXEL}")]
    assert refused.output == "no"
    assert refused.custom_data[RESULT]["isError"] is True
    assert declined.output == "The peer declines."


async def test_a_call_takes_every_step(tmp_path: Path) -> None:
    """Proves: A1, D9. Policy, checks, limits by conversation, audit; what is refused is said to the model."""
    shop = recording_server("get", "drop")
    clerk = {
        "allow": ["shop.get"],
        "limits": {"*": {"per_conversation": 2}},
        "arguments": {"shop.get": {"required": ["n"]}},
    }
    policies = {"agents": {"clerk": clerk}}
    config_folder = ConfigFolder(tmp_path, {"shop": shop.config_entry()}, policies)
    async with open_tools(config_folder, agent="clerk") as tools:
        assert list(by_name(tools)) == ["shop__get"]
        for conversation in ("one", "two"):
            config = RunConfig(tracing_disabled=True, group_id=conversation)
            items = await outputs(tools, *[("shop__get", {"n": number}) for number in range(3)], config=config)
            assert sum("in one conversation" in item.output for item in items) == 1
        bad = {
            '{"n": ': "not JSON",
            "[1]": "no",
            '"x"': "no",
            '{"n": NaN}': "not JSON",
            '{"n": 1e999}': "not JSON",
            "": "required",
            "{}": "required",
        }
        told = await outputs(tools, *[("shop__get", text) for text in bad])
    assert len(shop.calls) == 4
    for item, why in zip(told, bad.values(), strict=True):
        assert why in item.output
        assert "nothing was done" in item.output or "was not called" in item.output
    kept = [(row["agent_id"], row["status"]) for row in calls_in(config_folder.folder / "kept.db")]
    assert kept.count(("clerk", "ok")) == 4


async def test_a_person_is_asked_through_the_program(tmp_path: Path) -> None:
    """Proves: C12. Where nobody can be, the model is told."""
    shop = recording_server("pay")
    config_folder = ConfigFolder(
        tmp_path, {"shop": shop.config_entry()}, {"agents": {"local": {"allow": ["*"], "confirm": ["shop.pay"]}}}
    )

    async def elicit(form: Any) -> Json:
        return {"action": "accept", "content": {"allow": True}}

    async with open_tools(config_folder) as tools:
        (refused,) = await outputs(tools, ("shop__pay", {}))
        assert refused.custom_data[RESULT]["isError"] is True
    async with open_tools(config_folder, elicit=elicit) as tools:
        await outputs(tools, ("shop__pay", {}))
    assert len(shop.calls) == 1


async def test_tools_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E6. In place; what stays is the same object, and the program's own tools stay too."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.05)

    @function_tool
    def dice(sides: int) -> int:
        """Throw a die."""
        return 4

    shop = recording_server("get", "put")
    config_folder = ConfigFolder(
        tmp_path, {"shop": shop.config_entry()}, {"agents": {"local": {"allow": ["shop.get"]}}}
    )
    async with open_tools(config_folder) as tools, asyncio.timeout(BOUND):
        tools.append(dice)
        (get, own) = tools
        assert own is dice
        assert await tools.refresh() is False
        config_folder.set_policies({"agents": {"local": {"allow": ["shop.*"]}}})
        assert await tools.changed()
        assert await tools.refresh() is True
        assert [tool.name for tool in tools] == ["shop__get", "shop__put", "dice"]
        assert tools[0] is get
    assert await tools.changed() is False
