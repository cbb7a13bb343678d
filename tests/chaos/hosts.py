"""Hosts for a chaos run, one for each frontend: they call, cancel, and record every answer."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import aiohttp

from aggregator.app.app import App
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.call_log import USER_KEY
from aggregator.gateway.host import Host as Behind
from aggregator.wire.sse import EventReader
from tests.chaos.call_history import CallHistory, Json

BOUND: Final = 30.0
_LIMIT: Final = 64 * 2**20
_HELLO: Final[Json] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
_ACCEPT: Final = {"accept": "application/json, text/event-stream"}


class Host(Protocol):
    """A host that calls tools. `call` returns when the call has ended; cancelling it cancels the call."""

    frontend: str

    async def call(self, name: str, tool: str, arguments: Json) -> None: ...


def params_of(name: str, tool: str, arguments: Json, *, modern: bool = False) -> Json:
    """Return the params of a call that carries its name from end to end, into the audit too."""
    meta: Json = {USER_KEY: name}
    if modern:
        meta |= {META_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}
    return {"name": tool, "arguments": arguments, "_meta": meta}


class HttpHost:
    """Streamable HTTP: with a session, or in the era that has none."""

    def __init__(self, http: aiohttp.ClientSession, url: str, ledger: CallHistory, *, modern: bool) -> None:
        self.frontend = "http modern" if modern else "http"
        self._http, self._url, self._ledger, self._modern = http, f"{url}/mcp", ledger, modern
        self._headers = dict(_ACCEPT)

    async def begin(self) -> None:
        if self._modern:
            self._headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
            return
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO}
        async with self._http.post(self._url, json=hello, headers=self._headers) as response:
            self._headers["mcp-session-id"] = response.headers["mcp-session-id"]
        await self._tell("notifications/initialized", {})

    async def end(self) -> None:
        if not self._modern:
            async with self._http.delete(self._url, headers=self._headers):
                pass

    async def _tell(self, method: str, params: Json) -> None:
        note = {"jsonrpc": "2.0", "method": method, "params": params}
        async with self._http.post(self._url, json=note, headers=self._headers):
            pass

    async def call(self, name: str, tool: str, arguments: Json) -> None:
        params = params_of(name, tool, arguments, modern=self._modern)
        message = {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}
        headers = self._headers | ({"mcp-name": tool} if self._modern else {})
        try:
            async with self._http.post(self._url, json=message, headers=headers) as response:
                body = await response.read()
                streamed = response.content_type == "text/event-stream"
        except asyncio.CancelledError:
            self._ledger.calls[name].given_up = True
            if not self._modern:
                # A closed connection says nothing in this era.
                await self._tell("notifications/cancelled", {"requestId": name})
            raise
        messages = [json.loads(e.data) for e in EventReader(_LIMIT).feed(body)] if streamed else [json.loads(body)]
        self._ledger.calls[name].answers += [one for one in messages if one.get("id") == name]


class V1Host:
    """`/v1`: plain HTTP."""

    frontend = "v1"

    def __init__(self, http: aiohttp.ClientSession, url: str, ledger: CallHistory) -> None:
        self._http, self._url, self._ledger = http, f"{url}/v1/tool_calls", ledger

    async def call(self, name: str, tool: str, arguments: Json) -> None:
        order = {"tool_call": {"name": tool, "arguments": arguments}}
        try:
            async with self._http.post(self._url, json=order, headers={"x-user-id": name}) as response:
                body = await response.json()
        except asyncio.CancelledError:
            self._ledger.calls[name].given_up = True
            raise
        self._ledger.calls[name].answers.append(_as_message(body))


def _as_message(body: Json) -> Json:
    """Return a `/v1` answer as the JSON-RPC message it stands for."""
    error = body.get("error")
    if error is None or error["code"] == "tool_error":
        return {"result": {"content": [{"text": body["content"]}], "isError": error is not None}}
    if error["code"] == "unknown_tool":
        return {"error": {"code": -32602}}
    if error["code"] == "upstream_rpc_error":
        return {"error": {"code": -32099}}
    return {"result": {"_meta": {"aggregator/error": error}}}


class DuplexHost:
    """A base for hosts over stdio and SSE, whose answers arrive in any order."""

    def __init__(self, frontend: str, ledger: CallHistory) -> None:
        self.frontend = frontend
        self._ledger = ledger
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def send(self, message: Json) -> None:
        raise NotImplementedError

    def hear(self, message: Json) -> None:
        name = message.get("id")
        if "method" in message or not isinstance(name, str):
            return
        called = self._ledger.calls.get(name)
        if called is None:
            self._ledger.problems.append(f"an answer to {name}, which was over")
            return
        called.answers.append(message)
        waiting = self._waiting.get(name)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def call(self, name: str, tool: str, arguments: Json) -> None:
        params = params_of(name, tool, arguments)
        self._waiting[name] = answered = asyncio.get_running_loop().create_future()
        try:
            await self.send({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params})
            await answered
        except asyncio.CancelledError:
            self._ledger.calls[name].given_up = True
            gone = {"requestId": name}
            await self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            raise
        finally:
            del self._waiting[name]


class SseHost(DuplexHost):
    """HTTP+SSE."""

    def __init__(self, http: aiohttp.ClientSession, url: str, ledger: CallHistory) -> None:
        super().__init__("sse", ledger)
        self._http, self._url = http, url
        self._target: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def send(self, message: Json) -> None:
        async with self._http.post(self._url + await self._target, json=message) as response:
            assert response.status == 202, await response.text()

    async def read(self) -> None:
        reader = EventReader(_LIMIT)
        async with self._http.get(f"{self._url}/sse") as response:
            async for chunk in response.content.iter_any():
                for event in reader.feed(chunk):
                    if event.event == "endpoint":
                        self._target.set_result(event.data.decode())
                    else:
                        self.hear(json.loads(event.data))

    async def begin(self) -> None:
        await self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO})
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


class StdioHost(DuplexHost):
    """A host on two pipes to the stdio frontend, in this process."""

    def __init__(self, ledger: CallHistory) -> None:
        super().__init__("stdio", ledger)
        self._writer: asyncio.WriteTransport | None = None

    async def send(self, message: Json) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps(message).encode() + b"\n")

    @asynccontextmanager
    async def connected(self, app: App) -> AsyncIterator[None]:
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LIMIT)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out_read, "rb", buffering=0)
        )
        self._writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(in_write, "wb", buffering=0))
        behind = Behind("stdio", "canonical", session="stdio")

        async def hear() -> None:
            while line := await reader.readline():
                self.hear(json.loads(line))

        with os.fdopen(in_read, "rb", buffering=0) as stdin, os.fdopen(out_write, "wb", buffering=0) as stdout:
            serving = asyncio.create_task(serve_stdio(app.gateway, behind, stdin, stdout))
            hearing = asyncio.create_task(hear())
            try:
                await self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO})
                await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                yield
            finally:
                self._writer.close()
                async with asyncio.timeout(BOUND):
                    await serving
                    stdout.close()
                    await hearing
                reading.close()


@asynccontextmanager
async def hosts(app: App, url: str, ledger: CallHistory) -> AsyncIterator[tuple[Host, ...]]:
    """Open one host for each frontend, in both eras where the frontend speaks two."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
        modern, legacy = (HttpHost(http, url, ledger, modern=era) for era in (True, False))
        sse, stdio = SseHost(http, url, ledger), StdioHost(ledger)
        async with stdio.connected(app):
            listening = asyncio.create_task(sse.read())
            try:
                for host in (modern, legacy, sse):
                    await host.begin()
                everybody: tuple[Any, ...] = (modern, legacy, sse, stdio, V1Host(http, url, ledger))
                yield everybody
                await legacy.end()
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
