import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.bounds import ticks
from aggregator.frontends import http_server
from aggregator.frontends.uvicorn_parts import HttpToolsProtocol
from tests.polling import until

PERIODS = st.sampled_from([0.02, 0.25, 0.5, 1.0, 600.0])
BOUND = 20.0


def wait_at(now: float, period: float) -> float:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ticks.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: now))  # type: ignore[attr-defined]
        return ticks.until_next(period)


@given(st.floats(0, 1e7), st.floats(0, 1), PERIODS)
def test_looks_of_one_period_wake_the_process_together(now: float, later: float, period: float) -> None:
    """An idle process wakes once a period, however many looks it has."""
    other = now + later * period
    ends = now + wait_at(now, period), other + wait_at(other, period)
    apart = (ends[0] - ends[1]) / period
    assert apart == pytest.approx(round(apart), abs=1e-4)


@given(st.floats(0, 1e7), PERIODS)
def test_a_wait_is_never_long_and_never_none(now: float, period: float) -> None:
    """A change is seen as soon as before, and a timer that fires early does not make the process look twice."""
    assert 0.0999 * period <= wait_at(now, period) <= 1.1001 * period


async def test_a_server_ends_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an HTTP server is an event; the date in its answers is its only look."""
    monkeypatch.setattr(http_server, "DATE_EVERY", 1e6)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nothing was asked")

    server = http_server.Listener(answer, HttpToolsProtocol, 1)
    async with asyncio.timeout(BOUND):
        async with server.serving(socket.create_server(("127.0.0.1", 0)), "this test"):
            await until(lambda: server.started, "it serves")
