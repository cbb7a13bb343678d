"""A fake upstream that answers at once, and a host without a socket: all work between them is the aggregator's."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.frontends.web.host_guard import App
from aggregator.upstream.connection import Connection, InboundHandlers
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports import TRANSPORTS
from aggregator.upstream.transports.duplex import DuplexConnection
from aggregator.wire.codec import decode, encode
from benchmarks.messages import INITIALIZE, LEGACY, Era, headers, request

TOOL: Final = {
    "name": "echo",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 1000}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["text"],
    },
}
CALL: Final = {"name": "echo.echo", "arguments": {"text": "a line of text, neither short nor long", "limit": 3}}
RESULT: Final[Mapping[str, Any]] = {
    "content": [{"type": "text", "text": "a line of text, neither short nor long"}],
}

_ANSWERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "initialize": {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "played"}},
    "tools/list": {"tools": [TOOL]},
}
_CALLED: Final = encode(RESULT)
# What each upstream lists, by its id; one that is not here has `TOOL`.
_lists: dict[str, list[dict[str, Any]]] = {}


def fake_stdio_upstreams(lists: Mapping[str, list[dict[str, Any]]] | None = None) -> None:
    """Replace the stdio transport of this process by a fake one: no program is started.

    `lists` are the tools of each upstream, by its id.
    """
    assert isinstance(TRANSPORTS, dict)
    TRANSPORTS["stdio"] = replace(TRANSPORTS["stdio"], opener="benchmarks.fakes:open_fake_upstream")
    _lists.update(lists or {})


@asynccontextmanager
async def open_fake_upstream(
    server: ServerConfig, inbound: InboundHandlers, reaper: Reaper, credentials: object = None
) -> AsyncIterator[Connection]:
    """Open a connection that carries bytes in both directions, as a pipe does."""
    loop = asyncio.get_running_loop()

    def hear(data: bytes) -> None:
        connection.peer.feed(decode(data))

    def send(data: bytes, request_id: int | None) -> None:
        if request_id is None:
            return
        # A call is answered without being read: reading it is no work of the aggregator's.
        if b'"method":"tools/call"' in data:
            loop.call_soon(hear, b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request_id, _CALLED))
            return
        method = decode(data)["method"]
        if method == "tools/list" and server.id in _lists:
            loop.call_soon(hear, encode({"jsonrpc": "2.0", "id": request_id, "result": {"tools": _lists[server.id]}}))
            return
        told = {"result": _ANSWERS[method]} if method in _ANSWERS else {"error": {"code": -32601, "message": "No."}}
        loop.call_soon(hear, encode({"jsonrpc": "2.0", "id": request_id, **told}))

    async with Tasks("the played upstream") as tasks:
        connection = DuplexConnection(inbound, tasks, send)
        yield connection
        connection.end("closed")


class SilentChannel:
    """A back channel of a call that sends nothing."""

    request_id = 1

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Nobody listens."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nobody is asked")


class FakeHost:
    """A host that posts to an ASGI application: `open` once, then `call` repeatedly."""

    def __init__(self, app: App, era: Era, key: str) -> None:
        self._app = app
        self._era: Era = era
        self._key = key
        self._scope: dict[str, Any] = {}
        self._body = b""

    async def open(self) -> None:
        """Do the handshake, where the era has one."""
        session = None
        if self._era == "legacy":
            self._prepare("initialize", INITIALIZE, None)
            lines, _ = await self._post()
            session = dict(lines)[b"mcp-session-id"].decode()
        self._prepare("tools/call", CALL, session)

    async def call(self) -> None:
        """One call, and what its answer must hold."""
        _, body = await self._post()
        assert _CALLED[1:-1] in body, body
        assert b'"isError"' not in body, body

    def _prepare(self, method: str, params: Mapping[str, Any], session: str | None) -> None:
        self._body = request(self._era, 7, method, params)
        lines = {"host": "127.0.0.1:8080", "user-agent": "benchmark", "content-length": str(len(self._body))}
        lines |= headers(self._era, method, params, session) | {"authorization": f"Bearer {self._key}"}
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "client": ("127.0.0.1", 40_000),
            "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
        }

    async def _post(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        said: list[Any] = []

        parts = iter(({"type": "http.request", "body": self._body, "more_body": False},))

        async def receive() -> dict[str, Any]:
            for part in parts:
                return part
            await asyncio.Event().wait()  # it stays connected
            raise AssertionError("unreachable")

        async def send(message: Any) -> None:
            said.append(message)

        await self._app(dict(self._scope), receive, send)
        assert said[0]["status"] == 200, said
        return said[0]["headers"], said[1]["body"]
