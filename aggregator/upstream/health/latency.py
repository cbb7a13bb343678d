"""The latency of an upstream: times and failures of its last calls. This file reads no clock.

Law: bounded in memory, and one append for each call; the counting is done when the figures are read.
"""

from collections import deque
from typing import Final, NamedTuple

KEPT: Final = 512
# Seconds after which a call no longer counts.
WINDOW: Final = 300.0
# An upstream is slow if this share of its calls had no answer; fewer calls than `ENOUGH` prove nothing.
ENOUGH: Final = 5
SLOW: Final = 0.2
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class CallFigures(NamedTuple):
    """The figures of the calls that ended within `WINDOW`.

    calls, failed: how many ended, and how many of these had no answer.
    times: seconds until the end by the name of the quantile, calls without an answer included; empty without calls.
    """

    calls: int
    failed: int
    times: tuple[tuple[str, float], ...]

    @property
    def slow(self) -> bool:
        """True if too many calls were not answered in time by a server that answers others."""
        return self.calls >= ENOUGH and self.failed >= SLOW * self.calls


class LatencyWindow:
    """The ends of the last calls of one upstream; `now` is of one clock, in seconds."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, float, bool]] = deque(maxlen=KEPT)

    def add(self, now: float, seconds: float, failed: bool) -> None:
        """Add a call that has ended after `seconds`."""
        self._ends.append((now, seconds, failed))

    def figures(self, now: float) -> CallFigures:
        """Return the figures of the calls that count now."""
        recent = [(seconds, failed) for at, seconds, failed in self._ends if now - at <= WINDOW]
        times = sorted(seconds for seconds, _ in recent)
        last = len(times) - 1
        quantiles = tuple((name, times[round(last * part)]) for name, part in QUANTILES.items() if times)
        return CallFigures(len(times), sum(failed for _, failed in recent), quantiles)
