"""`aggregator audit tail|show|export|stats`: reads the audit log, while gateways write it, and counts calls in groups.

Law: nothing here writes to the database.
"""

import asyncio
import json
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from math import ceil
from pathlib import Path
from typing import Any, Final, cast, get_args

from aggregator.cli.audit.formats import COLUMNS, Aligned, csv_lines, fields, json_line, shown
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.signals import stop_on_signals
from aggregator.cli.runtime.tables import print_rows
from aggregator.cli.runtime.writer import VisibleStdout, say
from aggregator.domain.call_record import RowStatus
from aggregator.domain.errors import OperatorError
from aggregator.storage.audit.past_times import past
from aggregator.storage.audit.read import PAGE, AuditReader, By, LogFilter, LogPlace, LogRow, open_reader
from aggregator.storage.locate import default_url

FORMATS: Final = ("jsonl", "csv")
# Seconds between two reads of `tail --follow`.
_FOLLOW_EVERY: Final = 0.5
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


def tail(
    storage: str | None,
    lines: int = 20,
    follow: bool = False,
    agent: str | None = None,
    server: str | None = None,
    tool: str | None = None,
    status: str | None = None,
    since: str | None = None,
    as_json: bool = False,
    *,
    until: str | None = None,
) -> int:
    """Print the newest rows, oldest first; with `follow`, also new rows until a signal comes.

    Raises:
        OperatorError: there is no log, or no such time or status.
    """
    wanted = _wanted(agent, server, tool, status, since, until)
    run_loop(_tail(_url(storage), wanted, lines, follow, as_json))
    return 0


def show(storage: str | None, reference: str, as_json: bool = False) -> int:
    """Print all fields of a row, by its number, or of every call of a trace, by its id or the beginning of that.

    Raises:
        OperatorError: there is none such.
    """
    rows = run_loop(_find(_url(storage), reference))
    if not rows:
        raise OperatorError(f"The audit log has no row and no trace {reference!r:.60}.")
    for number, row in enumerate(rows):
        if as_json:
            say(json_line(row))
            continue
        if number:
            say()
        for name, value in fields(row):
            say(f"{name:<17} {value}")
    return 0


def export(
    storage: str | None,
    format: str = "jsonl",
    since: str | None = None,
    until: str | None = None,
    output: Path | None = None,
) -> int:
    """Write the rows of a span of time as JSON Lines or CSV, to stdout or into a file that only its owner may read.

    Raises:
        OperatorError: there is no log, no such time, or the file cannot be written.
    """
    if format not in FORMATS:
        raise OperatorError(f"There is no format {format!r:.20}; jsonl and csv there are.")
    wanted = _wanted(since=since, until=until)
    with _opened(output) as file:
        count = run_loop(_export(_url(storage), wanted, format, file))
    if output is not None:
        say(f"{count} rows are in {output}.", file=sys.stderr)
    return 0


def stats(storage: str | None, by: str | None = None, since: str | None = None, as_json: bool = False) -> int:
    """Print how many calls there were, how they ended and how long they took; in groups with `by`.

    Raises:
        OperatorError: there is no log, or no such time or group.
    """
    if by is not None and by not in get_args(By):
        raise OperatorError(f"Calls cannot be counted by {by!r:.20}; {', '.join(get_args(By))} there are.")
    groups = run_loop(_count(_url(storage), _wanted(since=since), cast("By | None", by)))
    total = groups.all.figures()
    named = {name: group.figures() for name, group in groups.by_name.items()} if by is not None else {}
    named = dict(sorted(named.items(), key=lambda item: (-item[1]["calls"], item[0])))
    if as_json:
        say(json.dumps({"total": total, **({"groups": named} if by is not None else {})}, ensure_ascii=False, indent=2))
        return 0
    first = (by or "").upper()
    lines: list[tuple[str, ...]] = [(first, *TITLES)]
    lines += [(shown(name), *cells(figures)) for name, figures in named.items()]
    lines.append(("all", *cells(total)))
    print_rows(lines)
    return 0


def _wanted(
    agent: str | None = None,
    server: str | None = None,
    tool: str | None = None,
    status: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> LogFilter:
    if status is not None and status not in get_args(RowStatus):
        raise OperatorError(f"There is no status {status!r:.20}; there are {', '.join(get_args(RowStatus))}.")
    now = time.time()
    since_at, until_at = (past(text, now) if text is not None else None for text in (since, until))
    if since_at is not None and until_at is not None and since_at >= until_at:
        raise OperatorError(
            f"There is nothing between {since!r:.60} and {until!r:.60}: the second is not the later one."
        )
    return LogFilter(agent=agent, server=server, tool=tool, status=status, since=since_at, until=until_at)


async def _tail(url: str, wanted: LogFilter, lines: int, follow: bool, as_json: bool) -> None:
    table = Aligned()

    def print_table(rows: list[LogRow]) -> None:
        text = "\n".join([json_line(row) for row in rows] if as_json else table.lines(rows))
        if text:
            say(text, flush=True)

    async with open_reader(url) as reader:
        place = await reader.end()
        newest = await reader.newest(wanted, lines)
        print_table([row for row in newest if row.seq <= place.get(row.chain, 0) or not follow])
        stopping = stop_on_signals() if follow else None
        while stopping is not None and not stopping.is_set():
            rows, place = await reader.since(place, wanted)
            print_table(rows)
            if len(rows) >= PAGE:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_FOLLOW_EVERY):
                    await stopping.wait()


async def _pages(reader: AuditReader, wanted: LogFilter, end: LogPlace) -> AsyncIterator[list[LogRow]]:
    """Yield the rows up to this place of the log, in pages."""
    last, newest = 0, max(end.values(), default=0)
    while last < newest and (rows := await reader.after(last, wanted)):
        yield [row for row in rows if row.seq <= end.get(row.chain, 0)]
        last = rows[-1].seq


async def _find(url: str, reference: str) -> list[LogRow]:
    async with open_reader(url) as reader:
        return await reader.find(reference.lower())


async def _export(url: str, wanted: LogFilter, format: str, file: TextIOBase) -> int:
    count = 0
    async with open_reader(url) as reader:
        if format == "csv":
            file.write(",".join(COLUMNS) + "\n")
        async for rows in _pages(reader, wanted, await reader.end()):
            file.write(csv_lines(rows) if format == "csv" else "".join(f"{json_line(row)}\n" for row in rows))
            count += len(rows)
    return count


async def _count(url: str, wanted: LogFilter, by: By | None) -> Groups:
    groups = Groups()
    async with open_reader(url) as reader:
        async for calls in reader.durations(wanted, by):
            groups.add(calls)
    return groups


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIOBase]:
    if output is None:
        yield VisibleStdout()
        return
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise OperatorError(f"{output} cannot be written: {error.strerror}.") from error


def _url(storage: str | None) -> str:
    return storage or default_url(os.environ)
