"""The calls of the last hour, minute by minute: drawn from the counters of the metrics once a minute.

Law: this adds no cost to a call, and memory is bounded by the minutes and the rows of the metrics.
"""

import asyncio
import time
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.series import CALL_BOUNDS

MINUTES: Final = 60
# The tools are kept every so many minutes.
_TOOLS_EVERY: Final = 5
_MINUTE: Final = 60.0
_NAMED: Final = 10
_FAILED: Final = frozenset({"error", "timeout", "unavailable"})
_REFUSED: Final = frozenset({"denied", "invalid"})

Tool = tuple[str, str]


class MinuteCounts(NamedTuple):
    """The calls that ended within one minute, which began at `at` (seconds since 1970)."""

    at: float
    calls: int
    failed: int
    refused: int


class ToolTimes(NamedTuple):
    """One tool in the last hour: calls that ended, those that failed, and seconds that half and 95 of 100 took."""

    server: str
    tool: str
    calls: int
    failed: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Hour:
    """The last hour of this process: `minutes` oldest first, seconds that half and 95 of 100 calls took, and the tools
    that were slowest and that failed most."""

    minutes: tuple[MinuteCounts, ...]
    p50: float | None
    p95: float | None
    slowest: tuple[ToolTimes, ...]
    failing: tuple[ToolTimes, ...]


class _Totals(NamedTuple):
    calls: int
    failed: int
    refused: int


class _Tools(NamedTuple):
    """The counters of the tools at one time: how long calls took, and how many failed."""

    times: Mapping[Tool, "array[int]"]
    failed: Mapping[Tool, int]


_NOTHING: Final = _Totals(0, 0, 0)
_NO_TOOLS: Final = _Tools({}, {})


@dataclass(frozen=True, slots=True)
class CollectedHour:
    """The counters of the last hour, from its `first` minute on. `hour` works them out; any thread may call it."""

    first: int
    minutes: tuple[tuple[int, _Totals], ...]
    tools: _Tools
    before: _Tools

    def hour(self) -> Hour:
        """Return the last hour."""
        minutes = tuple(
            MinuteCounts(at * _MINUTE, *(after - before for after, before in zip(later, earlier, strict=True)))
            for (at, earlier), (_, later) in pairwise(self.minutes)
            if at >= self.first
        )
        tools = [told for told in _differences(self.tools, self.before) if told[1].calls]
        whole = array("Q", bytes(8 * (len(CALL_BOUNDS) + 1)))
        for times, _ in tools:
            whole = array("Q", map(sum, zip(whole, times, strict=True)))
        slowest = sorted((told for _, told in tools), key=lambda told: told.p95 or 0.0, reverse=True)
        failing = sorted((told for _, told in tools if told.failed), key=lambda told: told.failed, reverse=True)
        return Hour(
            minutes,
            quantile(CALL_BOUNDS, whole, 0.5),
            quantile(CALL_BOUNDS, whole, 0.95),
            tuple(slowest[:_NAMED]),
            tuple(failing[:_NAMED]),
        )


class LastHour:
    """The calls of the last hour in memory. `run` updates it; `hour` may be called at any time."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.time) -> None:
        self._metrics = metrics
        self._clock = clock
        # The counters at the beginning of each minute.
        self._minutes: deque[tuple[int, _Totals]] = deque(maxlen=MINUTES)
        self._tools: deque[tuple[int, _Tools]] = deque(maxlen=MINUTES // _TOOLS_EVERY)
        self.take()

    async def run(self) -> None:
        """Keep the counters of each minute, until cancelled."""
        while True:
            await asyncio.sleep(_MINUTE - self._clock() % _MINUTE + 0.01)
            self.take()

    def take(self) -> None:
        """Store the current counters, if a new minute has begun."""
        minute = int(self._clock() // _MINUTE)
        if self._minutes and minute <= self._minutes[-1][0]:
            return
        self._minutes.append((minute, self._totals()))
        if not self._tools or minute - self._tools[-1][0] >= _TOOLS_EVERY:
            self._tools.append((minute, self._of_tools()))

    def hour(self) -> Hour:
        """Return the last hour. With many tools that takes some 20 ms: see `collected`."""
        return self.collected().hour()

    def collected(self) -> CollectedHour:
        """Return the current counters of the last hour; that is quick."""
        self.take()
        now, first = int(self._clock() // _MINUTE), int(self._clock() // _MINUTE) - MINUTES + 1
        before = next((tools for at, tools in self._tools if at >= first), _NO_TOOLS)
        return CollectedHour(first, (*self._minutes, (now + 1, self._totals())), self._of_tools(), before)

    def _totals(self) -> _Totals:
        calls = failed = refused = 0
        for status, count in self._metrics.counted():
            calls += count
            if status in _FAILED:
                failed += count
            elif status in _REFUSED:
                refused += count
        return _Totals(calls, failed, refused)

    def _of_tools(self) -> _Tools:
        times = {tool: array("Q", buckets) for tool, buckets in self._metrics.durations()}
        failed: dict[Tool, int] = {}
        for tool, status, count in self._metrics.counted_by_tool():
            if status in _FAILED:
                failed[tool] = failed.get(tool, 0) + count
        return _Tools(times, failed)


def quantile(bounds: tuple[float, ...], buckets: Iterable[int], part: float) -> float | None:
    """Return about how many seconds that part of the observations took at most, or None without observations.

    Within a bucket they count as evenly spread; observations above all bounds count as the last bound.
    """
    counts = list(buckets)
    total = sum(counts)
    if not total:
        return None
    ends: list[int] = []
    for count in counts:
        ends.append((ends[-1] if ends else 0) + count)
    wanted = part * total
    number = bisect_left(ends, wanted)
    if number >= len(bounds):
        return bounds[-1]
    low, high = bounds[number - 1] if number else 0.0, bounds[number]
    return low + (high - low) * (wanted - (ends[number] - counts[number])) / counts[number]


def _differences(now: _Tools, before: _Tools) -> Iterable[tuple["array[int]", ToolTimes]]:
    for tool, times in now.times.items():
        earlier = before.times.get(tool)
        since = times if earlier is None else array("Q", (a - b for a, b in zip(times, earlier, strict=True)))
        failed = now.failed.get(tool, 0) - before.failed.get(tool, 0)
        p50, p95 = quantile(CALL_BOUNDS, since, 0.5), quantile(CALL_BOUNDS, since, 0.95)
        yield since, ToolTimes(*tool, sum(since), failed, p50, p95)
