"""The end of work that does not end by itself (`gateway/drain.py`)."""

import asyncio
from typing import Final

import pytest

from aggregator.domain.errors import ShuttingDown
from aggregator.gateway.drain import Drain, EndableWork

LIMIT: Final = 5.0


class OwnWordsError(Exception):
    """What a piece of work ends with."""


def words() -> Exception:
    return OwnWordsError()


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def begun(task: "asyncio.Task[object]") -> None:
    """Let a task come to where it waits."""
    await asyncio.sleep(0)
    assert not task.done()


async def ended(task: "asyncio.Task[object]") -> BaseException | None:
    """Return what a task ended with."""
    async with asyncio.timeout(LIMIT):
        await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def test_work_ends_with_its_words() -> None:
    """Without any, with those that say that nothing was done. The task is not cancelled, and goes on."""
    drain = Drain()
    after: list[int] = []

    async def own() -> None:
        with pytest.raises(OwnWordsError), drain.work(words):
            await forever()
        task = asyncio.current_task()
        assert task is not None
        after.append(task.cancelling())

    async def plain() -> None:
        with drain.work():
            await forever()

    tasks = [asyncio.ensure_future(own()), asyncio.ensure_future(plain())]
    for task in tasks:
        await begun(task)
    assert len(drain) == 2
    drain.start(LIMIT)
    assert not any(task.done() for task in tasks), "it has its time"
    drain.end_all()
    assert await ended(tasks[0]) is None
    assert after == [0]
    refused = await ended(tasks[1])
    assert isinstance(refused, ShuttingDown)
    assert "nothing was done" in refused.message
    assert len(drain) == 0


async def test_only_the_innermost_of_a_task_is_ended() -> None:
    """What is around it can go on, and ends with its own words only once it waits again."""
    drain = Drain()
    said: list[str] = []

    async def nested() -> None:
        with drain.work(words):
            with pytest.raises(ShuttingDown), drain.work(counted=False):
                await forever()
            said.append("inner")
            await forever()

    task = asyncio.ensure_future(nested())
    await begun(task)
    assert len(drain) == 1, "a part of counted work is not counted again"
    drain.end_all()
    assert isinstance(await ended(task), OwnWordsError)
    assert said == ["inner"]


async def test_what_begins_after_the_end_may_end_by_itself_but_not_wait() -> None:
    drain = Drain()
    drain.end_all()

    async def at_once() -> str:
        with drain.work(words):
            return "done"

    async def waits() -> None:
        with drain.work(words):
            await forever()

    assert await asyncio.ensure_future(at_once()) == "done"
    assert isinstance(await ended(asyncio.ensure_future(waits())), OwnWordsError)


@pytest.mark.parametrize("first", ["the host", "the drain"])
async def test_a_task_that_is_cancelled_for_another_reason_keeps_it(first: str) -> None:
    """Both in one turn of the loop, in either order; words are not said to a host that has gone."""
    drain = Drain()
    works: list[EndableWork] = []

    async def work() -> None:
        with drain.work(words) as inside:
            works.append(inside)
            await forever()

    task = asyncio.ensure_future(work())
    await begun(task)
    for step in (task.cancel, drain.end_all) if first == "the host" else (drain.end_all, task.cancel):
        step()
    assert isinstance(await ended(task), asyncio.CancelledError)
    assert works[0].ended == (first == "the drain")


async def test_an_error_of_its_own_stays() -> None:
    """Work that fails while it is ended says why it failed."""
    drain = Drain()

    async def work() -> None:
        with drain.work(words):
            try:
                await forever()
            finally:
                raise LookupError

    task = asyncio.ensure_future(work())
    await begun(task)
    drain.end_all()
    assert isinstance(await ended(task), LookupError)
    assert task.cancelling() == 0
