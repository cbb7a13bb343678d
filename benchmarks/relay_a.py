"""Relay A: ASGI under uvicorn, a coroutine a call, aiohttp or a pipe to the upstream, audit rows written by the loop.

Run as `python -m benchmarks.relay_a CONFIG PORT`; CONFIG is a configuration of the aggregator with one server.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import orjson
import uvicorn
from uvloop import new_event_loop

from benchmarks.host import HttpHost, StdioHost, list_tools
from benchmarks.messages import LEGACY
from benchmarks.relay import FLUSH_INTERVAL, SESSION, AuditFile, Row, Settings, Tools

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Answer = tuple[dict[str, Any], int]
"""A message of the upstream, and how many bytes it had."""

_JSON: Final = (b"content-type", b"application/json")


class Upstream(Protocol):
    """Send a request with this id and return its answer."""

    async def call(self, request: bytes, own_id: int) -> Answer: ...


class Pipes(asyncio.Protocol):
    """A stdio upstream: lines out, and lines in that a future waits for."""

    def __init__(self) -> None:
        self.writer: asyncio.WriteTransport | None = None
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._rest = b""

    async def call(self, request: bytes, own_id: int) -> Answer:
        assert self.writer is not None
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[own_id] = answered
        self.writer.write(request + b"\n")
        return await answered

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = orjson.loads(line)
            answered = self._waiting.pop(message["id"])
            if not answered.done():
                answered.set_result((message, len(line)))


class Web:
    """An upstream over HTTP that answers with JSON."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url

    async def call(self, request: bytes, own_id: int) -> Answer:
        async with self._client.post(self._url, data=request) as response:
            body = await response.read()
        return orjson.loads(body), len(body)


class RelayA:
    """The ASGI application. `rows` are those not written yet."""

    def __init__(self, tools: Tools, upstream: Upstream) -> None:
        self.rows: list[Row] = []
        self._tools = tools
        self._upstream = upstream
        self._ids = 0

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        if scope["method"] != "POST":
            await _respond(send, 405, b"")
            return
        body, more = b"", True
        while more:
            part = await receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        call = self._tools.read(body)
        if isinstance(call, bytes):
            await _respond(send, 200 if call else 202, call)
            return
        self._ids += 1
        message, size = await self._upstream.call(call.request(self._ids), self._ids)
        await _respond(send, 200, call.answer(message))
        self.rows.append(call.row(message, size))

    async def write_rows(self, audit: AuditFile) -> None:
        """Write the rows of each interval, on the loop."""
        while True:
            await asyncio.sleep(FLUSH_INTERVAL)
            if self.rows:
                rows, self.rows = self.rows, []
                audit.append(rows)


async def _respond(send: Send, status: int, body: bytes) -> None:
    lines = [_JSON, (b"content-length", b"%d" % len(body)), (b"mcp-session-id", SESSION)]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Tools, Upstream]]:
    """Shake hands with the upstream and list its tools."""
    if settings.url is None:
        loop, host = asyncio.get_running_loop(), StdioHost(settings.command)
        host.initialize()
        tools, _ = list_tools(host)
        _, pipes = await loop.connect_read_pipe(Pipes, host.process.stdout)
        pipes.writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, host.process.stdin)
        yield Tools(settings.server, tools), pipes
        return
    first = HttpHost(settings.url)
    first.initialize()
    tools, _ = list_tools(first)
    first.close()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {"mcp-protocol-version": LEGACY, "mcp-session-id": first.session or ""}
    async with aiohttp.ClientSession(headers=headers) as client:
        yield Tools(settings.server, tools), Web(client, settings.url)


async def _main(config: Path, port: int) -> None:
    settings = Settings.read(config)
    async with _opened(settings) as (tools, upstream):
        relay = RelayA(tools, upstream)
        writing = asyncio.create_task(relay.write_rows(AuditFile(settings.audit)))
        # Connections stay open while other systems have their turn.
        server = uvicorn.Config(
            relay,
            port=port,
            http="httptools",
            lifespan="off",
            access_log=False,
            log_level="warning",
            timeout_keep_alive=600,
        )
        await uvicorn.Server(server).serve()
        writing.cancel()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_main(Path(sys.argv[1]), int(sys.argv[2])))
