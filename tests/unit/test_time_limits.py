"""Time limits that have one timer together: each ends its own task, at its own time, and nothing is left of it."""

import asyncio
from collections.abc import Iterator

import pytest

from aggregator.domain.bounds.time_limits import TimeLimits
from tests.supervision.virtual_clock import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


async def waits(limits: TimeLimits, seconds: float) -> float:
    """Return after how many seconds the limit ended a wait without an end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError), limits.limit(seconds):
        await loop.create_future()
    return loop.time() - began


def test_each_limit_ends_at_its_own_time(loop: VirtualLoop) -> None:
    limits = TimeLimits()
    waiting = [loop.create_task(waits(limits, seconds)) for seconds in (30.0, 10.0, 20.0)]
    loop.pass_time(60.0)
    assert [task.result() for task in waiting] == [30.0, 10.0, 20.0]
    assert not len(limits), "nothing is left"


def test_a_cancellation_from_outside_is_no_timeout() -> None:
    async def main() -> None:
        limits = TimeLimits()
        task = asyncio.ensure_future(waits(limits, 60.0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not len(limits)

    asyncio.run(main())


def test_a_suspended_limit_does_not_end() -> None:
    async def main() -> None:
        limits = TimeLimits()
        with limits.limit(0.0) as limit:
            limit.reschedule(None)
            assert limit.when() is None
            await waits(limits, 0.01)

    asyncio.run(main())


def test_a_limit_that_is_moved_forward_ends_then() -> None:
    async def main() -> None:
        limits = TimeLimits()

        async def moved() -> None:
            loop = asyncio.get_running_loop()
            with limits.limit(3600.0) as limit:
                limit.reschedule(loop.time())
                await loop.create_future()

        with pytest.raises(TimeoutError):
            await moved()

    asyncio.run(main())


def test_the_inner_of_two_limits_ends_alone() -> None:
    async def main() -> None:
        limits = TimeLimits()
        with limits.limit(3600.0):
            await waits(limits, 0.0)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    asyncio.run(main())
