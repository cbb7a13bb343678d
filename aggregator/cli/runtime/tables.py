"""Plain tables and times on stdout, for people and for `cut`."""

from collections.abc import Sequence
from datetime import UTC, datetime


def print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    """A table in plain text, the first row its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def minute(at: float | None, none: str = "-") -> str:
    """Seconds since 1970 as a minute in UTC."""
    return none if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%MZ")


def one_line(text: str) -> str:
    """Without line breaks and terminal escapes: what an agent wrote must not draw on an operator's screen."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
