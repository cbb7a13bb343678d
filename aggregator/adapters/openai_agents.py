"""One agent's tools for the OpenAI Agents SDK, in this process: `async with open_tools("aggregator.json") as tools:`.

A call goes through every step of a call; the SDK itself validates nothing, since the schema is passed unchanged.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from agents import FunctionTool, Tool, ToolOutputImage, ToolOutputText
from agents.tool import FunctionToolCustomDataContext
from agents.tool_context import ToolContext

from aggregator.adapters.content import as_result, content_of
from aggregator.adapters.inprocess import Elicit, InProcessHost, ListedTool, Source, open_inside
from aggregator.adapters.offered import OfferedTools
from aggregator.domain.errors import RpcError
from aggregator.domain.names import Style
from aggregator.domain.text.error_text import error_text
from aggregator.wire.codec import decode

RESULT: str = "mcp_result"
"""The key of the whole MCP result of a call in `custom_data` of the run's `ToolCallOutputItem`."""

Output = str | list[ToolOutputText | ToolOutputImage]


@dataclass
class OpenAIAgentsTool(FunctionTool):
    """One tool as the SDK has them. `offer.definition` is the tool as MCP has it, with annotations and `_meta`."""

    offer: ListedTool = field(kw_only=True, repr=False)


class OpenAIAgentsTools(OfferedTools[Tool]):
    """The tools of an agent as an ordinary list, to which a program may add its own."""

    def offer_of(self, tool: Tool) -> ListedTool | None:
        """Return the listed tool behind a tool; None for a tool that the program added itself."""
        return tool.offer if isinstance(tool, OpenAIAgentsTool) else None

    def made(self, offer: ListedTool) -> Tool:
        """Return the SDK's tool for a listed tool."""
        call = _Call(self.inside, offer.definition["name"], self.elicit)
        return OpenAIAgentsTool(
            name=offer.definition["name"],
            description=offer.definition.get("description") or offer.definition.get("title") or "",
            params_json_schema=offer.schema,
            on_invoke_tool=call.invoke,
            strict_json_schema=False,
            custom_data_extractor=call.whole,
            offer=offer,
        )


@asynccontextmanager
async def open_tools(
    config: Source = None,
    *,
    agent: str | None = None,
    names: Style = "compatible",
    elicit: Elicit | None = None,
) -> AsyncIterator[OpenAIAgentsTools]:
    """Run the gateway as long as the context is open, and give the tools of one agent.

    `config` is the configuration or its file (without one, the file that the command `aggregator` would use), `agent`
    the agent of the policy files (else `AGGREGATOR_AGENT`, else `local`). `elicit` shows a form to the user, for tools
    that need confirmation; without it they cannot be confirmed.

    Raises:
        OperatorError: the configuration cannot be read, or the agent's name is invalid.
    """
    async with open_inside(config, agent, names) as inside:
        tools = OpenAIAgentsTools(inside, elicit)
        await tools.refresh()
        yield tools


class _Call:
    """The calls of one tool, with their whole results until the SDK asks for them."""

    def __init__(self, inside: InProcessHost, name: str, elicit: Elicit | None) -> None:
        self._inside, self._name, self._elicit = inside, name, elicit
        self._results: WeakKeyDictionary[ToolContext[Any], Mapping[str, Any]] = WeakKeyDictionary()

    async def invoke(self, context: ToolContext[Any], text: str) -> Output:
        """Call the tool with a model's arguments; a failure becomes an output that the model can act on."""
        try:
            arguments = decode(text.encode() or b"{}")
            # NaN and infinite numbers are not JSON.
            json.dumps(arguments, allow_nan=False)
        except (ValueError, RecursionError) as error:
            return f"The arguments are not JSON ({error_text(error)}); nothing was done. Send one JSON object."
        if not isinstance(arguments, dict):
            return "The arguments are not a JSON object; nothing was done. Send one JSON object."
        conversation = context.run_config.group_id if context.run_config is not None else None
        try:
            result = await self._inside.call(self._name, arguments, conversation=conversation, elicit=self._elicit)
        except RpcError as error:
            result = as_result(error)
        self._results[context] = result
        return _output(result)

    def whole(self, context: FunctionToolCustomDataContext) -> Mapping[str, Any] | None:
        """Return the whole result of a call, for programs; models are not shown it."""
        result = self._results.pop(context.tool_context, None)
        return {RESULT: result} if result is not None else None


def _output(result: Mapping[str, Any]) -> Output:
    content = content_of(result)
    if isinstance(content, str):
        return content
    return [_part(block) for block in content if isinstance(block, dict)]


def _part(block: Mapping[str, Any]) -> ToolOutputText | ToolOutputImage:
    if block["type"] == "image":
        return ToolOutputImage(image_url=f"data:{block['mime_type']};base64,{block['base64']}")
    return ToolOutputText(text=block["text"])
