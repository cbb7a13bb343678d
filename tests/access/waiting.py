"""Waiting for what nothing tells of: looked at again and again, for a bounded time."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

BOUND: Final = 10.0
_PAUSE: Final = 0.02


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once the condition holds."""
    async with asyncio.timeout(BOUND):
        while True:
            holds = condition()
            if await holds if inspect.isawaitable(holds) else holds:
                return
            await asyncio.sleep(_PAUSE)
