"""Bounded polling, for conditions without an event to wait for."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Final

# No wait comes near it, on a loaded machine either; below the time-out of a test.
BOUND: Final = 50.0
_PAUSE: Final = 0.005
# A condition that has to be awaited asks another process or a server.
_LONGER_PAUSE: Final = 0.02


async def until(condition: Callable[[], object], what: str = "the condition holds") -> None:
    """Return once the condition, a function or a coroutine function, holds.

    Raises:
        AssertionError: the condition did not hold within `BOUND` seconds; the text names `what`.
    """
    try:
        async with asyncio.timeout(BOUND):
            while True:
                holds, pause = condition(), _PAUSE
                if inspect.isawaitable(holds):
                    holds, pause = await holds, _LONGER_PAUSE
                if holds:
                    return
                await asyncio.sleep(pause)
    except TimeoutError:
        raise AssertionError(f"in vain: {what}") from None
