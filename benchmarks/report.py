"""A Markdown table of measurements."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, the columns, the rows."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        lines = [self._line(self.heads, widths), self._line(["-" * width for width in widths], widths)]
        lines += [self._line(row, widths) for row in self.rows]
        return "\n".join([f"## {self.title}", "", *lines, ""])

    @staticmethod
    def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
