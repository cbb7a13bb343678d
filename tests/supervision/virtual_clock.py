"""A loop whose clock stands still until it is told how late it is: no test of waiting waits."""

import asyncio
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """`pass_time` lets everything happen that is due meanwhile, each thing at its own time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def settle(self) -> None:
        """Let everything happen that can happen now."""
        for _ in range(12):
            self.run_until_complete(asyncio.sleep(0))

    def pass_time(self, seconds: float) -> None:
        """From one due thing to the next, until so much later."""
        end = self._now + seconds
        self.settle()
        while (due := self._next()) is not None and due <= end:
            self._now = max(self._now, due)
            self.settle()
        self._now = end
        self.settle()

    def _next(self) -> float | None:
        loop: Any = self
        timers = [timer.when() for timer in loop._scheduled if not timer.cancelled()]
        return min(timers, default=None)
