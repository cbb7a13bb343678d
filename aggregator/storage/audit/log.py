"""The audit log as rows: calls in one table, everything else in another, each row in the chain of its process.

Rule: a row gets its number and its digest in the transaction that writes it, so that processes on one chain take turns.
Only what concerns several chains (their beginning, a trim, calls of dead processes, files of others) locks chain 0.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain as joined
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from aggregator.storage.audit.begun import (
    forget_given_up,
    given_up,
    owners,
    settle,
    under_way,
    with_late_ends,
)
from aggregator.storage.audit.chain import (
    CALL,
    RECOVERED,
    ChainBatch,
    ChainEntry,
    ChainKey,
    Head,
    begun_entry,
    trim_entry,
)
from aggregator.storage.audit.heads import (
    ChainEnd,
    chains,
    keep_record,
    lock,
    make_record,
    mended,
    next_numbers,
    read_end,
)
from aggregator.storage.audit.inserts import CHAIN, PLACE, insert_rows, placed
from aggregator.storage.engine.engine import Engine
from aggregator.storage.engine.files import identity
from aggregator.storage.engine.sqlite import damaged_table
from aggregator.storage.errors import StorageError
from aggregator.storage.tables import audit_events, audit_heads, mcp_tool_call_log, metadata

log = logging.getLogger(__name__)

NAME: Final = "log"
# Rows removed in one transaction, so that no other writer waits for long.
TRIM_STEP: Final = 2000
# Seconds by which the clocks of processes on one log may differ.
CLOCKS_DIFFER: Final = 86400.0
# The tables of the log, with the column of each row's time.
_TIMES: Final = ((mcp_tool_call_log, mcp_tool_call_log.c.ended), (audit_events, audit_events.c.at))
# Seconds to sleep after every few rows, so that the event loop gets the interpreter.
_PAUSE: Final = 50e-6
# Where trimming by size stops, so that it does not begin again at once.
_TRIM_TO: Final = 0.9
# The columns of a row without a place.
_CALLS: Final = frozenset(mcp_tool_call_log.c.keys()).difference((*PLACE, CHAIN))
_EVENTS: Final = frozenset(audit_events.c.keys()).difference((*PLACE, CHAIN, "kind"))
# What is not read as a whole when the file is opened.
_LARGE: Final = tuple(table.name for table in metadata.sorted_tables if not table.info.get("checked"))
_DAMAGED: Final = (
    "The database {path} is damaged in its table {table}: rows may be lost. Stop all who use it, keep a copy, and "
    "either mend it (`sqlite3 {path} .recover | sqlite3 mended.db`) or move it away, and make keys anew."
)

# Returns the number of the chain that this process writes, such as its slot among the replicas.
ChainOfProcess = Callable[[], int]


class _FileGone(Exception):
    """Another file lies where ours was."""


class AuditRows:
    """The rows of the log: added at one end, removed at the other. With `key`, only its holders can do that.

    Two processes may write one chain: they take turns. On several chains, they do not.
    """

    def __init__(self, engine: Engine, key: ChainKey | None = None) -> None:
        self._engine = engine
        self._key = key
        self._file = identity(engine.path) if engine.path is not None else 0
        self._chain: ChainOfProcess = lambda: 0
        # The newest row that was written here, of each chain.
        self._last: dict[int, Head] = {}
        self._begins = False

    def write_chain(self, chain: ChainOfProcess) -> None:
        """Write rows into the chain that this function names, from now on; it is 0 without."""
        self._chain = chain

    @property
    def is_file(self) -> bool:
        """Return whether all processes that use this database are on this machine."""
        return self._engine.path is not None

    def fits(self, entries: Iterable[ChainEntry]) -> bool:
        """Tell whether the tables have every column of these rows, which another version may have written."""
        return all(one.values.keys() <= (_CALLS if one.kind == CALL else _EVENTS) for one in entries)

    async def append(self, batch: ChainBatch) -> tuple[Head, int]:
        """Write a batch, whole or not at all, and never twice; return the end of the chain and the size of the log in
        bytes.

        Raises:
            StorageError: the database failed. Another try of the same batch shows whether it was written.
        """
        try:
            try:
                return await self._append(batch)
            except _FileGone:
                # The engine closes the old file, and raises if there is none in its place.
                await self._engine.version(NAME)
                assert self._engine.path is not None
                self._file = identity(self._engine.path)
                return await self._append(batch)
            except IntegrityError:
                log.error("the head of the audit log does not fit its rows; `aggregator audit verify` says more")
                return await self._append(batch, by_rows=True)
        except _FileGone:
            raise StorageError("The database file was replaced while it was written to.") from None
        except DBAPIError as error:
            raise StorageError(f"The database does not take audit rows: {type(error.orig).__name__}.") from error

    async def trim(self, *, before: float | None, keep_bytes: int | None, now: float) -> int:
        """Remove the oldest rows: rows older than `before`, and rows that make the log larger than `keep_bytes`.

        A bounded number at a time, oldest first up to the first that stays; returns the number. An event records it.

        Raises:
            StorageError: the database failed; nothing was removed.
        """

        def work(connection: Connection) -> tuple[dict[int, Head], int]:
            return self._trim(connection, before, keep_bytes, now)

        ends, removed = await self._engine.write_in_thread(work)
        self._last |= ends
        return removed

    async def newest(self) -> float | None:
        """Return the time of the row with the highest number, in seconds since 1970; None for an empty log.

        Raises:
            StorageError: the database cannot be read.
        """
        async with self._engine.read() as connection:
            return await connection.run_sync(_newest)

    async def owners_under_way(self) -> frozenset[str]:
        """Return the names of the processes that have calls under way, as far as the log knows.

        Raises:
            StorageError: the database cannot be read.
        """
        async with self._engine.read() as connection:
            return await connection.run_sync(owners)

    async def interrupt(self, gone: Callable[[str], bool]) -> int:
        """Write the rows of calls that were begun by processes which ended before them; returns how many.

        `gone` says of the name of a process that it ended.

        Raises:
            StorageError: the database cannot do it; nothing was written.
        """
        number = self._chain()

        def work(connection: Connection) -> tuple[Head | None, int]:
            # First, because it lets one process in at a time.
            lock(connection, 0)
            end = self._end(connection, number)
            entries = settle(connection, gone)
            if not entries:
                return None, 0
            numbers, head = self._write(connection, end, entries)
            given_up(connection, numbers[-len(entries) :], entries)
            return head, len(entries)

        head, written = await self._engine.write_in_thread(work)
        if head is not None:
            self._last[number] = head
        return written

    async def damage(self) -> str | None:
        """Return the damage in tables that are not read on opening; it takes seconds."""
        path = self._engine.path
        if path is None:
            return None
        stop = threading.Event()
        try:
            table = await asyncio.to_thread(damaged_table, path, _LARGE, stop.is_set)
        finally:
            stop.set()
        return _DAMAGED.format(path=path, table=table) if table is not None else None

    async def _append(self, batch: ChainBatch, *, by_rows: bool = False) -> tuple[Head, int]:
        number = self._chain()

        def work(connection: Connection) -> tuple[Head, int]:
            if self._engine.path is not None and identity(self._engine.path) != self._file:
                raise _FileGone
            if batch.once is not None:
                # Another process may write the same now, into its own chain.
                lock(connection, 0)
            end = self._end(connection, number, by_rows=by_rows)
            if _written_before(connection, batch):
                return end.head, end.size + end.others
            entries = batch.entries
            if self._begins or batch.once is not None:
                entries = with_late_ends(connection, entries)
            _, batch.tried = self._write(connection, end, entries, anew=by_rows)
            return batch.tried, end.size + end.others + sum(one.size for one in (*end.events, *entries))

        head, size = await self._engine.write_in_thread(work)
        self._last[number] = head
        return head, size

    def _end(self, connection: Connection, number: int, *, by_rows: bool = False) -> ChainEnd:
        """Return the end of a chain, with the rows to write first: rows may have been cut off.

        `by_rows`: trust the rows, not their record.

        Raises:
            StorageError: the log is chained with another key.
        """
        end = read_end(connection, number, self._key, self._last.get(number), by_rows=by_rows)
        if end is not None:
            return end
        if number:
            # Before checking whether another process has begun it meanwhile; chain 0 records its beginning.
            first = self._end(connection, 0, by_rows=by_rows)
            if (end := read_end(connection, number, self._key)) is not None:
                return end
        end = mended(connection, number)
        if number and not end.head.seq:
            numbers, _ = self._write(connection, first, [begun_entry(number, time.time())], anew=by_rows)
            end = end._replace(newest=max(end.newest, numbers[-1]))
        make_record(connection, end)
        return end

    def _write(
        self, connection: Connection, end: ChainEnd, entries: Sequence[ChainEntry], *, anew: bool = False
    ) -> tuple[Sequence[int], Head]:
        """Add rows behind the end of a chain; returns their numbers and the new end."""
        entries = (*end.events, *entries)
        numbers = next_numbers(connection, end, len(entries), anew=anew) if entries else ()
        # A file is written to in a thread, which must not hold the interpreter for long.
        pause = _rest if self._engine.path is not None else lambda: None
        rows, head = placed(end.head, entries, numbers, self._key, end.chain, pause)
        insert_rows(connection, rows)
        self._begins = under_way(connection, numbers, entries, self._begins)
        size = end.size + sum(one.size for one in entries)
        keep_record(connection, end._replace(head=head, size=size), self._key)
        return numbers, head

    def _trim(
        self, connection: Connection, before: float | None, keep_bytes: int | None, now: float
    ) -> tuple[dict[int, Head], int]:
        """Remove the oldest rows of all chains, in the order of their numbers."""
        known = chains(connection)
        if 0 not in known or not self._trim_is_due(connection, before, keep_bytes, now):
            return {}, 0
        # No other process writes any chain from here on: check the oldest rows again.
        ends = {number: self._end(connection, number) for number in known}
        total = sum(end.size for end in ends.values())
        floor = None if keep_bytes is None or total <= keep_bytes else int(keep_bytes * _TRIM_TO)
        removed = upto = 0
        sizes = {number: end.size for number, end in ends.items()}
        trimmed = {number: end.trimmed for number, end in ends.items()}
        for row, at in with_times(connection, _oldest(connection, known), now):
            old = before is not None and at < before
            if not old and (floor is None or sum(sizes.values()) <= floor):
                break
            removed, upto = removed + 1, row.seq
            sizes[row.chain] -= row.bytes
            trimmed[row.chain] = Head(row.seq, row.digest)
        if not removed:
            for end in ends.values():
                if end.unsigned:
                    keep_record(connection, end, self._key)
            return {}, 0
        for table in (mcp_tool_call_log, audit_events):
            connection.execute(delete(table).where(table.c.seq <= upto, table.c.chain.in_(known)))
        forget_given_up(connection, upto)
        heads = {}
        newest = max(end.newest for end in ends.values())
        for number in reversed(known):
            if number and trimmed[number] == ends[number].trimmed and not ends[number].unsigned:
                continue
            end = ends[number]._replace(size=sizes[number], trimmed=trimmed[number], newest=newest)
            told = [] if number else [trim_entry(removed, upto, trimmed, now)]
            numbers, head = self._write(connection, end, told)
            newest = max(newest, *numbers) if numbers else newest
            heads[number] = head
        return heads, removed

    def _trim_is_due(self, connection: Connection, before: float | None, keep_bytes: int | None, now: float) -> bool:
        """Return whether a row is too old, the log is too large, or a chain has no key yet. This locks nothing."""
        taken = connection.execute(_TAKEN).one()
        if (keep_bytes is not None and (taken.bytes or 0) > keep_bytes) or (self._key is not None and taken.unsigned):
            return True
        oldest = with_times(connection, _oldest(connection, None, 1), now)
        return before is not None and any(at < before for _, at in oldest)


_TAKEN: Final = select(
    func.sum(audit_heads.c.bytes).label("bytes"),
    func.count().filter(audit_heads.c.key_id.is_(None)).label("unsigned"),
)


def _written_before(connection: Connection, batch: ChainBatch) -> bool:
    if batch.once is not None:
        same = (audit_events.c.kind == RECOVERED) & (audit_events.c.summary == batch.once)
        if connection.scalar(select(audit_events.c.seq).where(same).limit(1)) is not None:
            return True
    tried = batch.tried
    return tried is not None and any(_holds(connection, table, tried) for table in (mcp_tool_call_log, audit_events))


def _holds(connection: Connection, table: Table, head: Head) -> bool:
    return bool(connection.scalar(select(table.c.digest).where(table.c.seq == head.seq)) == head.digest)


def with_times(connection: Connection, rows: Iterable[Any], now: float) -> Iterator[tuple[Any, float]]:
    """Yield rows of the log, in the order of their numbers, with the time that each was written at the latest.

    A row of later than now was written while the clock was ahead: it has the time of the next row that is not, or now.
    Else it and all rows behind it would stay until then. `now` is in seconds since 1970.
    """
    known, at = 0, now
    for row in rows:
        if row.at <= now + CLOCKS_DIFFER:
            yield row, row.at
            continue
        if row.seq >= known:
            known, at = _next_in_time(connection, row.seq, now)
        yield row, at


def _next_in_time(connection: Connection, seq: int, now: float) -> tuple[int, float]:
    """Return the number and the time of the first row behind one that is not of later than now; else all are now's."""
    found: list[Any] = []
    for table, at in _TIMES:
        query = select(table.c.seq, at.label("at")).where(table.c.seq > seq, at <= now + CLOCKS_DIFFER)
        found += connection.execute(query.order_by(table.c.seq).limit(1)).all()
    return min(((row.seq, row.at) for row in found), default=(sys.maxsize, now))


def _newest(connection: Connection) -> float | None:
    found: list[Any] = []
    for table, at in _TIMES:
        found += connection.execute(select(table.c.seq, at.label("at")).order_by(table.c.seq.desc()).limit(1)).all()
    return max(((row.seq, row.at) for row in found), default=(0, None))[1]


def _oldest(connection: Connection, known: Sequence[int] | None, most: int = TRIM_STEP) -> list[Any]:
    """Return the first rows of these chains, or of all; enough for one step."""
    found: list[Any] = []
    for table, at in _TIMES:
        query = select(table.c.seq, table.c.chain, table.c.digest, table.c.bytes, at.label("at")).order_by(table.c.seq)
        if known is not None:
            query = query.where(table.c.chain.in_(known))
        found.append(connection.execute(query.limit(most)).all())
    return sorted(joined(*found), key=lambda row: row.seq)[:most]


def _rest() -> None:
    time.sleep(_PAUSE)
