"""Requests over Streamable HTTP that are sent without a task: what goes to the receiver, and what to a task."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggregator.domain.bounds.result_memory import SMALL
from aggregator.domain.errors import RpcError, UpstreamBadAnswer, UpstreamError
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import AnswerTooDeep, InboundHandlers, JsonRpcRequest, SessionExpired
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.http import HttpConnection, open_http
from aggregator.wire.codec import TooDeep
from aggregator.wire.peer import PeerGone
from tests.polling import until

from .app_harness import Json, server_config
from .raw_http import MODERN, RawHttpServer, ReceivedRequest, ReplyWriter, never, raw_http

PARAMS: Json = {"name": "echo", "arguments": {"say": "hello"}}
CALL = JsonRpcRequest("tools/call", PARAMS)


class RecordingReceiver:
    """A receiver that keeps what it was told, and checks that it is told once, in no task."""

    def __init__(self) -> None:
        self.result: Json | None = None
        self.told = asyncio.Event()
        self.taken_over = False

    def take_result(self, result: Json, /) -> None:
        self._told_now()
        self.result = result

    def take_over(self) -> None:
        self._told_now()
        self.taken_over = True

    def _told_now(self) -> None:
        assert not self.told.is_set()
        assert asyncio.current_task() is None
        self.told.set()


async def no_answer(method: str, params: Json, running: RunningCall | None) -> Json:
    raise AssertionError("nothing is asked")


@asynccontextmanager
async def connected(raw: RawHttpServer, **fields: Any) -> AsyncIterator[HttpConnection]:
    """A connection with a session, or of the modern era, and an idle connection in its pool."""
    heard: list[str] = []
    inbound = InboundHandlers(no_answer, lambda method, params, running: heard.append(method))
    async with open_http(server_config("web", type="http", url=raw.url, **fields), inbound, Reaper()) as connection:
        assert isinstance(connection, HttpConnection)
        if raw.modern:
            connection.use_version(MODERN)
            await connection.request("tools/list", {})
        else:
            await connection.request("initialize", {})
            connection.use_version("2025-06-18")
            await connection.notify("notifications/initialized")
        yield connection


def answering(body: bytes, *lines: str) -> Any:
    """A handler that answers with these bytes, `$ID` being the id of the request."""

    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        data = body.replace(b"$ID", json.dumps(seen.message["id"]).encode())
        head = ["HTTP/1.1 200 OK", "content-type: application/json", f"content-length: {len(data)}", *lines]
        await reply.raw("".join(f"{line}\r\n" for line in head).encode() + b"\r\n" + data)

    return handler


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_a_small_answer_goes_to_the_receiver(modern: bool) -> None:
    """A7: with the headers, and over the connection, that any other request has."""
    async with raw_http() as raw:
        raw.modern = modern
        async with connected(raw) as connection:
            for headers in (None, {"mcp-param-say": "hello"}, None):
                receiver = RecordingReceiver()
                sent = connection.begin(JsonRpcRequest("tools/call", PARAMS, headers=headers), receiver)
                assert sent.is_sent
                assert not receiver.told.is_set()
                async with asyncio.timeout(5):
                    await receiver.told.wait()
                assert receiver.result == {"content": [{"type": "text", "text": "hello"}]}
                assert (
                    await connection.begin(JsonRpcRequest("tools/call", PARAMS, headers=headers)).wait()
                    == receiver.result
                )
                begun, requested = [seen for seen in raw.seen if seen.method == "tools/call"][-2:]
                assert begun.headers == {**requested.headers, "content-length": begun.headers["content-length"]}
                assert {**begun.message, "id": 0} == {**requested.message, "id": 0}
                assert ("mcp-param-say" in begun.headers) == (headers is not None)
                assert ("mcp-name" in begun.headers) == modern


async def test_nothing_is_sent_without_an_idle_connection() -> None:
    """A7: `wait` opens one; an ended connection, and what cannot be encoded, is an error before anything is sent."""
    async with raw_http() as raw, connected(raw) as connection:
        raw.on["tools/call"] = never
        assert connection.begin(CALL, RecordingReceiver()).is_sent
        receiver = RecordingReceiver()
        deferred = connection.begin(JsonRpcRequest("tools/list", {}), receiver)
        assert not deferred.is_sent
        assert raw.count("tools/list") == 0
        assert await deferred.wait()
        assert raw.count("tools/list") == 1
        assert not receiver.told.is_set()
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(TooDeep):
            connection.begin(JsonRpcRequest("tools/call", {"arguments": deep}), RecordingReceiver())
        with pytest.raises(ValueError, match="line break"):
            connection.begin(
                JsonRpcRequest("tools/call", PARAMS, headers={"mcp-param-x": "a\r\nb: c"}), RecordingReceiver()
            )
        connection.end("it has ended")
        with pytest.raises(PeerGone, match="it has ended"):
            connection.begin(CALL, RecordingReceiver())
        await until(lambda: raw.count("tools/call") == 1, "the first one came, and no other")


async def test_what_is_dropped_before_it_is_sent_is_never_sent() -> None:
    """A7: a direct call that needs a wait is left to the pipeline, which begins it anew."""
    async with raw_http() as raw, connected(raw) as connection:
        raw.on["tools/call"] = never
        busy = connection.begin(CALL, RecordingReceiver())
        deferred = connection.begin(JsonRpcRequest("tools/list", {}), RecordingReceiver())
        assert (busy.is_sent, deferred.is_sent) == (True, False)
        del deferred
        assert await connection.request("tools/list", {})
        assert raw.count("tools/list") == 1


HALF = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
GOOD = b'{"jsonrpc":"2.0","id":$ID,"result":{"n":1}}'
OTHERS: dict[str, tuple[bytes, Any]] = {
    "error": (b'{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}', RpcError),
    "id as text": (b'{"jsonrpc":"2.0","id":"$ID","result":{"n":1}}', {"n": 1}),
    "no id": (b'{"jsonrpc":"2.0","result":{"n":1}}', {"n": 1}),
    "another id": (b'{"jsonrpc":"2.0","id":99999,"result":{"n":1}}', PeerGone),
    "true for an id": (b'{"jsonrpc":"2.0","id":true,"result":{"n":1}}', PeerGone),
    "no object": (b'{"jsonrpc":"2.0","id":$ID,"result":[1]}', RpcError),
    "not json": (b"{oops", UpstreamBadAnswer),
    "nothing": (b"", UpstreamBadAnswer),
    "large": (b'{"jsonrpc":"2.0","id":$ID,"result":{"n":"' + b"x" * SMALL + b'"}}', {"n": "x" * SMALL}),
    "too large": (b'{"jsonrpc":"2.0","id":$ID,"result":{"n":"' + b"x" * 3_000_000 + b'"}}', UpstreamBadAnswer),
    "too many values": (b'{"jsonrpc":"2.0","id":$ID,"result":{"n":[' + b"1," * 250_000 + b"1]}}", UpstreamBadAnswer),
    "too deep": (b'{"jsonrpc":"2.0","id":$ID,"result":' + b'{"n":' * 100_000 + b"1" + b"}" * 100_001, AnswerTooDeep),
    "NaN": (b'{"jsonrpc":"2.0","id":$ID,"result":{"n":NaN}}', "a number"),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_anything_else_is_what_request_makes_of_it(name: str) -> None:
    """C2, C3, C8: the same result, or the same error, in a task."""
    body, expected = OTHERS[name]
    async with raw_http() as raw:
        raw.on["tools/call"] = answering(body)
        async with connected(raw, limits={"max_message_bytes": 2_000_000, "max_message_values": 200_000}) as connection:
            receiver = RecordingReceiver()
            sent = connection.begin(CALL, receiver)
            assert sent.is_sent
            async with asyncio.timeout(5):
                await receiver.told.wait()
            if name == "NaN":
                assert receiver.result is not None
                return
            assert receiver.taken_over
            if isinstance(expected, dict):
                assert await sent.wait() == expected
                assert await connection.request("tools/call", PARAMS) == expected
            else:
                with pytest.raises(expected) as begun:
                    await sent.wait()
                with pytest.raises(expected) as requested:
                    await connection.request("tools/call", PARAMS)
                assert str(begun.value) == str(requested.value)
            del raw.on["tools/call"]
            assert await connection.request("tools/call", PARAMS)


async def test_a_wait_before_the_answer_gets_it() -> None:
    """A7: from then on the receiver hears nothing."""
    go_on = asyncio.Event()

    async def late(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await go_on.wait()
        await raw.ordinary(seen, reply)

    async with raw_http() as raw, connected(raw) as connection:
        raw.on["tools/call"] = late
        receiver = RecordingReceiver()
        sent = connection.begin(CALL, receiver)
        assert sent.is_sent
        waiting = asyncio.ensure_future(sent.wait())
        await until(lambda: raw.count("tools/call") == 1, "it was asked")
        go_on.set()
        assert await waiting == {"content": [{"type": "text", "text": "hello"}]}
        assert not receiver.told.is_set()


async def test_an_event_stream_is_for_a_task() -> None:
    """C2: with its notifications, its progress, and the answer at its end."""

    async def stream(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}})
        params = {"progressToken": seen.message["params"]["_meta"]["progressToken"], "progress": 1}
        await reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"n": 1}})

    async with raw_http() as raw, connected(raw) as connection:
        raw.on["tools/call"] = stream
        receiver = RecordingReceiver()
        reports: list[Json] = []
        sent = connection.begin(JsonRpcRequest("tools/call", PARAMS, reports.append), receiver)
        assert sent.is_sent
        async with asyncio.timeout(5):
            await receiver.told.wait()
        assert receiver.taken_over
        assert not reports
        assert await sent.wait() == {"n": 1}
        assert reports == [{"progress": 1}]


async def test_a_request_that_is_dropped_gives_up_its_connection() -> None:
    """A8: a task that was to wait for it may be cancelled before it begins."""

    async def stream(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.stream()
        await never(seen, reply)

    server = RawHttpServer()
    server.modern = True
    async with raw_http(server) as raw, connected(raw) as connection:
        raw.on["tools/call"] = stream
        before = raw.open
        receiver = RecordingReceiver()
        sent = connection.begin(CALL, receiver)
        async with asyncio.timeout(5):
            await receiver.told.wait()
        assert receiver.taken_over
        assert raw.open == before
        del sent
        await until(lambda: raw.open < before, "the connection is closed")


@pytest.mark.parametrize("status", [202, 401, 404, 500, 503])
async def test_another_status_is_for_a_task(status: int) -> None:
    """C11: an unknown session too, so that it is renewed."""

    async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(status)

    async with raw_http() as raw, connected(raw) as connection:
        raw.on["tools/call"] = refuse
        receiver = RecordingReceiver()
        sent = connection.begin(CALL, receiver)
        assert sent.is_sent
        async with asyncio.timeout(5):
            await receiver.told.wait()
        with pytest.raises(SessionExpired if status == 404 else UpstreamError):
            await sent.wait()


@pytest.mark.parametrize("said", [b"", HALF, b"nonsense\r\n\r\n"])
async def test_the_end_of_the_connection_is_for_a_task(said: bytes) -> None:
    """A7, C12: and nothing is sent again."""

    async def end(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        reply.streaming = True
        await reply.raw(said)

    async with raw_http() as raw, connected(raw) as connection:
        raw.on["tools/call"] = end
        receiver = RecordingReceiver()
        sent = connection.begin(CALL, receiver)
        assert sent.is_sent
        async with asyncio.timeout(5):
            await receiver.told.wait()
        assert receiver.taken_over
        with pytest.raises(PeerGone):
            await sent.wait()
        assert raw.count("tools/call") == 1


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_a_cancelled_wait_cancels_the_request(modern: bool) -> None:
    """A8: as its era does: the connection is closed, and before 2026-07-28 the server is told besides."""
    async with raw_http() as raw:
        raw.modern = modern
        async with connected(raw) as connection:
            raw.on["tools/call"] = never
            before = raw.open
            sent = connection.begin(CALL, RecordingReceiver())
            assert sent.is_sent
            waiting = asyncio.ensure_future(sent.wait())
            await until(lambda: raw.count("tools/call") == 1, "it was asked")
            asked = next(seen for seen in raw.seen if seen.method == "tools/call").message["id"]
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            if modern:
                await until(lambda: raw.open < before, "the connection is closed")
                return
            await until(lambda: raw.count("notifications/cancelled") == 1, "it was told")
            told = next(seen for seen in raw.seen if seen.method == "notifications/cancelled")
            assert told.message["params"]["requestId"] == asked


async def test_answers_in_the_order_in_which_they_come() -> None:
    """A7: any number at one time, each to its own receiver, in no task."""
    async with raw_http() as raw, connected(raw) as connection:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(connection.request("tools/call", PARAMS))
        receivers = []
        for number in range(8):
            receiver = RecordingReceiver()
            params = {"name": "echo", "arguments": {"say": str(number)}}
            if connection.begin(JsonRpcRequest("tools/call", params), receiver).is_sent:
                receivers.append((number, receiver))
        assert len(receivers) > 1
        async with asyncio.timeout(5):
            for number, receiver in receivers:
                await receiver.told.wait()
                assert receiver.result == {"content": [{"type": "text", "text": str(number)}]}


async def test_a_receiver_may_begin_the_next_request_at_once() -> None:
    """A7: the connection is free by the time that its answer is told."""

    class Again(RecordingReceiver):
        def take_result(self, result: Json, /) -> None:
            super().take_result(result)
            assert connection.begin(CALL, second).is_sent

    async with raw_http() as raw, connected(raw) as connection:
        second = RecordingReceiver()
        assert connection.begin(CALL, Again()).is_sent
        async with asyncio.timeout(5):
            await second.told.wait()
        assert second.result is not None
        assert raw.count("tools/call") == 2
