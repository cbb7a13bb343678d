"""One timer for all requests that run, and one for a connection between two requests."""

import asyncio
from typing import cast

import pytest

from aggregator.frontends.web.exchange import SLOW, Exchange, SlowRequests
from tests.unit.connection_harness import ConnectionHarness, FakeLoop


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


def test_a_connection_between_two_requests_is_kept_for_a_time() -> None:
    """The time counts from the last answer; while a request runs the connection stays, and one timer serves all."""
    it = ConnectionHarness(stall_timeout=1000.0, keep_alive=75)
    loop, transport, connection = it.loop, it.transport, it.connection
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
