"""A value that pages share for a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class Fresh(Generic[V]):
    """A value that is read anew once it is older than some seconds, by one reader at a time."""

    def __init__(self, read: Callable[[], Awaitable[V]], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._kept: tuple[float, V] | None = None
        self._turn = asyncio.Lock()

    async def value(self) -> V:
        """Return it.

        Raises:
            StorageError: it cannot be read.
        """
        async with self._turn:
            if self._kept is None or time.monotonic() - self._kept[0] > self._seconds:
                self._kept = None
                value = await self._read()
                self._kept = time.monotonic(), value
            return self._kept[1]
