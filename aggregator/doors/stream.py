"""One server-sent event stream to a host: a bounded queue on our side, keep-alives while nothing is said."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from aggregator.doors.guard import Receive, Send
from aggregator.wire.sse import KEEP_ALIVE, format_event

KEEP_ALIVE_INTERVAL: Final = 15.0
# A host that lets this much pile up does not read: the stream is ended rather than kept in memory.
UNREAD_LIMIT: Final = 64 * 1024 * 1024

HEADERS: Final = {
    b"content-type": b"text/event-stream",
    b"cache-control": b"no-cache, no-transform",
    b"x-accel-buffering": b"no",
}


class EventStream:
    """`push` from anywhere, `run` in the task that owns the response."""

    def __init__(self) -> None:
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._ending = False

    @property
    def ended(self) -> bool:
        """Whether what is pushed now is dropped."""
        return self._ending

    def push(self, data: bytes, event: str = "message") -> None:
        """Send one event, later; after `end` it is dropped."""
        if self._ending:
            return
        frame = format_event(data, event)
        self._size += len(frame)
        if self._size > UNREAD_LIMIT and self._queue:
            self._ending = True
        else:
            self._queue.append(frame)
        self._news.set()

    def end(self) -> None:
        """Finish once everything pushed has been sent."""
        self._ending = True
        self._news.set()

    async def run(self, send: Send, headers: Mapping[bytes, bytes] | None = None) -> None:
        """Write the response until the stream ends."""
        lines = [*HEADERS.items(), *(headers or {}).items()]
        await send({"type": "http.response.start", "status": 200, "headers": lines})
        if not self._queue:
            # Gets the headers out at once, through anything that buffers.
            await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
        while True:
            while self._queue:
                frame = b"".join(self._queue)
                self._queue.clear()
                self._size = 0
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            if self._ending:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            self._news.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_INTERVAL):
                    await self._news.wait()
            except TimeoutError:
                await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})


async def end_when_gone(receive: Receive, stream: EventStream) -> None:
    """End `stream` when the host closes its side."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()
