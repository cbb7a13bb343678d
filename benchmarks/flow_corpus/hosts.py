"""Hosts that the scripted model works in: over the stdio frontend, and over HTTP in both eras.

Each sends JSON of its own making, as a host of another vendor would, and puts questions to `answer_question`.
"""

import asyncio
import itertools
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, Protocol

import aiohttp

from aggregator.app.app import App
from aggregator.config.model import Config
from aggregator.domain.principal import Principal
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.host import Host
from benchmarks.flow_corpus.definitions import Json
from benchmarks.messages import MODERN

LEGACY: Final = "2025-11-25"
BOUND: Final = 30.0
_META: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "scripted", "version": "1"}
_ACCEPT: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ROUNDS: Final = 8

HostKind = Literal["stdio", "session", "traced", "bare"]
"""`stdio`; over HTTP a handshake session; 2026-07-28 with a trace for each conversation; and without."""

AnswerQuestion = Callable[[str, Json], Awaitable[Json]]


class ModelHost(Protocol):
    """One conversation of an agent with the gateway."""

    answer_question: AnswerQuestion | None

    async def ask(self, method: str, params: Mapping[str, Any]) -> Json:
        """Return the response, with `result` or `error`."""

    async def subscribe(self, uri: str) -> Json:
        """Ask to be told of changes of a resource; return the response, or the first message of the stream."""

    async def renew(self) -> Json:
        """Begin a new session, where the era has one; return what the gateway says of itself."""

    def retrace(self, *, drop: bool = False) -> None:
        """Begin a new trace, or send none."""

    def go_back(self) -> None:
        """Go on in the first session, or in the first trace."""


class _Asking:
    """The questions that the gateway puts to a host while it answers."""

    answer_question: AnswerQuestion | None = None

    @property
    def capabilities(self) -> Json:
        return {} if self.answer_question is None else {"elicitation": {}, "sampling": {}}

    async def reply(self, message: Json) -> Json:
        """Return the response to a request of the gateway."""
        if self.answer_question is None:
            error = {"code": -32601, "message": "no one is asked here"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        result = await self.answer_question(message["method"], message.get("params") or {})
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def opening(self) -> Json:
        """Return the params of `initialize`."""
        return {"protocolVersion": LEGACY, "capabilities": self.capabilities, "clientInfo": _CLIENT}


class StdioModelHost(_Asking):
    """A host on two pipes; a new session means two others."""

    def __init__(self, app: App, config: Config, agent: str) -> None:
        self._app, self._config, self._agent = app, config, agent
        self._ids = itertools.count(1)
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: asyncio.StreamWriter | None = None

    async def renew(self) -> Json:
        await self.close()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**24)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb", buffering=0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(ours_out, "wb", buffering=0)
        )
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        self._tasks = [
            asyncio.create_task(self._serve(theirs_in, theirs_out)),
            asyncio.create_task(self._read(reader)),
        ]
        opened = await self.ask("initialize", self.opening())
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return opened

    def retrace(self, *, drop: bool = False) -> None:
        """Do nothing: a host of this era sends no trace."""

    def go_back(self) -> None:
        """Do nothing: the first program has ended."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> Json:
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params)})
        async with asyncio.timeout(BOUND):
            response: Json = await answer
        return response

    async def subscribe(self, uri: str) -> Json:
        return await self.ask("resources/subscribe", {"uri": uri})

    async def close(self) -> None:
        """End the session."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            async with asyncio.timeout(BOUND):
                await asyncio.gather(*self._tasks)

    def _write(self, message: Json) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        replies: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            message: Json = json.loads(line)
            if "method" not in message:
                self._waiting.pop(message["id"]).set_result(message)
            elif "id" in message:
                reply = asyncio.create_task(self._reply(message))
                replies.add(reply)
                reply.add_done_callback(replies.discard)

    async def _reply(self, message: Json) -> None:
        self._write(await self.reply(message))

    async def _serve(self, reading: int, writing: int) -> None:
        # As the program has it: one name for the session of every process.
        host = Host("stdio", self._config.stdio.names, Principal(self._agent), session="stdio")
        with os.fdopen(reading, "rb", buffering=0) as stdin, os.fdopen(writing, "wb", buffering=0) as stdout:
            await serve_stdio(self._app.gateway, host, stdin, stdout)


class HttpModelHost(_Asking):
    """A host over Streamable HTTP, with a session of the handshake eras or with requests of 2026-07-28."""

    def __init__(self, client: aiohttp.ClientSession, url: str, key: str, kind: HostKind) -> None:
        self._client, self._url = client, url
        self._modern = kind in ("traced", "bare")
        self._keyed = {**_ACCEPT, "authorization": f"Bearer {key}"}
        self._session: str | None = None
        self._ids = itertools.count(1)
        self._trace: str | None = None
        self._first_session: str | None = None
        if kind == "traced":
            self.retrace()
        self._first_trace = self._trace

    def retrace(self, *, drop: bool = False) -> None:
        self._trace = None if drop else secrets.token_hex(16)

    def go_back(self) -> None:
        self._session, self._trace = self._first_session, self._first_trace

    async def renew(self) -> Json:
        self._session = None
        if self._modern:
            return await self.ask("server/discover", {})
        opened = await self.ask("initialize", self.opening())
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._first_session = self._first_session or self._session
        return opened

    async def ask(self, method: str, params: Mapping[str, Any]) -> Json:
        sent = dict(params)
        for _ in range(_ROUNDS):
            if self._modern:
                sent["_meta"] = {**sent.get("_meta", {}), **self._envelope()}
            async with asyncio.timeout(BOUND):
                answer = await self._post({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": sent})
            assert answer is not None
            result = answer.get("result", {})
            if result.get("resultType") != "input_required" or self.answer_question is None:
                return answer
            responses = {
                key: await self.answer_question(request["method"], request.get("params") or {})
                for key, request in result["inputRequests"].items()
            }
            sent = {**params, "inputResponses": responses}
            if "requestState" in result:
                sent["requestState"] = result["requestState"]
        raise RuntimeError(f"{method} was asked about {_ROUNDS} times")

    async def subscribe(self, uri: str) -> Json:
        if not self._modern:
            return await self.ask("resources/subscribe", {"uri": uri})
        params = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": self._envelope()}
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": "subscriptions/listen", "params": params}
        body, headers = json.dumps(message).encode(), self._headers(message)
        async with asyncio.timeout(BOUND), self._client.post(self._url, data=body, headers=headers) as response:
            async for line in response.content:
                if line.startswith(b"data:") and line[5:].strip():
                    said: Json = json.loads(line[5:])
                    return said if "error" in said else {"result": said.get("params", {})}
        raise RuntimeError("the stream of changes ended")

    def _envelope(self) -> Json:
        envelope: Json = {
            f"{_META}protocolVersion": MODERN,
            f"{_META}clientInfo": _CLIENT,
            f"{_META}clientCapabilities": self.capabilities,
        }
        if self._trace is not None:
            envelope["traceparent"] = f"00-{self._trace}-{secrets.token_hex(8)}-01"
        return envelope

    def _headers(self, message: Json) -> dict[str, str]:
        headers = dict(self._keyed)
        if self._modern:
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": message["method"]}
            named = message.get("params", {}).get(_NAMED_BY.get(message["method"], ""))
            if named is not None:
                headers["mcp-name"] = named
        elif self._session is not None:
            headers |= {"mcp-protocol-version": LEGACY, "mcp-session-id": self._session}
        return headers

    async def _post(self, message: Json) -> Json | None:
        body = json.dumps(message).encode()
        async with self._client.post(self._url, data=body, headers=self._headers(message)) as response:
            self._session = response.headers.get("mcp-session-id", self._session)
            if "id" not in message or "method" not in message:
                return None
            if response.content_type == "text/event-stream":
                return await self._answer_of(response, message["id"])
            answer = await response.read()
            if not answer:
                raise RuntimeError(f"HTTP {response.status} for {message['method']}")
            read: Json = json.loads(answer)
            return read

    async def _answer_of(self, response: aiohttp.ClientResponse, number: int) -> Json:
        async with asyncio.TaskGroup() as replies:
            async for line in response.content:
                if not line.startswith(b"data:"):
                    continue
                part: Json = json.loads(line[5:]) if line[5:].strip() else {}
                if part.get("id") == number and "method" not in part:
                    return part
                if "method" in part and "id" in part:
                    replies.create_task(self._reply(part))
        raise RuntimeError("the stream ended without an answer")

    async def _reply(self, message: Json) -> None:
        await self._post(await self.reply(message))


@asynccontextmanager
async def open_host(
    kind: HostKind, app: App, config: Config, client: aiohttp.ClientSession, url: str, agent: str, key: str
) -> AsyncIterator["StdioModelHost | HttpModelHost"]:
    """Open a host of this kind for an agent; the session begins with `renew`."""
    if kind != "stdio":
        yield HttpModelHost(client, url, key, kind)
        return
    host = StdioModelHost(app, config, agent)
    try:
        yield host
    finally:
        await host.close()
