"""Whatever message comes, from a host or an upstream: it is answered, and never by a fault of the aggregator's own."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import pytest

from aggregator.config.settings import StdioConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError, UpstreamError, to_wire
from aggregator.domain.versions import META_CLIENT_CAPABILITIES
from aggregator.frontends.stdio import StdioFrontend
from aggregator.gateway.host import Host
from aggregator.wire.codec import encode
from tests.end_to_end.server_harness import ROOT
from tests.faults.app_harness import BOUND, AppHarness, Json, modern, running_app, server_config
from tests.faults.asgi_client import AsgiClient, asgi_client
from tests.faults.message_fuzzer import ANSWERS, MessageFuzzer
from tests.faults.raw_http import RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter, raw_http
from tests.passthrough.upstreams import local
from tests.peers.back_channel import FakeBackChannel
from tests.peers.library import Library
from tests.polling import until

# Messages for each way in, and requests for each upstream.
EACH: Final = 150
OURS: Final = "Internal error in the aggregator"
_ARGUMENT: Final[Json] = {"name": "a", "value": ""}
_CALLS: Final[tuple[tuple[str, Json], ...]] = (
    ("tools/call", {"name": "up.t", "arguments": {"a": 1}, "_meta": {"progressToken": 7}}),
    ("tools/call", {"name": "call_tool", "arguments": {"name": "up.t", "arguments": {}}}),
    ("tools/call", {"name": "describe_tools", "arguments": {"names": ["up.t"], "level": 3}}),
    ("tools/call", {"name": "search_tools", "arguments": {"query": "t"}}),
    ("tools/list", {"cursor": None}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("resources/read", {"uri": "demo://up/x"}),
    ("prompts/get", {"name": "up.p", "arguments": {"a": "b"}}),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "demo://up/x"}, "argument": _ARGUMENT}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "up.p"}, "argument": _ARGUMENT}),
    ("resources/subscribe", {"uri": "demo://up/x"}),
    ("resources/unsubscribe", {"uri": "demo://up/x"}),
    ("logging/setLevel", {"level": "info"}),
    ("server/discover", {}),
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {}}),
    ("ping", {}),
)  # fmt: skip
_NOTICES: Final[tuple[tuple[str, Json], ...]] = (
    ("notifications/cancelled", {"requestId": 1}),
    ("notifications/initialized", {}),
    ("notifications/roots/list_changed", {}),
    ("notifications/progress", {"progressToken": 1, "progress": 1}),
)


@pytest.fixture(autouse=True)
def no_traceback() -> Iterator[None]:
    """Check that no traceback and no internal error was logged."""
    failed: list[str] = []

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ours = record.name.startswith(("aggregator", "asyncio"))
            if ours and (record.exc_info is not None or record.levelno >= logging.ERROR):
                failed.append(logging.Formatter().format(record))

    handler = Seen()
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)
    assert failed == []


def messages(seed: int, *, era: str) -> Iterator[Any]:
    """Changed requests and notifications of a host."""
    wild = MessageFuzzer(seed)
    for number in range(EACH):
        notice = number % 9 == 8
        method, params = _NOTICES[number % len(_NOTICES)] if notice else _CALLS[number % len(_CALLS)]
        message: Json = {"jsonrpc": "2.0", "id": number + 100, "method": method, "params": dict(params)}
        if era == "modern":
            message["params"] = modern(**params)
        if notice:
            del message["id"]
        yield wild.changed(message)


def wants_an_answer(message: Any) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message


def held_to_be_sound(answer: Any) -> None:
    """An answer in which nothing of ours went wrong."""
    assert OURS not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)


async def by_posts(hosts: AsgiClient, message: Any, session: str | None) -> None:
    if session is None and "\ud800" in str((message.get("method"), message.get("params"))):
        return  # no header can repeat it
    request = hosts.post(encode(message), session) if session is not None else hosts.post_modern(message)
    await request.done()
    assert 200 <= request.status < 500, (request.status, message)
    if wants_an_answer(message):
        held_to_be_sound(request.answer())


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_any_message_over_http(era: str) -> None:
    """It is answered with a status below 500, and JSON-RPC where it was a request."""
    async with raw_http() as raw, asgi_client(server_config("up", type="http", url=raw.url)) as hosts:
        session = await hosts.session() if era == "legacy" else None
        for message in messages(1, era=era):
            if session is not None or isinstance(message, dict):
                await by_posts(hosts, message, session)
        after = await hosts.session()
        held_to_be_sound((await hosts.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, after).done()).answer())


async def test_any_message_over_sse() -> None:
    """Each post is taken or refused, and each request that has an id is answered on the stream."""
    async with raw_http() as raw, asgi_client(server_config("up", type="http", url=raw.url)) as hosts:
        stream = hosts.request("GET", "/sse")
        await until(lambda: stream.body, "the stream opened")
        path = bytes(stream.body).split(b"data: ")[1].split(b"\r\n")[0].decode()
        asked = set()
        for message in messages(2, era="legacy"):
            await (request := hosts.request("POST", path, encode(message))).done()
            assert request.status == 202
            if wants_an_answer(message) and type(message["id"]) in (str, int) and message["id"] != "\ud800":
                asked.add(json.dumps(message["id"]))
        await until(lambda: asked <= {json.dumps(one.get("id")) for one in stream.events()}, "all are answered")
        held_to_be_sound(stream.events())


async def test_any_message_over_stdio() -> None:
    """Each request that has an id is answered, in either era."""
    async with (
        raw_http() as raw,
        running_app(server_config("up", type="http", url=raw.url)) as harness,
        Tasks("a frontend") as tasks,
    ):
        written: list[Any] = []
        host = Host("stdio", "canonical", session="stdio")
        frontend = StdioFrontend(
            harness.app.gateway, host, tasks, lambda data: written.append(json.loads(data)), StdioConfig()
        )
        asked = set()
        for era in ("legacy", "modern"):
            for message in messages(3, era=era):
                frontend.take(encode(message) + b"\n")
                await frontend.peer.wait_running(0)
                if wants_an_answer(message) and type(message["id"]) in (str, int):
                    asked.add(json.dumps(message["id"]))
        await until(lambda: asked <= {json.dumps(one.get("id")) for one in written}, "all are answered")
        held_to_be_sound(written)
        await tasks.cancel()


async def test_any_body_for_v1() -> None:
    """A body that is almost a call is answered with a status below 500."""
    wild, base = MessageFuzzer(4), {"name": "up.t", "arguments": {"a": 1}}
    bodies: tuple[Json, ...] = (
        {"tool_call": base, "conversation_id": "c"},
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "up.echo", "arguments": "{}"}}]},
        {"content": [{"type": "tool_use", "id": "2", "name": "up__echo", "input": {"say": "x"}}]},
        {"message": "use up", "limit": 3},
    )
    async with raw_http() as raw, asgi_client(server_config("up", type="http", url=raw.url)) as hosts:
        for number in range(EACH):
            path = "/v1/intent" if number % 4 == 3 else "/v1/tool_calls"
            request = await hosts.request("POST", path, encode(wild.changed(bodies[number % 4]))).done()
            assert 200 <= request.status < 500
            held_to_be_sound(request.json())


# -- upstreams


_OPENINGS: Final = frozenset({"initialize", "server/discover", "tools/list"})
KINDS: Final = ("http_legacy", "http_modern", "sse", "stdio", "local")


class FuzzingHttpServer(RawHttpServer):
    """Noise and a changed answer, on a stream or whole; what opens the connection is as it should be."""

    def __init__(self, seed: int, *, modern: bool) -> None:
        super().__init__()
        self.wild = MessageFuzzer(seed)
        self.modern = modern

    async def _answer(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        method = seen.method
        if method == "tools/list" or (method == "server/discover" and self.modern):
            await reply.result(seen, ANSWERS[method])
        elif method == "subscriptions/listen":
            await reply.stream()
            await reply.event(self.wild.noise())
            agreed: Json = {"notifications": {"resourceSubscriptions": []}}
            note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": agreed}
            await reply.event(note)
            await asyncio.Event().wait()
        elif method in ("GET", "initialize", "server/discover") or "id" not in seen.message:
            await super()._answer(seen, reply)
        elif self.wild.chance(0.5):
            await reply.send(200 if self.wild.chance(0.8) else 400, self.wild.answer(method, seen.message["id"]))
        else:
            await reply.stream()
            for _ in range(2):
                await reply.event(self.wild.noise())
            await reply.event(self.wild.answer(method, seen.message["id"]))


class FuzzingSseServer(RawSseServer):
    """A fuzzing server over HTTP+SSE, whose one stream carries everything."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.wild = MessageFuzzer(seed)

    async def answer_on(self, seen: ReceivedRequest, stream: ReplyWriter) -> None:
        if seen.method in _OPENINGS:
            result = (
                {"result": ANSWERS[seen.method]} if seen.method != "server/discover" else {"error": {"code": -32601}}
            )
            await stream.event({"jsonrpc": "2.0", "id": seen.message["id"], **result})
        elif "method" in seen.message:
            for _ in range(2):
                await stream.event(self.wild.noise())
            await stream.event(self.wild.answer(seen.method, seen.message["id"]))


class FuzzingLocalServer(Library):
    """A server of the SDK, which sends messages as they should be: only results are changed."""

    def __init__(self, seed: int) -> None:
        super().__init__("up")
        wild = MessageFuzzer(seed)
        self.lists["tools"] = list(ANSWERS["tools/list"]["tools"])
        for method in set(ANSWERS) - _OPENINGS:
            self.broken[method] = partial(self._changed, wild, method)

    async def _changed(self, wild: MessageFuzzer, method: str) -> Json:
        changed = wild.changed(ANSWERS[method])
        return changed if isinstance(changed, dict) else {}


class FuzzingHost(FakeBackChannel):
    """A host that answers every question, seldom as it should."""

    def __init__(self, wild: MessageFuzzer) -> None:
        super().__init__()
        self._wild = wild

    async def ask(self, method: str, params: Json) -> Json:
        answer = self._wild.changed({"action": "accept", "content": {"x": 1}, "_meta": {}})
        return answer if isinstance(answer, dict) else {}


@asynccontextmanager
async def fuzzing_upstream(kind: str) -> AsyncIterator[AppHarness]:
    """The product before one server of that kind."""
    limits = {"timeout": 2, "protocol": "modern" if kind == "http_modern" else "auto"}
    async with AsyncExitStack() as stack:
        if kind == "stdio":
            args = ("-m", "tests.faults.message_fuzzer", "5")
            up = server_config("up", type="stdio", command=sys.executable, args=args, cwd=str(ROOT), **limits)
        elif kind == "local":
            up = server_config("up", type="local", **local(FuzzingLocalServer(6)), **limits)
        else:
            raw = FuzzingSseServer(7) if kind == "sse" else FuzzingHttpServer(8, modern=kind == "http_modern")
            await stack.enter_async_context(raw_http(raw))
            up = server_config("up", type="sse" if kind == "sse" else "http", url=raw.url, **limits)
        yield await stack.enter_async_context(running_app(up))


@pytest.mark.parametrize("kind", KINDS)
async def test_any_answer(kind: str) -> None:
    """Whatever a server says, the host gets a result or an error that is not ours, in either era."""
    wild = MessageFuzzer(9)
    async with fuzzing_upstream(kind) as harness:
        assert harness.upstream("up").state == "ready"
        able: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
        harness.host.capabilities = able
        new = Host("http", "canonical")
        asked = [(method, params) for method, params in _CALLS if method not in ("initialize", "server/discover")]
        for number in range(EACH):
            method, params = asked[number % len(asked)]
            host, sent = harness.host, params
            if number % 2 and method.split("/")[-1] not in ("subscribe", "unsubscribe", "setLevel", "ping"):
                host, sent = new, {**params, **modern()}
                sent["_meta"][META_CLIENT_CAPABILITIES] = able if number % 4 == 1 else {}
            try:
                async with asyncio.timeout(BOUND):
                    result = await harness.app.gateway.answer(host, method, sent, FuzzingHost(wild))
                held_to_be_sound(json.loads(encode(result)))
            except (RpcError, UpstreamError) as error:
                held_to_be_sound(to_wire(error))
