"""One agent's tools for the OpenAI Agents SDK, in this process: `async with open_tools("aggregator.json") as tools:`.

A call goes the aggregator's whole road; the SDK itself checks nothing, since the schema is given as it is.
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
from aggregator.adapters.inprocess import Elicit, InProcessHost, ListedTools, Source, open_inside
from aggregator.adapters.offered import OfferedTools
from aggregator.domain.errors import RpcError
from aggregator.domain.names import Style
from aggregator.wire.codec import decode

RESULT: str = "mcp_result"
"""The whole MCP result of a call, in `custom_data` of the run's `ToolCallOutputItem`."""

Output = str | list[ToolOutputText | ToolOutputImage]


@dataclass
class OpenAIAgentsTool(FunctionTool):
    """One tool of the agent's. `offer.definition` is the tool as MCP has it: annotations, `outputSchema`, `_meta`."""

    offer: ListedTools = field(kw_only=True, repr=False)


class OpenAIAgentsTools(OfferedTools[Tool]):
    """The tools an agent may call, as an ordinary list: add your own, hand it to an `Agent`."""

    def offer_of(self, tool: Tool) -> ListedTools | None:
        """Return the offer behind a tool; None for a tool that the program added itself."""
        return tool.offer if isinstance(tool, OpenAIAgentsTool) else None

    def made(self, offer: ListedTools) -> Tool:
        """Return a tool that calls what is offered."""
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
    """The tools of one agent, callable as long as the context is open; its servers run, or are connected, meanwhile.

    `config` is the configuration or its file (without one it is looked for where `aggregator` looks), `agent` the agent
    of the policy files (else `AGGREGATOR_AGENT`, else `local`). `elicit` puts a form to a person, for tools the policy
    wants confirmed: the params of `elicitation/create` in, its result out. Without it, no person can be asked.

    Raises:
        OperatorError: the configuration cannot be read, or that cannot be the name of an agent.
    """
    async with open_inside(config, agent, names) as inside:
        tools = OpenAIAgentsTools(inside, elicit)
        await tools.refresh()
        yield tools


class _Call:
    """The calls of one tool: runs each, and keeps its whole result until the SDK asks for it."""

    def __init__(self, inside: InProcessHost, name: str, elicit: Elicit | None) -> None:
        self._inside, self._name, self._elicit = inside, name, elicit
        self._results: WeakKeyDictionary[ToolContext[Any], Mapping[str, Any]] = WeakKeyDictionary()

    async def invoke(self, context: ToolContext[Any], text: str) -> Output:
        """Call the tool with a model's arguments. What fails becomes an output that the model can act on."""
        try:
            arguments = decode(text.encode() or b"{}")
            # NaN and numbers without end have no way of their own over the wire.
            json.dumps(arguments, allow_nan=False)
        except (ValueError, RecursionError) as error:
            return f"The arguments are not JSON ({error}); nothing was done. Send one JSON object."
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
        """The result of a call as it came, for programs; models are not shown it."""
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
