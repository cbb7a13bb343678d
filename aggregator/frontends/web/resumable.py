"""Answers that a host of the handshake eras reads on after its connection broke (L/basic/transports, Resumability).

Rule 1: an id is good in its own session only, whose host has shown its key or token again.
Rule 2: what is kept is bounded: for each call, for all together, and in time once the call is over.
"""

import asyncio
import base64
import secrets
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from aggregator.frontends.web.event_stream import EventStream, UnreadBytes
from aggregator.frontends.web.host_guard import Send
from aggregator.wire.codec import decode, encode
from aggregator.wire.message import sane_id

# Seconds that the events of a call are kept after its end, and that a question waits for its host to come back.
KEPT_FOR: Final = 60.0
# Milliseconds after which a host may come back.
RETRY: Final = 1_000
# Bytes that are kept of all calls together.
TOGETHER: Final = 64 * 2**20
_LONGEST_REQUEST_ID: Final = 300
_PARTS: Final = 4


class EventId(NamedTuple):
    """The id of an event: the replica and the stream that it is of, its number there, and the request that it is about.

    `request_id` is None if the id is too long to be sent.
    """

    owner: str
    stream: str
    number: int
    request_id: str | int | None

    @classmethod
    def read(cls, text: str | None) -> "EventId | None":
        """Return the id that a host sent; None if it is none of ours."""
        parts = text.split("~") if text is not None else []
        if len(parts) != _PARTS or not parts[2].isdecimal() or len(parts[2]) > _PARTS * _PARTS:
            return None
        try:
            request_id = sane_id(decode(base64.urlsafe_b64decode(parts[3]))) if parts[3] else None
        except ValueError:
            return None
        return cls(parts[0], parts[1], int(parts[2]), request_id)


class KeptEvents:
    """The events of all calls, as far as they are kept; `unread` also bounds those of one call."""

    def __init__(self, unread: UnreadBytes, owner: str) -> None:
        self.unread = unread
        self.owner = owner
        self.size = 0
        # The oldest first.
        self._streams: dict[ResumableStream, None] = {}

    def __repr__(self) -> str:
        return f"<KeptEvents {self.size} bytes of {len(self._streams)} calls>"

    def grow(self, stream: "ResumableStream", size: int) -> None:
        """Count bytes that are kept of a stream; the oldest streams lose theirs if that is too much."""
        self._streams[stream] = None
        self.size += size
        while self.size > min(TOGETHER, self.unread.together):
            next(iter(self._streams)).forget()

    def shrink(self, size: int) -> None:
        """Count bytes that are kept no longer."""
        self.size -= size

    def remove(self, stream: "ResumableStream") -> None:
        """Forget a stream."""
        self._streams.pop(stream, None)


class ResumableStreams:
    """The streams of the calls of one session. `primes`: its host knows events that only have an id."""

    def __init__(self, kept: KeptEvents, *, primes: bool) -> None:
        self.kept = kept
        self.primes = primes
        self._streams: dict[str, ResumableStream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, request_id: str | int) -> "ResumableStream":
        """Return a new stream for the answer to a request."""
        name = secrets.token_urlsafe(12).replace("~", "")
        stream = self._streams[name] = ResumableStream(self, name, request_id)
        return stream

    def find(self, id: EventId) -> "ResumableStream | None":
        """Return the stream of an event; None if it is not, or no longer, kept here."""
        return self._streams.get(id.stream) if id.owner == self.kept.owner else None

    def close(self) -> None:
        """Forget all streams: the session has ended."""
        for stream in list(self._streams.values()):
            stream.drop()

    def remove(self, name: str) -> None:
        """Forget a stream."""
        self._streams.pop(name, None)


class ResumableStream:
    """The events of one call, of which each connection in turn gets what the one before did not."""

    def __init__(self, home: ResumableStreams, name: str, request_id: str | int) -> None:
        told = base64.urlsafe_b64encode(encode(request_id)).decode()
        self._suffix = told if len(told) <= _LONGEST_REQUEST_ID else ""
        self._home = home
        self._name = name
        self._number = 0
        self._events: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._whole = False
        self._expiry: asyncio.TimerHandle | None = None
        self._attached = asyncio.Event()
        # On the connection of the request itself, and on the last one that took it up.
        self._own = self._current = home.kept.unread.open()
        if home.primes:
            self._send(0, b"")

    def __repr__(self) -> str:
        return f"<ResumableStream {self._number} events, {'whole' if self._whole else 'open'}>"

    @property
    def ended(self) -> bool:
        """True if no connection takes events now."""
        return self._current.ended

    async def wait_attached(self) -> bool:
        """Wait until the host is there, for as long as events are kept; return whether it is."""
        try:
            async with asyncio.timeout(KEPT_FOR):
                while self.ended:
                    self._attached.clear()
                    await self._attached.wait()
        except TimeoutError:
            return False
        return True

    def push(self, data: bytes) -> None:
        """Keep one event, and send it if the host is there."""
        self._number += 1
        self._events.append((self._number, data))
        self._size += len(data)
        while self._size > self._home.kept.unread.each and len(self._events) > 1:
            self._lose_oldest()
        self._home.kept.grow(self, len(data))
        self._send(self._number, data)

    def end(self) -> None:
        """End the stream: the last event is the answer. What is kept is kept for `KEPT_FOR` seconds more."""
        self._whole = True
        self._current.end()
        if self._events:
            self._expiry = asyncio.get_running_loop().call_later(KEPT_FOR, self.forget)
        else:
            self.forget()

    def drop(self) -> None:
        """End the stream at once, for good."""
        self._current.drop()
        self.forget()

    def disconnected(self) -> None:
        """Note that the host has left the connection of its request; it may be back on another one already."""
        self._own.end()

    async def run(self, send: Send, headers: Mapping[bytes, bytes] | None = None) -> None:
        """Write the response to the request itself, until its connection or the stream ends."""
        await self._own.run(send, headers)

    def resume(self, after: int) -> EventStream:
        """Return a stream with the events behind number `after`, and those to come, in place of an older one."""
        self._current.end()
        stream = self._current = self._home.kept.unread.open()
        self._attached.set()
        for number, data in self._events:
            if number > after:
                self._send(number, data)
        if self._whole:
            stream.end()
        return stream

    def forget(self) -> None:
        """Keep nothing any more. May be called twice."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        while self._events:
            self._lose_oldest()
        self._home.kept.remove(self)
        self._home.remove(self._name)

    def _send(self, number: int, data: bytes) -> None:
        id = f"{self._home.kept.owner}~{self._name}~{number}~{self._suffix}"
        self._current.push(data, id=id, retry=RETRY if number <= 1 else None)

    def _lose_oldest(self) -> None:
        _, data = self._events.popleft()
        self._size -= len(data)
        self._home.kept.shrink(len(data))
