"""Counters and histograms by label, and their text in the form Prometheus reads (text format 0.0.4).

Law 1: nothing a caller writes can make a metric grow beyond its bound. Law 2: a row is written whole within one piece,
so that a histogram's buckets and its count never disagree.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Literal, Protocol, TypeVar

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
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]

Labels = Mapping[str, str]

# Lines to write before the event loop gets a turn.
_PIECE: Final = 200
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


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


Value = float | Histogram


class Family:
    """One metric: its name, type and help, and its values by label."""

    def __init__(self, name: str, kind: Kind, help: str, samples: Iterable[tuple[Labels, Value]]) -> None:
        self.name, self.kind, self.help = name, kind, help
        self._samples = samples

    def lines(self) -> Iterator[list[str]]:
        """Yield the header, then the lines of each sample."""
        yield [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.kind}"]
        for labels, value in self._samples:
            written = ",".join(f'{key}="{text.translate(_ESCAPED)}"' for key, text in labels.items())
            if isinstance(value, Histogram):
                yield _histogram(self.name, written, value)
            else:
                yield [f"{self.name}{{{written}}} {value!r}" if written else f"{self.name} {value!r}"]


def exposed(families: Iterable[Family]) -> Iterator[bytes]:
    """Yield the whole page in pieces of a few hundred lines."""
    piece: list[str] = []
    for family in families:
        for lines in family.lines():
            piece += lines
            if len(piece) >= _PIECE:
                yield _encoded(piece)
                piece = []
    yield _encoded(piece)


def _encoded(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _histogram(name: str, labels: str, histogram: Histogram) -> list[str]:
    comma = "," if labels else ""
    below = 0
    lines = []
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.buckets, strict=True):
        below += count
        lines.append(f'{name}_bucket{{{labels}{comma}le="{bound}"}} {below}')
    braced = f"{{{labels}}}" if labels else ""
    lines += [f"{name}_sum{braced} {histogram.sum!r}", f"{name}_count{braced} {below}"]
    return lines
