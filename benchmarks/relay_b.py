"""Relay B: `asyncio.Protocol` over httptools on both sides, callbacks in place of a task a request, one write to the
pipe for each turn of the loop, audit rows hashed and written by a thread.

Run as `python -m benchmarks.relay_b CONFIG PORT`; CONFIG is a configuration of the aggregator with one server.
"""

import asyncio
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import httptools
import orjson
from uvloop import new_event_loop

from benchmarks.host import HttpHost, StdioHost, list_tools
from benchmarks.messages import LEGACY
from benchmarks.relay import FLUSH_INTERVAL, SESSION, AuditFile, Call, Row, Settings, Tools

_ANSWER: Final = (
    b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nmcp-session-id: " + SESSION + b"\r\ncontent-length: %d\r\n\r\n%b"
)
_GONE: Final = {"jsonrpc": "2.0", "error": {"code": -32603, "message": "The upstream closed the connection."}}


class Upstream(Protocol):
    """Send a call; its answer goes to the host's connection later."""

    def send(self, call: Call, host: "HostConnection") -> None: ...


class HostConnection(asyncio.Protocol):
    """One keep-alive connection of a host, with one request on it at a time."""

    def __init__(self, tools: Tools, upstream: Upstream, rows: deque[Row]) -> None:
        self._tools = tools
        self._upstream = upstream
        self._rows = rows
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._body = b""
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._close()

    def on_body(self, data: bytes) -> None:
        self._body = self._body + data if self._body else data

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if self._is_busy:
            # Requests are not queued here: no host of these benchmarks sends one before the last is answered.
            self._close()
        elif self._parser.get_method() != b"POST":
            self._respond(b"405 Method Not Allowed", b"")
        else:
            call = self._tools.read(body)
            if isinstance(call, Call):
                self._is_busy = True
                self._upstream.send(call, self)
            else:
                self._respond(b"200 OK" if call else b"202 Accepted", call)

    def answered(self, call: Call, message: dict[str, Any], size: int) -> None:
        """Give the answer of the upstream to the host, and record the call."""
        self._is_busy = False
        self._respond(b"200 OK", call.answer(message))
        self._rows.append(call.row(message, size))

    def _respond(self, status: bytes, body: bytes) -> None:
        if self._transport is not None:
            self._transport.write(_ANSWER % (status, len(body), body))

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Pipes(asyncio.Protocol):
    """A stdio upstream: what is to be sent in one turn of the loop is written at once."""

    def __init__(self) -> None:
        self.writer: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, tuple[Call, HostConnection]] = {}
        self._ids = 0
        self._lines: list[bytes] = []
        self._rest = b""

    def send(self, call: Call, host: HostConnection) -> None:
        self._ids += 1
        self._calls[self._ids] = call, host
        if not self._lines:
            self._loop.call_soon(self._write)
        self._lines.append(call.request(self._ids))

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = orjson.loads(line)
            call, host = self._calls.pop(message["id"])
            host.answered(call, message, len(line))

    def _write(self) -> None:
        assert self.writer is not None
        lines, self._lines = self._lines, []
        self.writer.write(b"\n".join([*lines, b""]))


class WebConnection(asyncio.Protocol):
    """One keep-alive connection to an upstream over HTTP, with one call on it at a time."""

    def __init__(self, idle: "list[WebConnection]") -> None:
        self._idle = idle
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._under_way: tuple[Call, HostConnection] | None = None
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._idle:
            self._idle.remove(self)
        if self._under_way is not None:
            call, host = self._under_way
            host.answered(call, dict(_GONE), 0)

    def send(self, call: Call, host: HostConnection, request: bytes) -> None:
        """Send a request with its head."""
        assert self._transport is not None
        self._under_way = call, host
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._body = self._body + data if self._body else data

    def on_message_complete(self) -> None:
        assert self._under_way is not None
        (call, host), body = self._under_way, self._body
        self._under_way, self._body = None, b""
        self._idle.append(self)
        host.answered(call, orjson.loads(body), len(body))


class Web:
    """An upstream over HTTP that answers with JSON, and the idle connections to it."""

    def __init__(self, url: str, session: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {LEGACY}\r\n"
            f"mcp-session-id: {session}\r\ncontent-length: "
        ).encode()
        self._loop = asyncio.get_running_loop()
        self._idle: list[WebConnection] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._ids = 0

    def send(self, call: Call, host: HostConnection) -> None:
        self._ids += 1
        body = call.request(self._ids)
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        if self._idle:
            self._idle.pop().send(call, host, request)
            return
        opening = self._loop.create_task(self._open(call, host, request))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, call: Call, host: HostConnection, request: bytes) -> None:
        try:
            _, connection = await self._loop.create_connection(lambda: WebConnection(self._idle), *self._address)
        except OSError:
            host.answered(call, dict(_GONE), 0)
        else:
            connection.send(call, host, request)


async def _opened(settings: Settings) -> tuple[Tools, Upstream]:
    """Shake hands with the upstream and list its tools."""
    if settings.url is not None:
        first = HttpHost(settings.url)
        first.initialize()
        tools, _ = list_tools(first)
        first.close()
        return Tools(settings.server, tools), Web(settings.url, first.session or "")
    loop, host = asyncio.get_running_loop(), StdioHost(settings.command)
    host.initialize()
    tools, _ = list_tools(host)
    _, pipes = await loop.connect_read_pipe(Pipes, host.process.stdout)
    pipes.writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, host.process.stdin)
    return Tools(settings.server, tools), pipes


def _write_rows(rows: deque[Row], audit: AuditFile) -> None:
    """Write the rows of each interval, in a thread of its own."""
    while True:
        time.sleep(FLUSH_INTERVAL)
        if rows:
            audit.append([rows.popleft() for _ in range(len(rows))])


async def _main(config: Path, port: int) -> None:
    settings = Settings.read(config)
    tools, upstream = await _opened(settings)
    rows: deque[Row] = deque()
    threading.Thread(target=_write_rows, args=(rows, AuditFile(settings.audit)), daemon=True).start()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HostConnection(tools, upstream, rows), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_main(Path(sys.argv[1]), int(sys.argv[2])))
