"""Plain tables and times on stdout, for users and for tools such as `cut`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO

from aggregator.cli.runtime.writer import say
from aggregator.domain.text.invisible import visible


def print_rows(rows: Sequence[tuple[str, ...]], out: IO[str] | None = None) -> None:
    """Print a table in plain text, to stdout or elsewhere; the first row has the titles."""
    shown = [[visible(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=out)


def minute(at: float | None, none: str = "-") -> str:
    """Return seconds since 1970 as a minute in UTC; `none` for None."""
    return none if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%MZ")


def one_line(text: str) -> str:
    """Return a text without line breaks and terminal escapes, which an agent may have put in."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
