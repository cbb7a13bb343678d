"""Processes that outlived the server that had started them: found by the mark in their environment, and ended.

Rule: one reading of `/proc` serves all that waited before it began, so that many servers end side by side.
"""

import asyncio
import signal
import sys
from contextlib import suppress
from time import monotonic
from typing import Final

from aggregator.upstream.process.reaper import carriers, signal_each

_POLL: Final = 0.05
# Several rounds, since a process may start another one just before it is killed.
_ROUNDS: Final = 3


class Orphans:
    """The processes with a mark of ours. Once `hurry` is set, none is given time to end by itself."""

    def __init__(self, hurry: asyncio.Event) -> None:
        self._hurry = hurry
        self._reading = asyncio.Lock()
        self._began = float("-inf")
        self._by_mark: dict[str, list[int]] = {}

    async def end(self, mark: str, grace: float) -> int:
        """Terminate every process that carries `mark`, kill it `grace` seconds later; return how many there were."""
        if sys.platform == "win32":
            raise NotImplementedError
        found = await self._carrying(mark)
        signal_each(found, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while found and not self._hurry.is_set() and await self._carrying(mark):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_POLL)
        for _ in range(_ROUNDS if found else 0):
            signal_each(await self._carrying(mark), signal.SIGKILL)
        return len(found)

    async def _carrying(self, mark: str) -> list[int]:
        asked = monotonic()
        async with self._reading:
            if self._began <= asked:
                began = monotonic()
                self._by_mark = await asyncio.to_thread(carriers)
                self._began = began
        return self._by_mark.get(mark, [])
