"""Background work that raises is begun again, and said until it has gone on for a while."""

import asyncio
import logging

import pytest

from aggregator.domain.bounds.kept_work import FIRST_PAUSE, LONGEST_PAUSE, STEADY, KeptWork
from aggregator.domain.errors import OperatorError

NAME = "the search index"


class Clock:
    """A clock that pauses move on. `gate` holds the pause that is under way."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.said: list[str | None] = []
        self.kept = KeptWork(lambda: self.now, self.pause)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.said.append(self.kept.problem)
        self.now += seconds


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), TimeoutError(), ExceptionGroup("g", [ValueError()])])
async def test_work_that_raised_is_begun_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    clock, went_on = Clock(), asyncio.Event()
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise error
        went_on.set()
        await asyncio.Event().wait()

    keeping = asyncio.ensure_future(clock.kept.keep(NAME, work))
    await went_on.wait()
    kind = type(error).__name__
    assert clock.said == [f"{NAME} failed ({kind}) and begins again within 1 s; the log says more"]
    assert clock.kept.problem == f"{NAME} failed ({kind}) and was begun again; the log says more"
    told = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.getMessage() for one in told] == [f"{NAME} failed, and begins again in 1 s"]
    assert told[0].exc_info is not None
    clock.now += STEADY - 1
    assert clock.kept.problem is not None
    clock.now += 1
    assert clock.kept.problem is None
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


async def test_an_error_with_words_for_operators_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    async def work() -> None:
        if not clock.pauses:
            raise OperatorError("The database is away.")

    await clock.kept.keep(NAME, work)
    (told,) = (one for one in caplog.records if one.levelno == logging.ERROR)
    assert told.getMessage() == f"{NAME} failed (The database is away.), and begins again in 1 s"
    assert told.exc_info is None


async def test_pauses_grow_to_a_bound_and_begin_anew_after_a_while() -> None:
    clock = Clock()
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 10:
            clock.now += STEADY
        if runs <= 10:
            raise ValueError

    await clock.kept.keep(NAME, work)
    assert clock.pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1]
    assert (FIRST_PAUSE, LONGEST_PAUSE) == (1, 60)
    assert str(clock.said[1]).startswith(f"{NAME} failed 2 times in a row (ValueError)")
    assert str(clock.said[-1]).startswith(f"{NAME} failed (ValueError)")
    assert clock.kept.problem is None, "it has ended by itself"


async def test_each_work_is_told_by_its_name_and_a_cancelled_one_ends() -> None:
    clock = Clock()
    stays = asyncio.Event()

    async def fails() -> None:
        if not stays.is_set():
            stays.set()
            raise OSError
        await asyncio.Event().wait()

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await clock.kept.keep("the leases", cancelled)
    assert clock.pauses == []
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(clock.kept.keep("the audit", fails))
        await stays.wait()
        await asyncio.sleep(0)
        assert "the audit failed (OSError)" in str(clock.kept.problem)
        assert "the leases" not in str(clock.kept.problem)
        keeping.cancel()
