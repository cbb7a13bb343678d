"""Leaps of the wall clock. After one, expired data is kept for a while, since the clock may be wrong."""

import time
from collections.abc import Callable
from typing import Final

# Seconds that a clock may gain between two looks: an hour that a person set, and any correction, is less.
LEAP: Final = 86400.0


class ClockLeaps:
    """The comparison of a wall clock with one that cannot be set; both give seconds."""

    def __init__(self, clock: Callable[[], float], steady: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._ahead: float | None = None

    def looked(self, at: float) -> None:
        """Take a time of the clock, before this process, as that of the last look: the clock may be wrong from the
        start.
        """
        self._ahead = at - self._steady()

    def leapt(self) -> bool:
        """Return whether the clock has leapt ahead since the last look; False without one, and again at the next."""
        ahead, before = self._clock() - self._steady(), self._ahead
        self._ahead = ahead
        return before is not None and ahead - before > LEAP
