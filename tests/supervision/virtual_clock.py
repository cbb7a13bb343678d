"""An event loop whose clock stands still until a test moves it, so that no test of a wait takes its time."""

import asyncio
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock that only `pass_time` moves; all that is due meanwhile happens at its own time."""

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
        """Move the clock from one due timer to the next, until so many seconds later."""
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
