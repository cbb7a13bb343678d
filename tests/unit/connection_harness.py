"""One connection of a host to the web frontends with nothing below it: a test moves its clock and answers requests."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.request_cache import RequestCache


class FakeTask:
    """A task that never runs."""

    def add_done_callback(self, callback: object) -> None:
        """It is never done."""


class FakeLoop:
    """A loop whose clock is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: dict[asyncio.TimerHandle, None] = {}

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now + seconds, callback, args, cast(asyncio.AbstractEventLoop, self))
        self.timers[handle] = None
        return handle

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        callback(*args)

    def create_task(self, work: Coroutine[Any, Any, object], **_: object) -> Any:
        """Start nothing: a test answers requests itself."""
        work.close()
        return FakeTask()

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.timers.pop(handle, None)

    def advance(self, seconds: float) -> None:
        """Move the clock, and run what is due on the way."""
        end = self.now + seconds
        while due := [handle for handle in self.timers if handle.when() <= end]:
            first = min(due, key=asyncio.TimerHandle.when)
            del self.timers[first]
            self.now = first.when()
            first._run()
        self.now = end


class FakeTransport(asyncio.Transport):
    """A transport that keeps what is written, and says how much of it is `unread`."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self.unread = 0
        self.closed = self.aborted = self.paused = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return self.unread


async def _app(scope: object, receive: object, send: object) -> None:
    """Answer nothing."""


class ConnectionHarness:
    """A connection that was just made."""

    def __init__(self, *, stall_timeout: float = 10.0, keep_alive: int = 75, posts: RequestCache | None = None) -> None:
        self.loop, self.transport, self.refused = FakeLoop(), FakeTransport(), Counter[str]()
        config = uvicorn.Config(
            _app, log_config=None, access_log=False, lifespan="off", ws="none", timeout_keep_alive=keep_alive
        )
        self.connection = BoundedConnection(
            stall_timeout, self.refused, posts, config, ServerState(), {}, cast(asyncio.AbstractEventLoop, self.loop)
        )
        self.connection.connection_made(self.transport)

    def feed(self, *pieces: bytes) -> None:
        """Bytes of the host have come."""
        for piece in pieces:
            self.connection.data_received(piece)

    def begin_answer(self) -> None:
        """Send the head of an answer to the request that runs."""
        self._send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})

    def answer(self) -> None:
        """Answer the request that runs."""
        self.begin_answer()
        self._send({"type": "http.response.body", "body": b"{}"})

    def _send(self, message: Any) -> None:
        running = self.connection._answering
        assert running is not None
        with suppress(StopIteration):
            running.send(message).send(None)
