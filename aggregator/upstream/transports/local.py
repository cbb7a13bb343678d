"""The local transport: a Python MCP server object in this process, over the in-memory streams of the SDK."""

import asyncio
import pkgutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import UpstreamRefused
from aggregator.domain.reasons import Reason
from aggregator.domain.text.error_text import error_text
from aggregator.upstream.connection import Connection, InboundHandlers
from aggregator.upstream.credentials import Credentials
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.duplex import DuplexConnection
from aggregator.wire.codec import decode

_CLOSE_GRACE: Final = 2.0


@asynccontextmanager
async def open_local(
    server: ServerConfig, inbound: InboundHandlers, reaper: Reaper, credentials: Credentials | None = None
) -> AsyncIterator[Connection]:
    """Run the server object that `target` names in this process.

    Raises:
        UpstreamRefused: there is no such object, or it is no MCP server.
    """
    lowlevel = _find(server)
    outbox: asyncio.Queue[bytes] = asyncio.Queue()
    async with Tasks(f"server {server.id}") as tasks, create_client_server_memory_streams() as (ours, theirs):
        connection = DuplexConnection(inbound, tasks, lambda data, _: outbox.put_nowait(data))

        async def serve() -> None:
            try:
                await lowlevel.run(*theirs, lowlevel.create_initialization_options())
                connection.end("its server returned")
            except Exception as error:
                connection.end(Reason(f"its server failed ({type(error).__name__})", str(error)))
                raise

        async def write() -> None:
            # Messages that were not written when the connection closed are dropped.
            with suppress(anyio.ClosedResourceError):
                while True:
                    message = jsonrpc_message_adapter.validate_python(decode(await outbox.get(), inf), by_name=False)
                    await ours[1].send(SessionMessage(message))

        async def read() -> None:
            try:
                async for item in ours[0]:
                    if isinstance(item, SessionMessage):
                        connection.peer.feed(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True))
            except anyio.ClosedResourceError:
                connection.end("its streams closed")

        serving = tasks.start(serve())
        tasks.start(write())
        tasks.start(read())
        try:
            yield connection
        finally:
            connection.end("closed")
            # The end of its input ends a server; one that ignores it is cancelled with the other tasks.
            await ours[1].aclose()
            await asyncio.wait([serving], timeout=_CLOSE_GRACE)
            await tasks.cancel()


def _find(server: ServerConfig) -> Server[Any]:
    assert server.target is not None
    try:
        found = pkgutil.resolve_name(server.target)
    except (ImportError, AttributeError, ValueError) as error:
        raise UpstreamRefused(
            server.id, f"{server.id}: `target` {server.target!r} cannot be imported: {error_text(error)}."
        ) from error
    if callable(found) and not isinstance(found, Server) and not hasattr(found, "_lowlevel_server"):
        found = found()
    # MCPServer has the server that runs over streams in a private attribute, where the client of the SDK takes it too.
    lowlevel = getattr(found, "_lowlevel_server", found)
    if not isinstance(lowlevel, Server):
        raise UpstreamRefused(
            server.id, f"{server.id}: `target` {server.target!r} is a {type(found).__name__}, not an MCP server."
        )
    return lowlevel
