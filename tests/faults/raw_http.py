"""A raw HTTP server on loopback, in this process, that behaves as the test says, one method at a time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
TOOLS: Final = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "odd")]
MODERN: Final = "2026-07-28"


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as it came."""

    verb: str
    target: str
    headers: Mapping[str, str]
    message: Json

    @property
    def method(self) -> str:
        """The JSON-RPC method; for a GET or DELETE the verb."""
        return str(self.message.get("method", self.verb))

    @property
    def session(self) -> str | None:
        return self.headers.get("mcp-session-id")


class ReplyWriter:
    """The response to one request: whole, as a stream, or raw bytes."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.streaming = False

    async def send(self, status: int, body: bytes | str | Json = b"", kind: str = "", **headers: str) -> None:
        """A whole response; a dict is JSON."""
        kind = kind or ("application/json" if isinstance(body, dict) else "text/plain")
        data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} S", f"content-type: {kind}", f"content-length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    async def result(self, seen: ReceivedRequest, value: Json, **headers: str) -> None:
        await self.send(200, {"jsonrpc": "2.0", "id": seen.message["id"], "result": value}, **headers)

    async def error(self, seen: ReceivedRequest, status: int, code: int, words: str) -> None:
        error = {"code": code, "message": words}
        await self.send(status, {"jsonrpc": "2.0", "id": seen.message.get("id"), "error": error})

    async def stream(self) -> None:
        """Begin an event stream."""
        self.streaming = True
        await self.raw(b"HTTP/1.1 200 S\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")

    async def event(self, data: Json | str, kind: str = "message", more: str = "") -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        await self.raw(f"{more}event: {kind}\ndata: {text}\n\n".encode())

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


Handler = Callable[[ReceivedRequest, ReplyWriter], Coroutine[Any, Any, None]]


async def never(seen: ReceivedRequest, reply: ReplyWriter) -> None:
    """Accept the request and send no response."""
    await asyncio.Event().wait()


class RawHttpServer:
    """A legacy MCP server with sessions unless `on` says otherwise, by JSON-RPC method or HTTP verb."""

    def __init__(self) -> None:
        self.on: dict[str, Handler] = {}
        self.seen: list[ReceivedRequest] = []
        self.sessions: set[str] = set()
        self.modern = False
        self.open = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self._minted = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def count(self, method: str) -> int:
        return sum(seen.method == method for seen in self.seen)

    async def start(self) -> None:
        """Listen; on the same port as before, if there was one."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Drop every connection, as a process does that dies; sessions are forgotten."""
        assert self._server is not None
        self._server.close()
        self.sessions.clear()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self.open -= 1
            self.tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode("latin-1").split("\r\n")
            verb, target, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            seen = ReceivedRequest(verb, target, headers, json.loads(body) if body else {})
            # What a test does once it sees the request is meant for the next one.
            handler = self.on.get(seen.method, self.ordinary)
            self.seen.append(seen)
            reply = ReplyWriter(writer)
            handling = asyncio.ensure_future(handler(seen, reply))
            gone = asyncio.ensure_future(reader.read(1)) if verb in ("GET", "POST") else None
            # No client sends a second request before the first is answered: bytes or an end mean that it has left.
            try:
                await asyncio.wait({handling, *([gone] if gone else [])}, return_when=asyncio.FIRST_COMPLETED)
                if gone is not None and gone.done() and not handling.done():
                    return
                await handling
            finally:
                for task in (handling, gone):
                    if task is not None:
                        task.cancel()
                await asyncio.gather(*filter(None, (handling, gone)), return_exceptions=True)
            if reply.streaming:
                return

    async def ordinary(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        """Answer as a server without faults."""
        method = seen.method
        if self.modern or method == "initialize":
            await self._answer(seen, reply)
        elif method == "server/discover" or seen.session is None:
            await reply.error(seen, 400, -32600, "Bad Request: Missing session ID")
        elif seen.session not in self.sessions:
            await reply.error(seen, 404, -32600, "Session not found")
        else:
            await self._answer(seen, reply)

    async def _answer(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        method = seen.method
        capabilities: Json = {"tools": {"listChanged": True}}
        if method == "GET":
            await (reply.send(405) if self.modern else self._stand(reply))
        elif method == "server/discover":
            await reply.result(seen, {"supportedVersions": [MODERN], "capabilities": capabilities})
        elif method == "initialize" and self.modern:
            await reply.error(seen, 400, -32022, "Unsupported protocol version")
        elif method == "initialize":
            self._minted += 1
            session = f"session-{self._minted}"
            self.sessions.add(session)
            hello = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "raw"}}
            await reply.result(seen, hello, mcp_session_id=session)
        elif method == "tools/list":
            await reply.result(seen, {"tools": TOOLS})
        elif method == "tools/call":
            words = str(seen.message["params"].get("arguments", {}).get("say", ""))
            await reply.result(seen, {"content": [{"type": "text", "text": words}]})
        elif method == "subscriptions/listen":
            await reply.stream()
            await asyncio.Event().wait()
        else:
            await reply.send(202)

    async def _stand(self, reply: ReplyWriter) -> None:
        await reply.stream()
        await asyncio.Event().wait()


class RawSseServer(RawHttpServer):
    """A raw server over HTTP+SSE: GET opens the stream, answers to POSTs arrive on it."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = "/messages?session_id=%s"
        self.streams: dict[str, ReplyWriter] = {}
        self.silent = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/sse"

    async def ordinary(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.verb == "GET":
            self._minted += 1
            session = f"stream-{self._minted}"
            self.streams[session] = reply
            await reply.stream()
            await reply.event(self.endpoint.replace("%s", session), "endpoint")
            try:
                await asyncio.Event().wait()
            finally:
                del self.streams[session]
        elif (stream := self.streams.get(_session_of(seen))) is None:
            await reply.send(404, "no such session")
        else:
            await reply.send(202, "Accepted")
            if "id" in seen.message and not self.silent:
                await self.answer_on(seen, stream)

    def stream_of(self, seen: ReceivedRequest) -> ReplyWriter:
        """Return the stream that the answer to a request arrives on."""
        return self.streams[_session_of(seen)]

    async def answer_on(self, seen: ReceivedRequest, stream: ReplyWriter) -> None:
        """Answer a request as an ordinary server does."""
        value: Json
        if seen.method == "initialize":
            value = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw"}}
        elif seen.method == "tools/list":
            value = {"tools": TOOLS}
        elif seen.method == "tools/call":
            words = str(seen.message["params"].get("arguments", {}).get("say", ""))
            value = {"content": [{"type": "text", "text": words}]}
        else:
            value = {}
        await stream.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": value})


def _session_of(seen: ReceivedRequest) -> str:
    return parse_qs(urlsplit(seen.target).query).get("session_id", [""])[0]


@asynccontextmanager
async def raw_http(server: RawHttpServer | None = None) -> AsyncIterator[RawHttpServer]:
    """Run a `RawHttpServer`."""
    server = server or RawHttpServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def raw_sse() -> AsyncIterator[RawSseServer]:
    """Run a `RawSseServer`."""
    server = RawSseServer()
    async with raw_http(server):
        yield server
