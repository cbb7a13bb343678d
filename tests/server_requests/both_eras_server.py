"""An SDK 2.3 server that speaks both eras and sends requests to its host on a connection with a handshake.

`python -m tests.server_requests.both_eras_server` serves on its pipes. As the `target` of a `local` upstream,
`tests.server_requests.both_eras_server:build` makes one server for each connection.
"""

import asyncio
import os
import warnings

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel


class Name(BaseModel):
    """The form."""

    answer: str


def build() -> MCPServer:
    """Return a server with its own state."""
    server = MCPServer("both-eras")

    @server.tool()
    async def elicits(ctx: Context) -> str:
        """Ask the user by a request, as servers written before 2026-07-28 do."""
        result = await ctx.elicit(message="Which one?", schema=Name)
        return result.data.answer if result.action == "accept" else result.action

    @server.tool()
    async def samples(ctx: Context) -> str:
        """Ask the host's model by a request."""
        said = TextContent(type="text", text="Say it.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            result = await ctx.session.create_message(
                messages=[SamplingMessage(role="user", content=said)],
                max_tokens=10,
                related_request_id=ctx.request_id,
            )
        return result.content.text if isinstance(result.content, TextContent) else "?"

    @server.tool()
    async def requires(ctx: Context) -> str | InputRequiredResult:
        """Ask the user by an `input_required` result, as only 2026-07-28 allows."""
        answer = (ctx.input_responses or {}).get("name")
        if isinstance(answer, ElicitResult):
            return str((answer.content or {}).get("answer"))
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
        form = ElicitRequest(params=ElicitRequestFormParams(message="Which one?", requested_schema=schema))
        return InputRequiredResult(input_requests={"name": form})

    @server.tool()
    async def where(ctx: Context) -> str:
        """Return the revision of the call, the server and the process."""
        return f"{ctx.request_context.protocol_version} {os.getpid()}/{id(server)}"

    @server.tool()
    async def hold(ctx: Context) -> str:
        """Wait until cancelled."""
        await ctx.report_progress(1)
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    async def die() -> str:
        """Ends the process."""
        os._exit(7)

    @server.tool()
    async def grow(name: str, ctx: Context) -> str:
        """Add a tool and notify the host."""

        def grown() -> str:
            return "grown"

        server.add_tool(grown, name=name)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "done"

    return server


if __name__ == "__main__":
    build().run("stdio")
