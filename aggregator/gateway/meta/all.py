"""Every meta tool in the order of the list, and what becomes of a call of one."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.call import Asked
from aggregator.domain.errors import (
    ERROR_META_KEY,
    BadArguments,
    CallRefused,
    NotReadOnly,
    UnknownTool,
    UpstreamError,
    to_tool_result,
)
from aggregator.domain.records import ToolRecord
from aggregator.gateway.checks import Checker
from aggregator.gateway.finder import Finder
from aggregator.gateway.host import Host
from aggregator.gateway.meta.call_tool import CALL, READ, inner
from aggregator.gateway.meta.tool import SOURCE, Asking, MetaTool
from aggregator.gateway.pipeline import Pipeline
from aggregator.gateway.resolver import Resolver
from aggregator.gateway.views import View
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)

# In the order of the list. Named, not imported: what they need to show tools is loaded after the start.
META_TOOLS: Final[Mapping[str, str]] = {
    "search_tools": "aggregator.gateway.meta.search_tools:TOOL",
    "describe_tools": "aggregator.gateway.meta.describe_tools:TOOL",
    CALL: "aggregator.gateway.meta.call_tool:TOOL",
    "list_servers": "aggregator.gateway.meta.list_servers:TOOL",
    "match_intent": "aggregator.gateway.meta.match_intent:TOOL",
}
READ_TOOL: Final[Mapping[str, str]] = {READ: "aggregator.gateway.meta.call_tool:READ_TOOL"}

# Models send numbers as texts, and one name where a list is due.
_CONFIG: Final = ServerConfig(id=SOURCE, key=SOURCE, prefix=SOURCE, type="local", coerce=True)
# A call inside a call inside a call is meant as the innermost.
_NESTED: Final = 3


class MetaTools:
    """Those there are by configuration. They see and call what the agent itself may."""

    def __init__(self, finder: Finder, resolver: Resolver, pipeline: Pipeline, *, read_tool: bool) -> None:
        self._finder = finder
        self._resolver = resolver
        self._pipeline = pipeline
        self._checker = Checker()
        self._names = {**META_TOOLS, **READ_TOOL} if read_tool else META_TOOLS

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def load(self) -> None:
        """Ahead of the first who asks; takes a moment."""
        assert self.records

    @cached_property
    def records(self) -> tuple[ToolRecord, ...]:
        """What is listed of them."""
        return tuple(tool.record for tool in self._tools.values())

    @cached_property
    def _tools(self) -> Mapping[str, MetaTool]:
        return {name: resolve_name(place) for name, place in self._names.items()}

    async def call(self, asked: Asked, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        """The answer of a meta tool, or what the tool that it calls answers, untouched.

        Raises:
            UpstreamRpcError: the inner tool's upstream answered with a protocol error.
        """
        outer = asked.name
        try:
            for _ in range(_NESTED):
                tool = self._tools.get(asked.name)
                if tool is None:
                    return await self._call_inner(asked, outer, view, host, channel)
                if tool.answer is not None:
                    return await self._answer(tool, asked, view)
                asked = replace(asked, params=inner(asked.params), via=outer)
            raise BadArguments(outer, f"{outer} was asked to call itself, again and again.")
        except CallRefused as refused:
            return refused.to_result()
        except UpstreamError as error:
            return to_tool_result(error)

    async def _call_inner(self, asked: Asked, outer: str, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        try:
            if outer == READ:
                tool = await self._resolver.find(view, asked.name, asked.style)
                if not view.read_only(tool):
                    raise NotReadOnly(tool.name, f"{tool.name} is not known to only read. Call it with call_tool.")
            return await self._pipeline.call_tool(asked, host, channel)
        except UnknownTool as error:
            # The name is an argument here, which a model can correct (SEP-1303).
            details = {"code": "unknown_tool", "status": 404, "message": error.message, **error.data}
            text = f"{error.message} Find names with search_tools."
            return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {ERROR_META_KEY: details}}

    async def _answer(self, tool: MetaTool, asked: Asked, view: View) -> dict[str, Any]:
        assert tool.answer is not None
        arguments, refusal = self._checker.arguments(_CONFIG, tool.record, asked.arguments, ())
        if refusal is not None:
            return refusal
        text = await tool.answer(Asking(asked, view, arguments, self._finder, self._resolver))
        return {"content": [{"type": "text", "text": text}]}
