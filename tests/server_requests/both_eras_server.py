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
        """Asks a person, as servers do that were written before 2026-07-28."""
        result = await ctx.elicit(message="Which one?", schema=Name)
        return result.data.answer if result.action == "accept" else result.action

    @server.tool()
    async def samples(ctx: Context) -> str:
        """Asks the host's model in the same way."""
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
        """Asks a person by its result, as only 2026-07-28 knows it."""
        answer = (ctx.input_responses or {}).get("name")
        if isinstance(answer, ElicitResult):
            return str((answer.content or {}).get("answer"))
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
        form = ElicitRequest(params=ElicitRequestFormParams(message="Which one?", requested_schema=schema))
        return InputRequiredResult(input_requests={"name": form})

    @server.tool()
    async def where(ctx: Context) -> str:
        """Tells in which revision it was called, and in which server of which process."""
        return f"{ctx.request_context.protocol_version} {os.getpid()}/{id(server)}"

    @server.tool()
    async def hold(ctx: Context) -> str:
        """Waits until it is cancelled."""
        await ctx.report_progress(1)
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    async def die() -> str:
        """Ends the process."""
        os._exit(7)

    @server.tool()
    async def grow(name: str, ctx: Context) -> str:
        """Adds a tool, and says so."""

        def grown() -> str:
            return "grown"

        server.add_tool(grown, name=name)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "done"

    return server


if __name__ == "__main__":
    build().run("stdio")
