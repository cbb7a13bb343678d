"""Counters and histograms by label, with a bound on how many there may be.

Law: nothing a caller writes can make a metric grow beyond its bound.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

Key = tuple[str, ...]
Row = TypeVar("Row")
MadeRow = TypeVar("MadeRow", covariant=True)

# In seconds. Calls: the bounds of the semantic conventions for MCP, and finer ones for tools on this machine.
CALL_BOUNDS: Final = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
)
OWN_BOUNDS: Final = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Histogram:
    """Observations, counted by the bounds they fall between; the last bucket is for those above all."""

    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value; it belongs to the first bucket whose bound is not below it."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value


class MakeRow(Protocol[MadeRow]):
    """A function that makes the row of new label values."""

    def __call__(self, key: Key, /) -> MadeRow: ...


# Returns the label values of the row that surplus values share.
FoldKey = Callable[[Key], Key]


class Series(Generic[Row]):
    """The rows of one metric by label values. Once there are `limit`, new ones share the row of `fold(key)`."""

    def __init__(self, make: MakeRow[Row], limit: int, fold: FoldKey) -> None:
        self.rows: dict[Key, Row] = {}
        self._make, self._limit, self._fold = make, limit, fold

    def at(self, key: Key) -> Row:
        """Return the row of these values, or the one they share with others."""
        row = self.rows.get(key)
        if row is None:
            if len(self.rows) >= self._limit:
                key = self._fold(key)
            row = self.rows.get(key)
            if row is None:
                row = self.rows[key] = self._make(key)
        return row
