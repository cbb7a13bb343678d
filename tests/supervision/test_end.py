"""The end of the program on a clock of its own: how long servers have that are in no hurry to leave."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aggregator.upstream.process.process import ChildProcess
from aggregator.upstream.process.reaper_pipe import CLOSE_GRACE, TERM_GRACE, Reaper
from tests.supervision.virtual_clock import VirtualLoop

PATIENT = True
# What the end of the program may take of the waits for servers; the rest of its three seconds is for the work.
IN_ALL = 2.0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


class UnresponsiveTransport:
    """The transport of a child that heeds nothing but SIGKILL; `signals` says when it got which."""

    def __init__(self, loop: VirtualLoop, patch: pytest.MonkeyPatch) -> None:
        self.signals: dict[int, float] = {}
        self._loop = loop
        patch.setattr("os.killpg", self.signal)

    def get_pid(self) -> int:
        return 1

    def get_pipe_transport(self, fd: int) -> None:
        return None

    def get_returncode(self) -> int:
        return -signal.SIGKILL

    def close(self) -> None:
        """Close nothing."""

    def signal(self, group: int, number: int) -> None:
        self.signals[number] = self._loop.time()
        if number == signal.SIGKILL:
            self._loop.call_soon(self.child.process_exited)

    async def start(self) -> None:
        self.child = ChildProcess("deaf", None)
        transport: Any = self
        self.child.connection_made(transport)
        self.child.pipe_connection_lost(1, None)
        self.child.pipe_connection_lost(2, None)

    async def stop(self, reaper: Reaper) -> None:
        await self.child.stop(reaper.close_grace(CLOSE_GRACE), reaper.hurry)


def _stopped(loop: VirtualLoop, deaf: UnresponsiveTransport, reaper: Reaper, then: Callable[[], None]) -> None:
    loop.run_until_complete(deaf.start())
    stopping = loop.create_task(deaf.stop(reaper))
    loop.settle()
    loop.call_soon(then)
    loop.pass_time(CLOSE_GRACE + TERM_GRACE + 1)
    assert stopping.done()


def test_one_alone_has_its_time(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: two seconds after its stdin closed SIGTERM, two seconds later SIGKILL."""
    deaf = UnresponsiveTransport(loop, monkeypatch)
    _stopped(loop, deaf, Reaper(), lambda: None)
    assert deaf.signals == {signal.SIGTERM: CLOSE_GRACE, signal.SIGKILL: CLOSE_GRACE + TERM_GRACE}


def test_at_the_end_of_the_program_all_have_less(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: each gets SIGTERM and time to heed it, and all is over within the seconds that the program has."""
    deaf, reaper = UnresponsiveTransport(loop, monkeypatch), Reaper()
    loop.call_soon(reaper.end)
    loop.settle()
    _stopped(loop, deaf, reaper, lambda: None)
    assert 0 < deaf.signals[signal.SIGTERM] < deaf.signals[signal.SIGKILL] <= IN_ALL


def test_one_that_was_ending_already_is_no_exception(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: its own time is cut short where it would outlast the program's."""
    deaf, reaper = UnresponsiveTransport(loop, monkeypatch), Reaper()
    _stopped(loop, deaf, reaper, reaper.end)
    assert max(deaf.signals.values()) <= IN_ALL


async def test_a_reaper_that_is_closed_hurries_nobody_later() -> None:
    """C3: the clock of the end stops with it."""
    reaper = Reaper()
    reaper.end()
    await reaper.close()
    loop: Any = asyncio.get_running_loop()
    assert all(timer.cancelled() for timer in loop._scheduled if timer._callback == reaper.hurry.set)
