"""Statistics of calls in groups: counts, statuses and percentiles of the duration.

Law: this module reads no database and no clock.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Any, Final

TITLES: Final = ("CALLS", "OK", "FAILED", "REFUSED", "CANCELLED", "ERROR RATE", "P50 MS", "P95 MS")
# A refused call did not reach a server: it counts neither in the error rate nor in the times.
REFUSED: Final = frozenset({"denied", "invalid", "pending"})
# The duration of an interrupted call is not known.
INTERRUPTED: Final = "interrupted"
FAILED: Final = frozenset({"error", "timeout", "unavailable", INTERRUPTED})


class Group:
    """The calls of one group."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._microseconds = array("q")

    def add(self, status: str, microseconds: "array[int]") -> None:
        """Count the calls of these durations."""
        self._statuses[status] += len(microseconds)
        if status not in REFUSED and status != INTERRUPTED:
            self._microseconds += microseconds

    def figures(self) -> dict[str, Any]:
        """Return the numbers by name, times in milliseconds; a rate or a time of no call is None."""
        failed, refused = self._sum(FAILED), self._sum(REFUSED)
        ordered = sorted(self._microseconds)
        made = self._statuses.total() - refused
        return {
            "calls": self._statuses.total(),
            "ok": self._statuses["ok"],
            "failed": failed,
            "refused": refused,
            "cancelled": self._statuses["cancelled"],
            "error_rate": round(failed / made, 4) if made else None,
            "p50_ms": percentile(ordered, 50),
            "p95_ms": percentile(ordered, 95),
            "statuses": dict(sorted(self._statuses.items())),
        }

    def _sum(self, statuses: Iterable[str]) -> int:
        return sum(self._statuses[status] for status in statuses)


class Groups:
    """All groups, and all calls together."""

    def __init__(self) -> None:
        self.all = Group()
        self.by_name: dict[str, Group] = {}

    def add(self, calls: Iterable[tuple[str | None, str, "array[int]"]]) -> None:
        """Count calls: their group, status and durations in microseconds."""
        for name, status, microseconds in calls:
            self.all.add(status, microseconds)
            self.by_name.setdefault(name or "-", Group()).add(status, microseconds)


def percentile(ordered: list[int], percent: int) -> float | None:
    """Return the percentile by nearest rank, in milliseconds; `ordered` has microseconds."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] / 1000 if ordered else None


def cells(figures: dict[str, Any]) -> tuple[str, ...]:
    """Return the numbers as texts, in the order of `TITLES`."""
    rate, p50, p95 = figures["error_rate"], figures["p50_ms"], figures["p95_ms"]
    counts = [str(figures[name]) for name in ("calls", "ok", "failed", "refused", "cancelled")]
    times = ["-" if time is None else f"{time:.1f}" for time in (p50, p95)]
    return (*counts, "-" if rate is None else f"{100 * rate:.1f} %", *times)
