"""The output of the commands on the whole database: progress on a terminal, and rows by table."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from aggregator.storage.backup.contents import LEFT_OUT

_EVERY: Final = 0.2


class ShownProgress:
    """A line on stderr with the number of processed rows of a table; nothing if stderr is no terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = 0.0
        self._width = 0

    def __call__(self, table: str, rows: int, /) -> None:
        """Say how far it is."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _EVERY
        self._write(f"{table}: {rows:,} rows")

    def end(self) -> None:
        """Take the line away."""
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)


@contextmanager
def progress() -> Iterator[ShownProgress]:
    """Give a progress line. Inside, SIGTERM ends the command as Ctrl+C does, so that nothing half made stays."""
    shown = ShownProgress()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield shown
    finally:
        signal.signal(signal.SIGTERM, before)
        shown.end()


def rows_text(tables: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Return the rows of a table for display: names of tables and their row counts."""
    return [("TABLE", "ROWS"), *((name, f"{count}") for name, count in sorted(tables.items()) if count)]


def size_text(size: int) -> str:
    """Return a number of bytes for display."""
    value, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def audit_report(verdict: Any) -> dict[str, Any] | None:
    """Return the proof of the audit log as JSON, or None without one."""
    if verdict is None:
        return None
    return {"whole": True, "rows": verdict.rows, "head": verdict.head._asdict()}


def left_out_text() -> str:
    """Return the omitted tables of the database, and their content."""
    return f"Left out: {'; '.join(f'{name} ({what})' for name, what in LEFT_OUT.items())}."
