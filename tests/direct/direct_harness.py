"""The aggregator in the running loop, hosts that write bytes to it, and how each call was answered.

The same call gives the same bytes and the same record: ids are from a seed, and no time is written.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Protocol

import pytest

from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.domain import trace_context
from aggregator.domain.call_record import CallRecord
from aggregator.domain.principal import Principal
from aggregator.frontends.server import WebServer, listening_socket, serve_web
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.calls import provenance
from aggregator.gateway.calls.direct import DirectCalls
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.host import Host
from aggregator.replicas.group.usage import UsageLevel
from aggregator.wire.codec import encode
from tests.bounds.web_harness import RawConnection, head
from tests.end_to_end.scripted_host import BOUND, ENVELOPE, LEGACY, META, MODERN
from tests.end_to_end.server_harness import write_config
from tests.peers.toolbox import Json
from tests.polling import until

CHILD: Final = Path(__file__).with_name("scripted_child.py")
HOST_KINDS: Final = [(frontend, version) for frontend in ("stdio", "http") for version in (LEGACY[-1], MODERN)]
# The ways to answer a call: in the pipeline from the start, without a task, and without one until a task took it over.
PIPELINE, DIRECT, TAKEN_OVER = "pipeline", "direct", "taken over"
_SEED: Final = 13
# The meta tool that hosts call every tool by, if one is set: see the fixture `through`.
THROUGH: str | None = None
# In place of a meta tool: `call_tool`, with the name in the spelling of a host.
SPELLED: Final = "spelled"


def child(era: str = "legacy", **fields: Any) -> Json:
    """The entry of a scripted child."""
    return {"command": sys.executable, "args": ["-I", "-S", str(CHILD), era], "timeout": 10, **fields}


def result(**members: Any) -> str:
    """The line that answers a call with a result."""
    return json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": members}).replace('"$ID"', "$ID", 1)


def text(words: str) -> str:
    """The line that answers a call with a text."""
    return result(content=[{"type": "text", "text": words}])


def take_time(patch: pytest.MonkeyPatch) -> None:
    """Have no call become a slow one on a busy machine: it would be answered on a stream or handed to a task, and the
    head of its request would not be remembered.
    """
    for module in ("frontends.web.exchange", "gateway.calls.direct"):
        patch.setattr(f"aggregator.{module}.SLOW", BOUND)


class HostAnswer(NamedTuple):
    """The head of an HTTP answer without its date, and the messages that came for one request."""

    head: tuple[str, ...]
    messages: tuple[bytes, ...]

    @property
    def answer(self) -> Json:
        answer: Json = json.loads(self.messages[-1])
        return answer

    @property
    def text(self) -> str:
        return str(self.answer["result"]["content"][0]["text"])


class CallingHost(Protocol):
    """A host after its handshake. `ask` sends one request and returns all that comes back for it."""

    modern: bool

    def envelope(self) -> Json: ...

    def send(self, message: Any, **headers: str) -> None: ...

    async def receive(self) -> HostAnswer: ...


async def ask(host: CallingHost, params: Json, request_id: Any = 7, **headers: str) -> HostAnswer:
    """Send `tools/call` with these params, in the envelope of the host's era unless they have one."""
    host.send(request(host, params, request_id), **headers)
    return await host.receive()


def request(host: CallingHost, params: Json, request_id: Any = 7) -> Json:
    if THROUGH is not None:
        inner = {name: params[name] for name in ("name", "arguments") if name in params}
        if THROUGH == SPELLED:
            inner["name"] = f"mcp__aggregator__{inner['name'].replace('.', '__')}"
        params = {**params, "name": "call_tool" if THROUGH == SPELLED else THROUGH, "arguments": inner}
    if isinstance(meta := params.get("_meta", {}), dict) and (meta := {**host.envelope(), **meta}):
        params = {**params, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


class StdioHost:
    """A host on two pipes."""

    def __init__(
        self,
        write: asyncio.WriteTransport,
        reader: asyncio.StreamReader,
        reading: asyncio.ReadTransport,
        version: str,
        able: Json,
    ) -> None:
        self._write, self._reader, self._reading = write, reader, reading
        self.modern, self.able = version == MODERN, able

    def envelope(self) -> Json:
        return {**ENVELOPE, f"{META}clientCapabilities": self.able} if self.modern else {}

    def send(self, message: Any, **headers: str) -> None:
        self._write.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")

    async def receive(self) -> HostAnswer:
        """Return the messages up to the next answer."""
        messages: list[bytes] = []
        async with asyncio.timeout(BOUND):
            while not messages or "method" in json.loads(messages[-1]):
                messages.append(await self._reader.readline())
                assert messages[-1], "the stream ended"
        return HostAnswer((), tuple(messages))

    async def next(self) -> Json:
        """Return the next message."""
        async with asyncio.timeout(BOUND):
            message: Json = json.loads(await self._reader.readline())
            return message

    def close(self) -> None:
        self._write.close()

    def pause(self) -> None:
        """Read nothing any more."""
        self._reading.pause_reading()


class HttpHost:
    """A host on one connection."""

    def __init__(self, connection: RawConnection, version: str, able: Json, **headers: str) -> None:
        self.connection = connection
        self.modern, self.able = version == MODERN, able
        self.headers = {"mcp_protocol_version": version, **headers}

    def envelope(self) -> Json:
        return {**ENVELOPE, f"{META}clientCapabilities": self.able} if self.modern else {}

    def bytes_of(self, message: Any, **headers: str) -> bytes:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {}
        if self.modern and isinstance(message, dict) and isinstance(name := message["params"].get("name"), str):
            named = {"mcp_method": message["method"], "mcp_name": name}
        return head("POST", "/mcp", content_length=str(len(body)), **{**self.headers, **named, **headers}) + body

    def send(self, message: Any, **headers: str) -> None:
        self.connection.send(self.bytes_of(message, **headers))

    async def receive(self) -> HostAnswer:
        """Return the next answer: one message, or those of a stream."""
        async with asyncio.timeout(BOUND):
            reader = self.connection.reader
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
            fields = {name: value for name, _, value in (line.partition(": ") for line in lines[1:])}
            fields.pop("date", None)
            lines = [lines[0], *(f"{name}: {value}" for name, value in fields.items())]
            if "content-length" in fields:
                return HostAnswer(tuple(lines), (await reader.readexactly(int(fields["content-length"])),))
            body = b""
            while size := int(await reader.readline(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
            found = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
            return HostAnswer(tuple(lines), tuple(found))


class DirectHarness:
    """A running aggregator. `ways` says how calls were answered, `records` what is on record of each.

    Without `on`, no call is answered directly. `policies` is the folder of the policy files, `database` the URL of one.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, servers: Mapping[str, Json], **settings: Any) -> None:
        policies, database = settings.pop("policies", None), settings.pop("database", None)
        if policies is not None:
            policies.mkdir(exist_ok=True)
        self.path = write_config(folder, servers, **settings)
        loaded = load(self.path, dict(os.environ))
        assert not loaded.problems, loaded.problems
        self.config = loaded.config
        self.app = build_app(self.config, policies, database, redactor=loaded.redactor)
        self.port = 0
        self.on = True
        self.ways: list[str] = []
        self._numbers: dict[Any, int] = {}
        self.records: list[CallRecord] = []
        self.app.telemetry.observers.sinks += (self.records.append,)
        patch.setattr(provenance, "_written", lambda second: "then")
        patch.setattr(trace_context, "_random", Random(_SEED))  # noqa: S311 - ids
        self._watch(patch)

    def _watch(self, patch: pytest.MonkeyPatch) -> None:
        direct, pipeline, ways = self.app.gateway.direct, self.app.gateway._pipeline, self.ways
        begin, call_tool, take_over = direct.send_at_once, pipeline.call_tool, pipeline.take_over
        call_numbers = self._numbers

        def beginning(*given: Any) -> Any:
            call = begin(*given) if self.on else None
            if call is not None:
                call_numbers[call] = len(ways)
                ways.append(DIRECT)
            return call

        def calling(*given: Any) -> Awaitable[Json]:
            ways.append(PIPELINE)
            return call_tool(*given)

        def taking_over(*given: Any) -> Awaitable[Json]:
            ways[call_numbers.pop(given[0])] = TAKEN_OVER
            return take_over(*given)

        patch.setattr(direct, "send_at_once", beginning)
        patch.setattr(pipeline, "call_tool", calling)
        patch.setattr(pipeline, "take_over", taking_over)

    @property
    def direct(self) -> DirectCalls:
        return self.app.gateway.direct

    @property
    def pipeline(self) -> Pipeline:
        return self.app.gateway._pipeline

    @property
    def way(self) -> str:
        """The way of the last call."""
        return self.ways[-1]

    @property
    def way_or_none(self) -> str | None:
        """The way of the last call, if there was one."""
        return self.ways[-1] if self.ways else None

    async def stdio_ended(self) -> None:
        """Return once the frontend of the latest host over stdio has ended."""
        async with asyncio.timeout(BOUND):
            await asyncio.wait({self._serving})

    async def outcome(self, call: Callable[[], Awaitable[HostAnswer]]) -> "tuple[HostAnswer, list[CallRecord]]":
        """Return what comes back for a call, and its records without times; ids begin anew."""
        trace_context._random.seed(_SEED)
        before = len(self.records)
        reply = await call()
        await until(lambda: len(self.app.gateway.drain) == 0, "nothing runs")
        return reply, [timeless(record) for record in self.records[before:]]

    async def compare(
        self, host: CallingHost, params: Json, plain: Json | None = None, **headers: str
    ) -> tuple[str, HostAnswer]:
        """Make a call in the pipeline, and again once such a call is known. Return the way it was answered then.

        `plain` are the params of a call like it that is answered.
        """
        plain = {**params, "arguments": {"n": 1}} if plain is None else plain
        self.on = False
        expected = await self.outcome(lambda: ask(host, params, **headers))
        assert self.way == PIPELINE or "error" in expected[0].answer
        await ask(host, plain, **headers)
        self.on = True
        count = len(self.ways)
        found = await self.outcome(lambda: ask(host, params, **headers))
        assert found == expected, f"{params!r:.500}\n{found}\n{expected}"
        ways = self.ways[count:]
        assert len(ways) <= 1, ways
        return (ways[0] if ways else "none"), found[0]

    @asynccontextmanager
    async def host(
        self,
        frontend: str,
        version: str,
        able: Json | None = None,
        agent: str = "local",
        session: str | None = None,
        **headers: str,
    ) -> AsyncIterator[Any]:
        """Connect a host, ready to call; over HTTP in a session that is open, or in a new one."""
        able = able or {}
        if frontend == "stdio":
            async with self._pipes(version, able, agent) as host:
                yield host
            return
        if version != MODERN:
            headers["mcp_session_id"] = session or await self.open_session(version, able, **headers)
        async with RawConnection(self.port) as connection:
            yield HttpHost(connection, version, able, **headers)

    async def open_session(self, version: str, able: Json | None = None, **headers: str) -> str:
        """Return the id of a new session."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _hello(version, able or {})}
        async with RawConnection(self.port) as connection:
            return (await connection.ask("/mcp", hello, **headers)).headers["mcp-session-id"]

    @asynccontextmanager
    async def _pipes(self, version: str, able: Json, agent: str) -> AsyncIterator[StdioHost]:
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=2**26)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out_read, "rb", buffering=0)
        )
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(in_write, "wb", buffering=0))
        behind = Host("stdio", self.config.stdio.names, Principal(agent), session="stdio")
        with os.fdopen(in_read, "rb", buffering=0) as stdin, os.fdopen(out_write, "wb", buffering=0) as stdout:
            serving = asyncio.create_task(serve_stdio(self.app.gateway, behind, stdin, stdout, self.config.stdio))
            self._serving = serving
            host = StdioHost(writer, reader, transport, version, able)
            try:
                if not host.modern:
                    host.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _hello(version, able)})
                    await host.receive()
                yield host
            finally:
                writer.close()
                transport.close()
                async with asyncio.timeout(BOUND):
                    await serving

    def forget(self) -> None:
        """Forget the calls that were made."""
        self.ways.clear()
        self.records.clear()
        self._numbers.clear()

    async def quiet(self) -> None:
        """Check that nothing is left, in the loop of the aggregator."""
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        """Check that no call, slot, use or place of a limit is held."""
        gateway = self.app.gateway
        assert len(gateway.direct) == 0
        assert len(gateway.drain) == 0
        assert gateway.admission.in_use["pending"] == 0
        usages = self.pipeline._rate_limits._usages.values()
        assert not any(usage.calls for usage in usages if isinstance(usage, UsageLevel))
        for upstream in self.app.upstreams.values():
            assert (upstream.in_flight, upstream._idle.uses) == (0, 0), upstream
            session = upstream.shared.session
            assert session is None or not session.back_channel.busy, upstream


def free(it: DirectHarness, server: str) -> None:
    """Have a server answer the call that it holds."""
    session: Any = it.app.upstreams[server].shared.session
    session.connection.child.write(b'{"id":"k"}\n')


def timeless(record: CallRecord) -> CallRecord:
    """A record without its times and the numbers of its requests; its values as bytes, where NaN equals itself and 1 is
    not true.
    """
    sending = record.sending
    numbered = None if sending.upstream_request_id is None else 0
    attempts = tuple(one._replace(request_id=one.request_id and 0) for one in sending.attempts)
    steps = [step._replace(began=0.0, seconds=0.0) for step in record.steps]
    arguments, result = encode(record.arguments), encode(record.result)
    return replace(
        record,
        started=0.0,
        began=0.0,
        duration=0.0,
        sending=sending._replace(queued=0.0, upstream_request_id=numbered, attempts=attempts),
        steps=steps,
        arguments=arguments,
        result=result,
    )


def _hello(version: str, able: Json) -> Json:
    return {"protocolVersion": version, "capabilities": able, "clientInfo": {"name": "t", "version": "0"}}


@asynccontextmanager
async def direct_harness(
    folder: Path, patch: pytest.MonkeyPatch, servers: Mapping[str, Json] | None = None, **settings: Any
) -> AsyncIterator[DirectHarness]:
    """Run the aggregator with a child of the handshake eras named `old`, and one of 2026-07-28 named `new`."""
    servers = {"old": child("legacy"), "new": child("modern")} if servers is None else servers
    database = settings.get("database")
    it = DirectHarness(folder, patch, servers, **settings)
    web = WebServer(it.app.gateway, it.config, it.app.access, it.app.report)
    stopping = asyncio.Event()
    # Keys that are read later, once there is a database, make every call unknown.
    await it.app.database.open()
    await it.app.load_keys()
    with listening_socket("127.0.0.1", 0) as bound:
        it.port = bound.getsockname()[1]
        async with it.app.running():
            async with asyncio.timeout(BOUND):
                await it.app.supervisor.wait_all_tried()
            if database is not None and (pins := it.app.pins) is not None:
                # Pins that are written make a new catalog, of which no call is known yet.
                await until(lambda: pins.settled, "the first lists are pinned")
            serving = asyncio.create_task(serve_web(web, bound, stopping))
            try:
                yield it
            finally:
                stopping.set()
                async with asyncio.timeout(BOUND):
                    await serving


def named(names: Iterable[str]) -> list[str]:
    """Tool names as an agent calls them."""
    return [f"{server}.{name}" for server in ("old", "new") for name in names]
