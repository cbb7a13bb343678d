"""Upstreams inside the test's process, as many as it wants: no program is started, and each answers at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.upstream.connection import Connection, InboundHandlers
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports import TRANSPORTS, Transport
from aggregator.upstream.transports.duplex import DuplexConnection
from aggregator.wire.codec import decode, encode
from tests.peers.toolbox import Json

_SCHEMA: Final = {"type": "object", "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}}
_ABLE: Final[Json] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
_HELLO: Final = {"protocolVersion": "2025-06-18", "capabilities": _ABLE, "serverInfo": {"name": "answering"}}
# Whose tools a search for it finds.
WORD: Final = "alpha"


def answering_upstreams(patch: pytest.MonkeyPatch, servers: int, tools: int) -> dict[str, Json]:
    """Return the entries of `s0`, `s1` and so on with so many tools each. `s0.t0` alone has the word `WORD`."""
    patch.setitem(_lists, "tools", {f"s{at}": _tools(at, tools) for at in range(servers)})
    assert isinstance(TRANSPORTS, dict)
    patch.setitem(TRANSPORTS, "stdio", Transport(f"{__name__}:open_answering", cheap=False))
    return {server: {"command": "none", "trusted": True} for server in _lists["tools"]}


def _tools(server: int, count: int) -> list[Json]:
    reads = {"annotations": {"readOnlyHint": True}, "inputSchema": _SCHEMA}
    letter = "o" if server else "t"
    words = (WORD if not (server or at) else "others" for at in range(count))
    return [{"name": f"{letter}{at}", "description": said, **reads} for at, said in enumerate(words)]


_lists: Final[dict[str, dict[str, list[Json]]]] = {"tools": {}}
_ANSWERS: Final[Mapping[str, Callable[[str], Json]]] = {
    "initialize": lambda _: _HELLO,
    "tools/list": lambda server: {"tools": _lists["tools"][server]},
    "tools/call": lambda _: {"content": [{"type": "text", "text": "called"}]},
    "resources/list": lambda server: {"resources": [{"uri": f"note://{server}", "name": server}]},
    "resources/templates/list": lambda _: {"resourceTemplates": []},
    "resources/read": lambda server: {"contents": [{"uri": f"note://{server}", "text": "read"}]},
    "prompts/list": lambda _: {"prompts": [{"name": "ask", "arguments": [{"name": "of"}]}]},
    "prompts/get": lambda _: {"messages": []},
    "completion/complete": lambda _: {"completion": {"values": ["one"]}},
}
_UNKNOWN: Final = {"code": -32601, "message": "Method not found"}


@asynccontextmanager
async def open_answering(
    server: ServerConfig, inbound: InboundHandlers, reaper: Reaper, credentials: object = None
) -> AsyncIterator[Connection]:
    """Open a connection whose other end answers in the next turn of the loop."""
    loop = asyncio.get_running_loop()

    def send(data: bytes, request_id: int | None) -> None:
        if request_id is not None:
            known = _ANSWERS.get(decode(data)["method"])
            said = {"result": known(server.id)} if known is not None else {"error": _UNKNOWN}
            loop.call_soon(connection.peer.feed, decode(encode({"jsonrpc": "2.0", "id": request_id, **said})))

    async with Tasks("the upstream") as tasks:
        connection = DuplexConnection(inbound, tasks, send)
        yield connection
        connection.end("closed")
