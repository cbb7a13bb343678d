"""One timer for all requests that run, and one for a connection between two requests."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.exchange import SLOW, Exchange, SlowRequests


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

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        del self.timers[handle]

    def advance(self, seconds: float) -> None:
        """Move the clock, and run what is due on the way."""
        end = self.now + seconds
        while due := [handle for handle in self.timers if handle.when() <= end]:
            first = min(due, key=asyncio.TimerHandle.when)
            del self.timers[first]
            self.now = first.when()
            first._run()
        self.now = end


class WatchedExchange:
    """An exchange that counts how often it is watched."""

    def __init__(self) -> None:
        self.watched = 0

    def watch(self) -> None:
        self.watched += 1


def test_a_request_is_watched_after_a_while_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before `SLOW` seconds, not after twice that; what is over is forgotten, and the timer with it."""
    loop = FakeLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    slow, first, second, quick = SlowRequests(), WatchedExchange(), WatchedExchange(), WatchedExchange()
    slow.add(cast(Exchange, first))
    loop.advance(SLOW / 2)
    slow.add(cast(Exchange, second))
    slow.add(cast(Exchange, quick))
    assert len(loop.timers) == 1
    loop.advance(SLOW * 0.9)
    slow.remove(cast(Exchange, quick))
    assert (first.watched, second.watched) == (0, 0)
    loop.advance(SLOW * 0.6)
    assert (first.watched, second.watched, quick.watched) == (1, 1, 0)
    loop.advance(SLOW * 10)
    assert (first.watched, second.watched, quick.watched) == (1, 1, 0)
    assert not loop.timers
    slow.add(cast(Exchange, quick))
    loop.advance(SLOW * 3)
    assert quick.watched == 1


class FakeTransport(asyncio.Transport):
    """A transport that notes whether it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.closed = False

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_a_connection_between_two_requests_is_kept_for_a_time() -> None:
    """The time counts from the last answer; while a request runs the connection stays, and one timer serves all."""
    loop, transport = FakeLoop(), FakeTransport()
    config = uvicorn.Config(lambda *_: None, log_config=None, lifespan="off", ws="none", timeout_keep_alive=75)
    connection = BoundedConnection(1000.0, Counter(), None, config, ServerState(), {}, loop)
    connection.connection_made(transport)
    waiting_for_a_head = len(loop.timers)
    for _ in range(5):
        connection.on_response_complete()
        assert len(loop.timers) == waiting_for_a_head + 1
        loop.advance(70)
        assert not transport.closed
        connection._unset_keepalive_if_required()
    loop.advance(200)
    assert not transport.closed
    connection.on_response_complete()
    loop.advance(74.9)
    assert not transport.closed
    loop.advance(0.2)
    assert transport.closed
    connection.connection_lost(None)
    assert not loop.timers
