"""The audit log as rows: calls in one table, everything else in another, all in one chain.

Rule: a row gets its number and its digest in the transaction that writes it, so that processes take turns.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from aggregator.storage.audit_chain import CALL, GENESIS, Batch, Entry, Head, entry, link
from aggregator.storage.engine import Engine
from aggregator.storage.errors import StorageError
from aggregator.storage.files import identity
from aggregator.storage.tables import audit_events, audit_heads, mcp_tool_call_log

log = logging.getLogger(__name__)

NAME: Final = "log"
# What an event of our own about the log is called, and what of it says which rows it speaks of.
TRIMMED: Final = "log_trimmed"
RECOVERED: Final = "log_recovered"
# Rows removed in one transaction, so that no other writer waits for long.
TRIM_STEP: Final = 2000
# Where trimming by size stops, so that it does not begin again at once.
_TRIM_TO: Final = 0.9
_CALLS: Final = tuple(mcp_tool_call_log.c.keys())
_EVENTS: Final = tuple(audit_events.c.keys())


class _FileGone(Exception):
    """Another file lies where ours was."""


class AuditRows:
    """Adds rows at one end of the log and removes them at the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._file = identity(engine.path) if engine.path is not None else 0
        dialect = engine.raw.dialect
        # As text: nothing is worked out per row on the event loop.
        self._insert_call = str(insert(mcp_tool_call_log).compile(dialect=dialect))
        self._insert_event = str(insert(audit_events).compile(dialect=dialect))

    def fits(self, entries: Iterable[Entry]) -> bool:
        """Whether the tables have every column of these rows, which may come from another version of the program."""
        calls, events = set(_CALLS), set(_EVENTS)
        return all(one.values.keys() <= (calls if one.kind == CALL else events) for one in entries)

    async def append(self, batch: Batch) -> tuple[Head, int]:
        """Write a batch, whole or not at all, and never twice; returns the end of the log and its size in bytes.

        Raises:
            StorageError: the database cannot do it. Whether it was written shows when the same batch is tried again.
        """
        try:
            try:
                return await self._append(batch, _head)
            except _FileGone:
                # The engine lets go of the old file, and says so if there is none in its place.
                await self._engine.version(NAME)
                assert self._engine.path is not None
                self._file = identity(self._engine.path)
                return await self._append(batch, _head)
            except IntegrityError:
                log.error("the head of the audit log does not fit its rows; `aggregator audit verify` says more")
                return await self._append(batch, _head_of_rows)
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

        def work(connection: Connection) -> int:
            return self._trim(connection, before, keep_bytes, now)

        return await self._engine.write_apart(work)

    async def _append(self, batch: Batch, find_head: "_FindHead") -> tuple[Head, int]:
        def work(connection: Connection) -> tuple[Head, int]:
            if self._engine.path is not None and identity(self._engine.path) != self._file:
                raise _FileGone
            head, size = find_head(connection)
            if _written_before(connection, batch):
                return head, size
            calls, events, end = _placed(head, batch.entries)
            batch.tried = end
            if calls:
                connection.exec_driver_sql(self._insert_call, calls)
            if events:
                connection.exec_driver_sql(self._insert_event, events)
            size += sum(one.size for one in batch.entries)
            connection.execute(update(audit_heads).values(seq=end.seq, digest=end.digest, bytes=size))
            return end, size

        return await self._engine.write_apart(work)

    def _trim(self, connection: Connection, before: float | None, keep_bytes: int | None, now: float) -> int:
        state = _state(connection)
        if state is None:
            return 0
        floor = None if keep_bytes is None or state.bytes <= keep_bytes else int(keep_bytes * _TRIM_TO)
        removed, freed, last = 0, 0, Head(state.trimmed_seq, state.trimmed_digest)
        for row in _oldest(connection):
            old = before is not None and row.at < before
            if not old and (floor is None or state.bytes - freed <= floor):
                break
            removed, freed, last = removed + 1, freed + row.bytes, Head(row.seq, row.digest)
        if not removed:
            return 0
        for table in (mcp_tool_call_log, audit_events):
            connection.execute(delete(table).where(table.c.seq <= last.seq))
        told = _told_of_trim(removed, last, now)
        _, events, head = _placed(Head(state.seq, state.digest), [told])
        connection.exec_driver_sql(self._insert_event, events)
        connection.execute(
            update(audit_heads).values(
                seq=head.seq,
                digest=head.digest,
                trimmed_seq=last.seq,
                trimmed_digest=last.digest,
                bytes=state.bytes - freed + told.size,
            )
        )
        return removed


_FindHead = Callable[[Connection], tuple[Head, int]]
_Rows = list[tuple[Any, ...]]


def _placed(head: Head, entries: Iterable[Entry]) -> tuple[_Rows, _Rows, Head]:
    """The rows of both tables in their places behind `head`, and the head after them."""
    calls: _Rows = []
    events: _Rows = []
    seq, previous = head
    for one in entries:
        seq += 1
        digest = link(previous, seq, one.content)
        place = {"seq": seq, "bytes": one.size, "previous": previous, "digest": digest}
        if one.kind == CALL:
            calls.append(tuple(map({**one.values, **place}.get, _CALLS)))
        else:
            events.append(tuple(map({**one.values, **place, "kind": one.kind}.get, _EVENTS)))
        previous = digest
    return calls, events, Head(seq, previous)


def _state(connection: Connection) -> Row[Any] | None:
    """The one row of `audit_heads`, locked where a database has locks on rows."""
    return connection.execute(_THE_STATE).first()


_THE_STATE: Final = select(audit_heads).with_for_update()


def _head(connection: Connection) -> tuple[Head, int]:
    state = _state(connection)
    return _head_of_rows(connection) if state is None else (Head(state.seq, state.digest), state.bytes)


def _head_of_rows(connection: Connection) -> tuple[Head, int]:
    """What the head must have been, where it is lost or wrong; the log goes on from there."""
    last, size = Head(0, GENESIS), 0
    for table in (mcp_tool_call_log, audit_events):
        newest = select(table.c.seq, table.c.digest).order_by(table.c.seq.desc()).limit(1)
        found = connection.execute(newest).first()
        last = max(last, Head(*found)) if found is not None else last
        size += connection.scalar(select(func.coalesce(func.sum(table.c.bytes), 0))) or 0
    if _state(connection) is None:
        values = {"seq": last.seq, "digest": last.digest, "trimmed_seq": 0, "trimmed_digest": GENESIS, "bytes": size}
        connection.execute(insert(audit_heads).values(name=NAME, **values))
    return last, size


def _written_before(connection: Connection, batch: Batch) -> bool:
    if batch.once is not None:
        same = (audit_events.c.kind == RECOVERED) & (audit_events.c.summary == batch.once)
        if connection.scalar(select(audit_events.c.seq).where(same).limit(1)) is not None:
            return True
    tried = batch.tried
    return tried is not None and any(_holds(connection, table, tried) for table in (mcp_tool_call_log, audit_events))


def _holds(connection: Connection, table: Table, head: Head) -> bool:
    return bool(connection.scalar(select(table.c.digest).where(table.c.seq == head.seq)) == head.digest)


def _oldest(connection: Connection) -> list[Any]:
    """The first rows of the log, enough for one step."""
    found: list[Any] = []
    for table, at in ((mcp_tool_call_log, mcp_tool_call_log.c.ended), (audit_events, audit_events.c.at)):
        query = select(table.c.seq, table.c.digest, table.c.bytes, at.label("at")).order_by(table.c.seq)
        found.append(connection.execute(query.limit(TRIM_STEP)).all())
    return sorted(chain(*found), key=lambda row: row.seq)[:TRIM_STEP]


def _told_of_trim(removed: int, last: Head, now: float) -> Entry:
    summary = f"{removed} rows were removed for their age or the size of the log, up to number {last.seq}."
    return entry(TRIMMED, {"at": round(now, 6), "summary": summary, "details": f'{{"digest":"{last.digest}"}}'})
