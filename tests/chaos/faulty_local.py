"""A faulty server in the process of the test: each call names its fault."""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from tests.chaos.faulty_stdio import HUGE


def build() -> Server[Any]:
    """One server."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="do", input_schema={"type": "object"})])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        words, fault = str(arguments.get("say", "")), arguments.get("fault")
        if fault == "slow":
            await asyncio.sleep(arguments["seconds"])
        elif fault in ("hang", "wrong_id", "garble", "close"):
            await asyncio.Event().wait()
        elif fault in ("die", "error", "garbage"):
            raise MCPError(-32099, "no")
        elif fault == "huge":
            words = "x" * HUGE
        return types.CallToolResult(content=[types.TextContent(type="text", text=words)])

    return Server("wild", on_list_tools=list_tools, on_call_tool=call_tool)
