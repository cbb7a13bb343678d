"""How an upstream has answered lately: times and failures of its last calls. This file reads no clock.

Law: bounded in memory, and one append a call; whoever wants to know pays for the counting.
"""

from collections import deque
from typing import Final, NamedTuple

KEPT: Final = 512
# What is older says little of how it is now.
WINDOW: Final = 300.0
# Fewer calls prove nothing, and so many in a hundred without an answer mean that it is slow.
ENOUGH: Final = 5
SLOW: Final = 0.2
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class CallFigures(NamedTuple):
    """Of the calls that ended within `WINDOW`: how many, how many of them had no answer, and seconds until they ended,
    by quantile, those without an answer included; no times where there are no calls."""

    calls: int
    failed: int
    times: tuple[tuple[str, float], ...]

    @property
    def slow(self) -> bool:
        """Whether too many calls were not answered in time by a server that otherwise answers."""
        return self.calls >= ENOUGH and self.failed >= SLOW * self.calls


class LatencyWindow:
    """`took` is called for every call; every `now` is of one clock, in seconds."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, float, bool]] = deque(maxlen=KEPT)

    def took(self, now: float, seconds: float, failed: bool) -> None:
        """One call is over."""
        self._ends.append((now, seconds, failed))

    def figures(self, now: float) -> CallFigures:
        """What they amount to."""
        recent = [(seconds, failed) for at, seconds, failed in self._ends if now - at <= WINDOW]
        times = sorted(seconds for seconds, _ in recent)
        last = len(times) - 1
        quantiles = tuple((name, times[round(last * part)]) for name, part in QUANTILES.items() if times)
        return CallFigures(len(times), sum(failed for _, failed in recent), quantiles)
