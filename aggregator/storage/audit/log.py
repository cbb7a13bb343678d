"""The audit log as rows: calls in one table, everything else in another, all in one chain.

Rule: a row gets its number and its digest in the transaction that writes it, so that processes take turns.
"""

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from aggregator.storage.audit.begun import settle, under_way
from aggregator.storage.audit.chain import (
    CALL,
    GENESIS,
    MENDED,
    RECOVERED,
    TRIMMED,
    ChainBatch,
    ChainEntry,
    ChainKey,
    Head,
    entry,
    trim_entry,
    trimmed_by,
)
from aggregator.storage.audit.inserts import PLACE, insert_rows, placed
from aggregator.storage.engine.engine import Engine
from aggregator.storage.engine.files import identity
from aggregator.storage.engine.sqlite import damaged_table
from aggregator.storage.errors import StorageError
from aggregator.storage.tables import audit_events, audit_heads, mcp_tool_call_log, metadata

log = logging.getLogger(__name__)

NAME: Final = "log"
# Rows removed in one transaction, so that no other writer waits for long.
TRIM_STEP: Final = 2000
# Where trimming by size stops, so that it does not begin again at once.
_TRIM_TO: Final = 0.9
# The columns that a row has before it has its place.
_CALLS: Final = frozenset(mcp_tool_call_log.c.keys()).difference(PLACE)
_EVENTS: Final = frozenset(audit_events.c.keys()).difference((*PLACE, "kind"))
# What is not read as a whole when the file is opened.
_LARGE: Final = tuple(table.name for table in metadata.sorted_tables if not table.info.get("checked"))
_DAMAGED: Final = (
    "The database {path} is damaged in its table {table}: rows may be lost. Stop all who use it, keep a copy, and "
    "either mend it (`sqlite3 {path} .recover | sqlite3 mended.db`) or move it away, and make keys anew."
)
_OTHER_KEY: Final = (
    "The audit log in this database is chained with a key that is not the `audit.chain_key` of this process: put that "
    "key into the configuration, or name another database with `storage`."
)


class _FileGone(Exception):
    """Another file lies where ours was."""


class AuditRows:
    """The rows of the log: added at one end, removed at the other. With `key`, only its holders can do that."""

    def __init__(self, engine: Engine, key: ChainKey | None = None) -> None:
        self._engine = engine
        self._key = key
        self._file = identity(engine.path) if engine.path is not None else 0
        # The newest row that was written here.
        self._last: Head | None = None
        self._begins = False

    @property
    def is_file(self) -> bool:
        """Return whether all processes that use this database are on this machine."""
        return self._engine.path is not None

    def fits(self, entries: Iterable[ChainEntry]) -> bool:
        """Return whether the tables have every column of these rows, which another version may have written."""
        return all(one.values.keys() <= (_CALLS if one.kind == CALL else _EVENTS) for one in entries)

    async def append(self, batch: ChainBatch) -> tuple[Head, int]:
        """Write a batch, whole or not at all, and never twice; returns the end of the log and its size in bytes.

        Raises:
            StorageError: the database cannot do it. Whether it was written shows when the same batch is tried again.
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
        """Remove the oldest rows: what is older than `before`, and what makes the log larger than `keep_bytes`.

        A bounded number at a time, oldest first up to the first that stays; returns how many. An event tells of it.

        Raises:
            StorageError: the database cannot do it; nothing was removed.
        """

        def work(connection: Connection) -> tuple[Head | None, int]:
            return self._trim(connection, before, keep_bytes, now)

        end, removed = await self._engine.write_in_thread(work)
        self._last = end or self._last
        return removed

    async def interrupt(self, gone: Callable[[str], bool]) -> int:
        """Write the rows of calls that were begun by processes which ended before them; returns how many.

        `gone` says of the name of a process that it ended.

        Raises:
            StorageError: the database cannot do it; nothing was written.
        """

        def work(connection: Connection) -> tuple[Head | None, int]:
            # First, because it lets one process in at a time.
            end = self._end(connection)
            entries = settle(connection, gone)
            if not entries:
                return None, 0
            head, _ = self._write(connection, end, entries)
            return head, len(entries)

        end, written = await self._engine.write_in_thread(work)
        self._last = end or self._last
        return written

    async def damage(self) -> str | None:
        """Return what is wrong with the file in the tables that are not read when it is opened; it takes seconds."""
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
        def work(connection: Connection) -> tuple[Head, int]:
            if self._engine.path is not None and identity(self._engine.path) != self._file:
                raise _FileGone
            end = self._end(connection, by_rows=by_rows)
            if _written_before(connection, batch):
                return end.head, end.size
            batch.tried, size = self._write(connection, end, batch.entries)
            return batch.tried, size

        head, size = await self._engine.write_in_thread(work)
        self._last = head
        return head, size

    def _end(self, connection: Connection, *, by_rows: bool = False) -> "_End":
        """Return where the log ends, and what has to be written of that first: rows may have been cut off.

        `by_rows`: as the rows say, and not their record.

        Raises:
            StorageError: the log is chained with another key.
        """
        state = _state(connection)
        if state is None or by_rows:
            end = _end_of_rows(connection)
            if state is None:
                connection.execute(insert(audit_heads).values(name=NAME, **_columns(end)))
            return end._replace(events=(_mend_event(end.head),)) if end.head.seq else end
        key, last = self._key, self._last
        if state.key_id is not None and (key is None or key.id != state.key_id):
            raise StorageError(_OTHER_KEY)
        end = _End(Head(state.seq, state.digest), state.bytes, Head(state.trimmed_seq, state.trimmed_digest))
        cut = last is not None and (end.head.seq < last.seq or (end.head.seq == last.seq and end.head != last))
        if state.key_id is not None and key is not None:
            cut = cut or not hmac.compare_digest(str(state.mac), key.sign_ends(end.head, end.trimmed))
        return end._replace(events=(_mend_event(end.head),)) if cut else end

    def _write(self, connection: Connection, end: "_End", entries: Sequence[ChainEntry]) -> tuple[Head, int]:
        """Add rows behind the end of the log; returns the new one and the size of the log."""
        entries = (*end.events, *entries)
        rows, head = placed(end.head, entries, self._key)
        insert_rows(connection, rows)
        self._begins = under_way(connection, end.head.seq + 1, entries, self._begins)
        size = end.size + sum(one.size for one in entries)
        columns = _columns(_End(head, size, end.trimmed))
        if self._key is None:
            connection.execute(_NEW_STATE, columns)
        else:
            proof = {"key_id": self._key.id, "mac": self._key.sign_ends(head, end.trimmed)}
            connection.execute(_NEW_PROVED_STATE, {**columns, **proof})
        return head, size

    def _trim(
        self, connection: Connection, before: float | None, keep_bytes: int | None, now: float
    ) -> tuple[Head | None, int]:
        if _state(connection) is None:
            return None, 0
        end = self._end(connection)
        floor = None if keep_bytes is None or end.size <= keep_bytes else int(keep_bytes * _TRIM_TO)
        removed, freed, last = 0, 0, end.trimmed
        for row in _oldest(connection):
            old = before is not None and row.at < before
            if not old and (floor is None or end.size - freed <= floor):
                break
            removed, freed, last = removed + 1, freed + row.bytes, Head(row.seq, row.digest)
        if not removed:
            return None, 0
        for table in (mcp_tool_call_log, audit_events):
            connection.execute(delete(table).where(table.c.seq <= last.seq))
        end = end._replace(size=end.size - freed, trimmed=last)
        head, _ = self._write(connection, end, [trim_entry(removed, last, now)])
        return head, removed


class _End(NamedTuple):
    """The newest row, what all take, the newest that was removed for its age, and what has to be written first."""

    head: Head
    size: int
    trimmed: Head
    events: tuple[ChainEntry, ...] = ()


def _columns(end: _End) -> dict[str, Any]:
    return {
        "seq": end.head.seq,
        "digest": end.head.digest,
        "trimmed_seq": end.trimmed.seq,
        "trimmed_digest": end.trimmed.digest,
        "bytes": end.size,
    }


def _state(connection: Connection) -> Row[Any] | None:
    """Return the one row of `audit_heads`, locked where a database has locks on rows."""
    return connection.execute(_THE_STATE).first()


# Made once: to make a statement takes longer than to execute it.
_THE_STATE: Final = select(audit_heads).with_for_update()
_ENDS: Final = ("seq", "digest", "trimmed_seq", "trimmed_digest", "bytes")
_NEW_STATE: Final = update(audit_heads).values({name: bindparam(name) for name in _ENDS})
_NEW_PROVED_STATE: Final = update(audit_heads).values({name: bindparam(name) for name in (*_ENDS, "key_id", "mac")})


def _end_of_rows(connection: Connection) -> _End:
    """Return what the record of the end must have said, where it is lost or wrong; the log goes on from there."""
    last, size = Head(0, GENESIS), 0
    for table in (mcp_tool_call_log, audit_events):
        newest = select(table.c.seq, table.c.digest).order_by(table.c.seq.desc()).limit(1)
        found = connection.execute(newest).first()
        last = max(last, Head(*found)) if found is not None else last
        size += connection.scalar(select(func.coalesce(func.sum(table.c.bytes), 0))) or 0
    trims = select(audit_events.c.summary, audit_events.c.details).where(audit_events.c.kind == TRIMMED)
    newest_trim = connection.execute(trims.order_by(audit_events.c.seq.desc()).limit(1)).mappings().first()
    trimmed = trimmed_by(dict(newest_trim)) if newest_trim is not None else None
    return _End(last, size, trimmed or Head(0, GENESIS))


def _mend_event(head: Head) -> ChainEntry:
    summary = f"The record of the end of the log did not fit; rows behind number {head.seq} may have been cut off."
    return entry(MENDED, {"at": round(time.time(), 6), "summary": summary})


def _written_before(connection: Connection, batch: ChainBatch) -> bool:
    if batch.once is not None:
        same = (audit_events.c.kind == RECOVERED) & (audit_events.c.summary == batch.once)
        if connection.scalar(select(audit_events.c.seq).where(same).limit(1)) is not None:
            return True
    tried = batch.tried
    return tried is not None and any(_holds(connection, table, tried) for table in (mcp_tool_call_log, audit_events))


def _holds(connection: Connection, table: Table, head: Head) -> bool:
    return bool(connection.scalar(select(table.c.digest).where(table.c.seq == head.seq)) == head.digest)


def _oldest(connection: Connection) -> list[Any]:
    """Return the first rows of the log, enough for one step."""
    found: list[Any] = []
    for table, at in ((mcp_tool_call_log, mcp_tool_call_log.c.ended), (audit_events, audit_events.c.at)):
        query = select(table.c.seq, table.c.digest, table.c.bytes, at.label("at")).order_by(table.c.seq)
        found.append(connection.execute(query.limit(TRIM_STEP)).all())
    return sorted(chain(*found), key=lambda row: row.seq)[:TRIM_STEP]
