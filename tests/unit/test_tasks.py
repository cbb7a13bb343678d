"""A home for tasks: every task in it ends before it closes, and one failure harms no other."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aggregator.domain.bounds.tasks import Tasks

BOUND = 5


Work = Callable[[], Coroutine[Any, Any, None]]


async def _end() -> None:
    pass


async def _fail() -> None:
    raise KeyError("broken")


async def test_leaving_cancels_and_waits_for_what_is_left() -> None:
    ended: list[str] = []

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("stayed")

    async with asyncio.timeout(BOUND):
        async with Tasks("a test") as tasks:
            tasks.start(stay())
            await asyncio.sleep(0)
            assert len(tasks) == 1
            assert repr(tasks) == "<Tasks of a test, 1 running>"
        assert ended == ["stayed"]
        assert len(tasks) == 0


async def test_a_failure_is_logged_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        go_on = asyncio.Event()
        staying = tasks.start(go_on.wait())
        failing = tasks.start(_fail())
        with caplog.at_level(logging.ERROR):
            await asyncio.wait([failing])
            await asyncio.sleep(0)
        assert not staying.done()
        go_on.set()
        assert await staying
    assert [record.getMessage() for record in caplog.records] == ["a task of a test failed"]
    assert "broken" in caplog.text


async def test_a_task_started_while_closing_ends_too() -> None:
    async with asyncio.timeout(BOUND):
        late: list[asyncio.Task[object]] = []
        tasks = Tasks("a test")

        async def start_another() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                late.append(tasks.start(asyncio.Event().wait()))

        tasks.start(start_another())
        await asyncio.sleep(0)
        await tasks.cancel()
        assert len(tasks) == 0
        assert late[0].cancelled()


# A loop that spins never lets `asyncio.timeout` expire.
@pytest.mark.timeout(BOUND)
@pytest.mark.parametrize("work", [_end, _fail])
async def test_a_task_that_ended_in_this_very_turn_is_no_obstacle(work: Work) -> None:
    """Where the loop has not called back yet, waiting once more for the task may give it no turn to do so."""
    tasks = Tasks("a test")
    task = tasks.start(work())
    await asyncio.sleep(0)
    assert task.done()
    assert len(tasks) == 1, "its callback has not run"
    await tasks.cancel()
    assert len(tasks) == 0


async def test_an_error_inside_the_home_still_closes_it() -> None:
    started: list[asyncio.Task[object]] = []

    async def home() -> None:
        async with Tasks("a test") as tasks:
            started.append(tasks.start(asyncio.Event().wait()))
            raise ValueError("inside")

    async with asyncio.timeout(BOUND):
        with pytest.raises(ValueError, match="inside"):
            await home()
    assert started[0].cancelled()


async def test_being_cancelled_while_closing_is_passed_on() -> None:
    closing = asyncio.Event()
    leave = asyncio.Event()

    async def slow_to_leave() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closing.set()
            await leave.wait()

    async def home() -> None:
        async with Tasks("a test") as tasks:
            tasks.start(slow_to_leave())
            await asyncio.sleep(0)

    async with asyncio.timeout(BOUND):
        owner = asyncio.ensure_future(home())
        await closing.wait()
        owner.cancel()
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await owner
