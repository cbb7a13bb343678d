"""Server-sent event streams to hosts, with bounded queues, and with keep-alives while there are no events."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from aggregator.frontends.web.host_guard import Receive, Send
from aggregator.wire.sse import KEEP_ALIVE, format_event

log = logging.getLogger(__name__)

KEEP_ALIVE_INTERVAL: Final = 15.0
# Bytes written in one piece, unless one event is larger.
_PIECE: Final = 64 * 1024
# The bound on all streams together, as a multiple of the bound on one.
TOGETHER: Final = 16

HEADERS: Final = {
    b"content-type": b"text/event-stream",
    b"cache-control": b"no-cache, no-transform",
    b"x-accel-buffering": b"no",
}


class UnreadBytes:
    """The bytes that wait on all streams for hosts that do not read them. `each` bounds one stream, `together` all.

    `refused` counts the streams that are ended.
    """

    def __init__(self, each: int = 16 * 1024 * 1024, refused: Counter[str] | None = None) -> None:
        self.each = each
        self.together = each * TOGETHER
        self.size = 0
        self._refused: Counter[str] = Counter() if refused is None else refused
        self._streams: dict[EventStream, None] = {}

    def __repr__(self) -> str:
        return f"<UnreadBytes {self.size} bytes on {len(self._streams)} streams>"

    def open(self) -> "EventStream":
        """Return a new stream, which is counted here while it runs."""
        return EventStream(self)

    def grow(self, stream: "EventStream", size: int) -> None:
        """Count bytes that wait on a stream; the fullest stream is ended if that is too much."""
        self._streams[stream] = None
        self.size += size
        if self.size > self.together:
            self.give_up(max(self._streams, key=lambda one: one.waiting))

    def shrink(self, size: int) -> None:
        """Count bytes that were sent or dropped."""
        self.size -= size

    def forget(self, stream: "EventStream") -> None:
        """Remove a stream that is over."""
        self._streams.pop(stream, None)

    def give_up(self, stream: "EventStream") -> None:
        """End a stream that its host does not read, and drop the events that wait on it."""
        log.warning(
            "a host does not read its event stream: %d bytes wait, so the stream is ended",
            stream.waiting,
        )
        self._refused["unread"] += 1
        stream.given_up = True
        stream.drop()


class EventStream:
    """One stream. `push` may be called anywhere; `run` belongs to the task that owns the response. `given_up`: it is
    ended since its host does not read it.
    """

    def __init__(self, unread: UnreadBytes | None = None) -> None:
        self.waiting = 0
        self.given_up = False
        self._unread = unread or UnreadBytes()
        self._queue: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ending = False

    @property
    def ended(self) -> bool:
        """True if pushed events are dropped from now on."""
        return self._ending

    def push(self, data: bytes, event: str = "message", *, id: str | None = None, retry: int | None = None) -> None:
        """Queue one event; after `end` it is dropped. `id` and `retry` are as of `format_event`."""
        if self._ending:
            return
        if self.waiting > self._unread.each:
            self._unread.give_up(self)
            return
        frame = format_event(data, event, id=id, retry=retry)
        self._queue.append(frame)
        self._changed.set()
        self.waiting += len(frame)
        self._unread.grow(self, len(frame))

    def end(self) -> None:
        """End the stream once all queued events have been sent."""
        self._ending = True
        self._changed.set()

    def disconnected(self) -> None:
        """Note that the host has left: nothing more can be sent."""
        self.end()

    def drop(self) -> None:
        """End the stream without sending the queued events."""
        self._sent(sum(map(len, self._queue)))
        self._queue.clear()
        self.end()

    async def run(self, send: Send, headers: Mapping[bytes, bytes] | None = None) -> None:
        """Write the response until the stream ends."""
        try:
            await self._run(send, [*HEADERS.items(), *(headers or {}).items()])
        finally:
            self.drop()
            # A piece may have been in the middle of being sent.
            self._sent(self.waiting)
            self._unread.forget(self)

    async def _run(self, send: Send, lines: list[tuple[bytes, bytes]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": lines})
        if not self._queue:
            # Makes buffering proxies pass the headers on at once.
            await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
        while True:
            while self._queue:
                piece = self._piece()
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                self._sent(len(piece))
            if self._ending:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_INTERVAL):
                    await self._changed.wait()
            except TimeoutError:
                await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})

    def _piece(self) -> bytes:
        frames = [self._queue.popleft()]
        size = len(frames[0])
        while self._queue and size + len(self._queue[0]) <= _PIECE:
            frames.append(self._queue.popleft())
            size += len(frames[-1])
        return b"".join(frames)

    def _sent(self, size: int) -> None:
        self.waiting -= size
        self._unread.shrink(size)


async def end_when_gone(receive: Receive, stream: EventStream) -> None:
    """End `stream` when the host closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()
