"""Metrics as text, in the form Prometheus reads (text format 0.0.4), a piece at a time.

Law: a row is written whole within one piece, so that a histogram's buckets and its count never disagree.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from aggregator.telemetry.series import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]
Value = float | Histogram
# Lines to write before the event loop gets a turn.
_PIECE: Final = 200

_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


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
