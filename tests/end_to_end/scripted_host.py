"""A host that sends exactly the JSON of a test, over each frontend and in each era.

A host cancels as its era and frontend require: by closing the response stream (2026-07-28 over HTTP), else by
`notifications/cancelled`.
"""

import asyncio
import base64
import itertools
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import httpx2

from tests import polling
from tests.peers.toolbox import Json

LEGACY: Final = ("2025-06-18", "2025-11-25")
MODERN: Final = "2026-07-28"
VERSIONS: Final = (*LEGACY, MODERN)
META: Final = "io.modelcontextprotocol/"
EVENT_LIMIT: Final = 2**20
# Programs take long to start on a loaded machine.
BOUND: Final = polling.BOUND

# Nothing here is encrypted; loading the system's certificates for every client would cost more than the rest.
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

CLIENT_INFO: Final[Json] = {"name": "journey", "version": "0"}
ENVELOPE: Final[Json] = {
    f"{META}protocolVersion": MODERN,
    f"{META}clientInfo": CLIENT_INFO,
    f"{META}clientCapabilities": {},
}
ACCEPT: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Inbox:
    """The notifications that a host received, in order, with a way to wait for one."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._news = asyncio.Event()

    def put(self, message: Json) -> None:
        self.messages.append(message)
        self._news.set()

    async def until(self, wanted: Callable[[Json], bool], count: int = 1) -> list[Json]:
        """The first `count` messages that are `wanted`."""
        async with asyncio.timeout(BOUND):
            while len(found := [message for message in self.messages if wanted(message)]) < count:
                self._news.clear()
                await self._news.wait()
        return found[:count]

    async def named(self, method: str, count: int = 1) -> list[Json]:
        return await self.until(lambda message: message.get("method") == method, count)

    def progress(self, token: Any) -> list[str]:
        """The messages of the progress reports for one token."""
        said = [m["params"] for m in self.messages if m.get("method") == "notifications/progress"]
        return [params["message"] for params in said if params["progressToken"] == token]


class Call:
    """A request that is under way."""

    def __init__(self, request_id: int, answer: "asyncio.Task[Json] | asyncio.Future[Json]") -> None:
        self.id = request_id
        self._answer = answer

    @property
    def done(self) -> bool:
        return self._answer.done()

    async def message(self) -> Json:
        """The whole response."""
        async with asyncio.timeout(BOUND):
            return await self._answer

    async def result(self) -> Json:
        message = await self.message()
        assert "result" in message, message
        result: Json = message["result"]
        return result

    async def error(self) -> Json:
        message = await self.message()
        assert "error" in message, message
        error: Json = message["error"]
        return error

    def drop(self) -> None:
        """Stop waiting, without a cancellation message."""
        self._answer.cancel()


class Wire(Protocol):
    """The part of a host that differs between frontends."""

    def start(self, message: Json) -> Call: ...

    async def notify(self, message: Json) -> None: ...

    async def cancel(self, call: Call) -> None: ...


class ScriptedHost:
    """A host after its handshake, ready to send requests."""

    def __init__(self, wire: Wire, inbox: Inbox, version: str, capabilities: Json | None = None) -> None:
        self.wire = wire
        self.inbox = inbox
        self.version = version
        self.capabilities = capabilities or {}
        self.greeting: Json = {}
        self._ids = itertools.count(1)

    @property
    def modern(self) -> bool:
        return self.version == MODERN

    def ask(self, method: str, params: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None) -> Call:
        """Send a request; a modern one carries the envelope."""
        sent = dict(params or {})
        envelope = {**ENVELOPE, f"{META}clientCapabilities": self.capabilities}
        together = {**(meta or {}), **(envelope if self.modern else {})}
        if together:
            sent["_meta"] = together
        return self.wire.start({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": sent})

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **meta: Any) -> Call:
        return self.ask("tools/call", {"name": tool, "arguments": dict(arguments or {})}, meta)

    async def list(self) -> list[Json]:
        """Every tool of every page."""
        tools: list[Json] = []
        params: Json = {}
        while True:
            page = await self.ask("tools/list", params).result()
            tools += page["tools"]
            if "nextCursor" not in page:
                return tools
            params = {"cursor": page["nextCursor"]}

    async def named(self, *names: str) -> dict[str, Json]:
        """The list by name, once all these are in it: upstreams may still be on their way."""
        while not set(names) <= (found := {tool["name"]: tool for tool in await self.list()}).keys():
            await self.inbox.named("notifications/tools/list_changed")
        return found

    async def greet(self) -> None:
        """The opening of the era."""
        if self.modern:
            self.greeting = await self.ask("server/discover").result()
            assert MODERN in self.greeting["supportedVersions"]
            return
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
        self.greeting = await self.ask("initialize", params).result()
        assert self.greeting["protocolVersion"] == self.version
        await self.wire.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})


class StdioWire:
    """A wire of newline-delimited JSON to the stdio frontend. `garbage` keeps lines that are not JSON-RPC."""

    def __init__(self, inbox: Inbox, writer: asyncio.StreamWriter) -> None:
        self.garbage: list[bytes] = []
        self._inbox = inbox
        self._writer = writer
        self._waiting: dict[Any, asyncio.Future[Json]] = {}

    async def read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
            except (ValueError, TypeError, KeyError, AssertionError):
                self.garbage.append(line)
            else:
                self.take(message)

    def take(self, message: Json) -> None:
        # A question of the other side has an id of that side's.
        waiting = None if "method" in message else self._waiting.pop(message.get("id"), None)
        if waiting is None:
            self._inbox.put(message)
        elif not waiting.done():
            waiting.set_result(message)

    def start(self, message: Json) -> Call:
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = answer
        self._put(message)
        return Call(message["id"], answer)

    async def notify(self, message: Json) -> None:
        self._put(message)

    async def cancel(self, call: Call) -> None:
        await self.notify(cancelled_notification(call))

    def _put(self, message: Json) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")


class SseWire(StdioWire):
    """A wire to the SSE frontend: answers arrive on the stream, messages are posted."""

    def __init__(self, inbox: Inbox, client: httpx2.AsyncClient, tasks: asyncio.TaskGroup) -> None:
        self._client = client
        self._tasks = tasks
        self.endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.garbage = []
        self._inbox = inbox
        self._waiting = {}
        self._order = asyncio.Lock()

    async def listen(self, response: httpx2.Response) -> None:
        async for name, data in events(response):
            if name == "endpoint":
                self.endpoint.set_result(data)
            else:
                self.take(json.loads(data))

    def _put(self, message: Json) -> None:
        self._tasks.create_task(self._post(message))

    async def _post(self, message: Json) -> None:
        async with self._order:
            response = await self._client.post(await self.endpoint, json=message)
        assert response.status_code == 202, response.text


class HttpWire:
    """A wire to the Streamable HTTP frontend: one POST for each request, the session in a header."""

    def __init__(self, inbox: Inbox, client: httpx2.AsyncClient, version: str, tasks: asyncio.TaskGroup) -> None:
        self.session: str | None = None
        self._inbox = inbox
        self._client = client
        self._version = version
        self._tasks = tasks

    def start(self, message: Json) -> Call:
        return Call(message["id"], asyncio.create_task(self._ask(message)))

    async def notify(self, message: Json) -> None:
        response = await self._client.post("/mcp", json=message, headers=self.headers(message))
        assert response.status_code == 202, response.text

    async def cancel(self, call: Call) -> None:
        if self._version == MODERN:
            call.drop()
        else:
            await self.notify(cancelled_notification(call))

    def headers(self, message: Json) -> dict[str, str]:
        if message.get("method") == "initialize":
            return dict(ACCEPT)
        headers = {**ACCEPT, "mcp-protocol-version": self._version}
        if self.session is not None:
            headers["mcp-session-id"] = self.session
        return headers | routing_headers(message) if self._version == MODERN else headers

    async def _ask(self, message: Json) -> Json:
        async with self._client.stream("POST", "/mcp", json=message, headers=self.headers(message)) as response:
            self.session = response.headers.get("mcp-session-id", self.session)
            if response.headers["content-type"].startswith("application/json"):
                answer: Json = json.loads(await response.aread())
                return answer
            async for _, data in events(response):
                part: Json = json.loads(data)
                if part.get("id") == message["id"] and "method" not in part:
                    return part
                self._inbox.put(part)
        raise ConnectionError("the stream ended without an answer")

    async def lose(self, message: Json) -> str:
        """Send a request, and close its connection with the first event; return the id of that."""
        async with self._client.stream("POST", "/mcp", json=message, headers=self.headers(message)) as response:
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    return line[4:]
        raise ConnectionError("no event had an id")

    async def take_up(self, last: str) -> tuple[int, list[Json]]:
        """Ask for what comes after an event; return the status and the messages."""
        headers = {**self.headers({}), "accept": "text/event-stream", "last-event-id": last}
        async with self._client.stream("GET", "/mcp", headers=headers) as response:
            return response.status_code, [json.loads(data) async for _, data in events(response)]

    def stand(self) -> None:
        """Open the standing stream of the session; what comes on it goes to the inbox."""
        self._tasks.create_task(self._stand())

    async def _stand(self) -> None:
        headers = {**self.headers({}), "accept": "text/event-stream"}
        async with self._client.stream("GET", "/mcp", headers=headers) as response:
            assert response.status_code == 200, response.status_code
            self._inbox.put({"method": "standing"})
            async for _, data in events(response):
                self._inbox.put(json.loads(data))


def http_client(base: str, key: str | None = None, tls: ssl.SSLContext = NO_TLS) -> httpx2.AsyncClient:
    """Return an HTTP client of a server on this machine, with any number of connections, perhaps with an API key."""
    limits = httpx2.Limits(max_connections=None)
    headers = {"authorization": f"Bearer {key}"} if key is not None else {}
    return httpx2.AsyncClient(base_url=base, timeout=BOUND, limits=limits, verify=tls, trust_env=False, headers=headers)


def cancelled_notification(call: Call) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call.id}}


def routing_headers(message: Json) -> dict[str, str]:
    """The headers that repeat a modern request's method and name."""
    headers = {"mcp-method": message.get("method", "")}
    named_by = NAMED_BY.get(message.get("method", ""))
    if named_by is not None:
        name = message["params"][named_by]
        headers["mcp-name"] = name if name.isascii() else f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    return headers


async def events(response: httpx2.Response) -> AsyncIterator[tuple[str, str]]:
    """Yield (event, data) of a stream, each within the size that clients accept."""
    rest = b""
    async for chunk in response.aiter_raw():
        *whole, rest = (rest + chunk).split(b"\r\n\r\n")
        for event in whole:
            assert len(event) < EVENT_LIMIT
            fields = dict(line.split(b": ", 1) for line in event.split(b"\r\n") if not line.startswith(b":"))
            # One without data only tells an id.
            if fields.get(b"data"):
                yield fields[b"event"].decode(), fields[b"data"].decode()


@asynccontextmanager
async def over_pipes(
    reading: int, writing: int, version: str, capabilities: Json | None = None
) -> AsyncIterator[ScriptedHost]:
    """Connect a host over two file descriptors, and close them afterwards."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
    )
    outgoing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(writing, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(outgoing, protocol, None, loop)
    inbox = Inbox()
    wire = StdioWire(inbox, writer)
    task = asyncio.create_task(wire.read(reader))
    try:
        host = ScriptedHost(wire, inbox, version, capabilities)
        await host.greet()
        yield host
        assert not wire.garbage
    finally:
        outgoing.close()
        async with asyncio.timeout(BOUND):
            await task
        incoming.close()


@asynccontextmanager
async def over_sse(
    base: str, version: str, key: str | None = None, capabilities: Json | None = None
) -> AsyncIterator[ScriptedHost]:
    """Connect a host to the SSE frontend."""
    inbox = Inbox()
    async with http_client(base, key) as client, asyncio.TaskGroup() as tasks:
        wire = SseWire(inbox, client, tasks)
        async with client.stream("GET", "/sse", headers={"accept": "text/event-stream"}) as response:
            listening = asyncio.create_task(wire.listen(response))
            try:
                host = ScriptedHost(wire, inbox, version, capabilities)
                await host.greet()
                yield host
            finally:
                listening.cancel()
                await asyncio.wait([listening])


@asynccontextmanager
async def over_http(
    base: str,
    version: str,
    key: str | None = None,
    capabilities: Json | None = None,
    tls: ssl.SSLContext = NO_TLS,
) -> AsyncIterator[ScriptedHost]:
    """Connect a host to the Streamable HTTP frontend; end its session afterwards."""
    inbox = Inbox()
    async with http_client(base, key, tls) as client, asyncio.TaskGroup() as tasks:
        wire = HttpWire(inbox, client, version, tasks)
        host = ScriptedHost(wire, inbox, version, capabilities)
        await host.greet()
        try:
            yield host
        finally:
            if wire.session is not None:
                await client.delete("/mcp", headers=wire.headers({}))
