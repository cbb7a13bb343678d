"""Streams to hosts and requests over HTTP, each bound and each end by itself."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.frontends.web.event_stream import EventStream, UnreadBytes
from aggregator.frontends.web.exchange import Exchange
from aggregator.frontends.web.header_context import with_context
from aggregator.frontends.web.host_guard import Message
from aggregator.frontends.web.resumable import EventId, KeptEvents, ResumableStreams
from tests.peers.toolbox import Json
from tests.polling import BOUND, until


def test_the_fullest_stream_ends_if_all_together_have_too_much() -> None:
    """D7: at the first byte beyond the bound, though none has too much by itself."""
    refused = Counter[str]()
    unread = UnreadBytes(10_000, refused)
    one, fullest, other = (unread.open() for _ in range(3))
    for stream, size in ((one, 100), (fullest, 300), (other, 200)):
        stream.push(b"x" * size)
    unread.together = unread.size
    assert not any(stream.ended for stream in (one, fullest, other))
    one.push(b"x")
    assert [stream.given_up for stream in (one, fullest, other)] == [False, True, False]
    assert (unread.size, refused["unread"]) == (one.waiting + other.waiting, 1)


async def test_bytes_on_their_way_are_counted_no_longer_once_the_stream_ends() -> None:
    """D7: else a host that leaves again and again would take the room of the others."""
    unread, began = UnreadBytes(), asyncio.Event()

    async def send(message: Message) -> None:
        if len(message.get("body", b"")) > 1_000:
            began.set()
            await asyncio.Event().wait()

    stream = unread.open()
    stream.push(b"x" * 2_000)
    writing = asyncio.ensure_future(stream.run(send))
    async with asyncio.timeout(BOUND):
        await began.wait()
        stream.push(b"y" * 500)
        assert unread.size > 2_500
        writing.cancel()
        await asyncio.wait({writing})
    assert (unread.size, stream.waiting) == (0, 0)


def test_an_event_is_found_at_the_process_that_sent_it() -> None:
    """C4: the name of a stream counts with that of its process."""
    streams = ResumableStreams(KeptEvents(UnreadBytes(), "me"), primes=False)
    stream = streams.open(7)
    assert streams.find(EventId("me", stream._name, 0, 7)) is stream
    assert streams.find(EventId("other", stream._name, 0, 7)) is None
    assert streams.find(EventId("me", "other", 0, 7)) is None


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("modern", [False, True])
async def test_a_closed_connection_cancels_the_request_of_2026_alone(modern: bool, streamed: bool) -> None:
    """S, L basic/transports: also after a part of the answer was sent."""
    gone, sent = asyncio.Event(), list[Message]()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    finished = asyncio.Event()

    async def answer(exchange: Exchange) -> bool:
        async with exchange:
            if streamed:
                exchange.notify("notifications/progress", {})
            exchange.watch()
            await finished.wait()
            exchange.result = {}
        return exchange.succeeded

    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        exchange = Exchange(7, receive, send, tasks, modern=modern)
        running = tasks.start(answer(exchange))
        if streamed:
            await until(lambda: bool(sent), "the stream begins")
        gone.set()
        if not modern:
            await until(lambda: exchange._watching is not None and exchange._watching.done(), "it is seen")
            finished.set()
        assert await running is not modern


META: Json = {"_meta": {"traceparent": "own"}}


@pytest.mark.parametrize(
    ("params", "headers", "meta"),
    [
        ({}, {"traceparent": ["a"], "x-user-id": ["u"], "other": ["o"]}, {"traceparent": "a", "user_id": "u"}),
        (META, {"traceparent": ["a"], "baggage": ["b"]}, {"traceparent": "own", "baggage": "b"}),
        ({}, {"baggage": ["a=1", "b=2"], "tracestate": ["x"]}, {"baggage": "a=1,b=2", "tracestate": "x"}),
        ({}, {"x-user-id": ["u", "v"], "traceparent": ["a", "b"]}, None),
        ({}, {"x-user-id": ["u", "v"], "baggage": ["b"]}, {"baggage": "b"}),
        ({}, {"other": ["o"]}, None),
        ({"_meta": 5}, {"baggage": ["b"]}, 5),
    ],
)
def test_headers_say_what_the_message_does_not(params: Json, headers: dict[str, list[str]], meta: Any) -> None:
    """D8: one that stands twice and is no list says nothing."""
    found = with_context(params, headers).get("_meta")
    if isinstance(found, dict):
        found = {key.rpartition("/")[2]: value for key, value in found.items()}
    assert found == meta
    assert params in ({}, META, {"_meta": 5}), "what was given stays as it is"


def test_an_event_after_the_end_is_dropped() -> None:
    unread = UnreadBytes()
    stream: EventStream = unread.open()
    stream.end()
    stream.push(b"late")
    assert (stream.waiting, unread.size) == (0, 0)
