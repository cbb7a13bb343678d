"""Reading the audit log, calls and other events in the order of their numbers; nothing is ever changed.

Rule: who follows the log reads on in each chain. Of two chains, a lower number may be committed later.
"""

from array import array
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, Table, Text, case, cast, func, inspect, select

from aggregator.storage.audit.chain import BEGUN, CALL, Head
from aggregator.storage.audit.inserts import CHAIN, PLACE
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine, open_existing
from aggregator.storage.engine.stamp import STAMP, refuse_old_database
from aggregator.storage.errors import StorageError
from aggregator.storage.tables import audit_events, audit_heads, mcp_tool_call_log

PAGE: Final = 1000
_PLACE: Final = frozenset((*PLACE, CHAIN))
CALL_COLUMNS: Final = tuple(column.name for column in mcp_tool_call_log.c if column.name not in _PLACE)
EVENT_COLUMNS: Final = tuple(column.name for column in audit_events.c if column.name not in {*_PLACE, "kind"})
By = Literal["server", "tool", "agent", "status"]
_BY: Final = {
    "server": mcp_tool_call_log.c.server_id,
    "tool": mcp_tool_call_log.c.tool_name,
    "agent": mcp_tool_call_log.c.agent_id,
    "status": mcp_tool_call_log.c.status,
}


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row: `kind` is `call` or the kind of an event; `values` are its columns without the empty ones."""

    seq: int
    kind: str
    values: Mapping[str, Any]
    size: int
    previous: str
    digest: str
    chain: int = 0

    @property
    def at(self) -> float:
        """The time of its beginning, in seconds since 1970."""
        at: float = self.values["started" if self.kind == CALL else "at"]
        return at


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """The choice of rows; None chooses all. In `tool`, `*` and `?` stand for anything. Times are seconds since 1970.

    Where a tool or a status is wanted, only calls have it. Events that a call begins are read
    only if `begun` is set: the row of the call says the same.
    """

    agent: str | None = None
    server: str | None = None
    tool: str | None = None
    status: str | None = None
    since: float | None = None
    until: float | None = None
    begun: bool = False


# Numbers of the log whose calls are grouped at a time: so many durations are in one text of the database at most.
SPAN: Final = 200_000
_duration: Final = mcp_tool_call_log.c.duration
# Seconds longer than any call, in place of a larger or invalid number.
_LONGEST: Final = 1e9
_MICROSECONDS: Final = func.aggregate_strings(
    cast(cast(func.round(case((_duration < _LONGEST, _duration), else_=_LONGEST) * 1e6), BigInteger), Text), ","
)

_TABLES: Final = (audit_heads, mcp_tool_call_log, audit_events)
ALL: Final = LogFilter(begun=True)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The record of both ends of a chain: the newest row, and the newest row removed for its age.

    `key_id` names the key of the chain, if any; `mac` proves the two rows with it.
    """

    head: Head
    trimmed: Head
    key_id: str | None = None
    mac: str | None = None


# The newest number of each chain that was read.
LogPlace = Mapping[int, int]


class CallTimes(NamedTuple):
    """The durations of the calls of one group that ended with one status. Ungrouped, `group` is the status."""

    group: str | None
    status: str
    microseconds: "array[int]"


class AuditReader:
    """A reader of the log, while others write."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def newest(self, wanted: LogFilter, limit: int) -> list[LogRow]:
        """Return the last rows, oldest first.

        Raises:
            StorageError: the database cannot be read. So with every method.
        """
        found: list[LogRow] = []
        async with self._engine.read() as connection:
            for table in _tables(wanted):
                query = _query(table, wanted).order_by(table.c.seq.desc()).limit(limit)
                found += [_row(table, row) for row in await connection.execute(query)]
        return sorted(found, key=_seq)[-limit:]

    async def after(self, seq: int, wanted: LogFilter) -> list[LogRow]:
        """Return the next rows after number `seq`, in order; none when there are no more."""
        async with self._engine.read() as connection:
            return await next_rows(connection, seq, wanted)

    async def end(self) -> LogPlace:
        """Return the newest row of each chain: all up to these can be read."""
        async with self._engine.read() as connection:
            return await log_end(connection)

    async def since(self, place: LogPlace, wanted: LogFilter) -> tuple[list[LogRow], LogPlace]:
        """Return rows after this place of the log, in order, and the place behind them.

        There are more if that is not the end yet.
        """
        found: list[LogRow] = []
        async with self._engine.read() as connection:
            end = await log_end(connection)
            reached = dict(end)
            for part in parts_between(place, end, connection.dialect.name):
                rows, upto = [], part.upto
                for table in _tables(wanted):
                    query = _query(table, wanted).where(*part.of(table)).order_by(table.c.seq).limit(PAGE)
                    page = [_row(table, row) for row in await connection.execute(query)]
                    # Behind the last of a full page, rows of the other table may follow that were not read.
                    upto = min(upto, page[-1].seq) if len(page) == PAGE else upto
                    rows += page
                found += [row for row in rows if row.seq <= upto]
                reached |= dict.fromkeys(part.chains, upto)
        return sorted(found, key=_seq), reached

    async def heads(self) -> dict[int, Head]:
        """Return the newest row of each chain, as the rows say; a chain without rows is left out."""
        newest: dict[int, Head] = {}
        async with self._engine.read() as connection:
            known = (await connection.scalars(select(audit_heads.c.chain).order_by(audit_heads.c.chain))).all()
            for chain in known or [0]:
                for table in (mcp_tool_call_log, audit_events):
                    query = select(table.c.seq, table.c.digest).where(table.c.chain == chain)
                    found = (await connection.execute(query.order_by(table.c.seq.desc()).limit(1))).first()
                    if found is not None:
                        newest[chain] = max(newest.get(chain, Head(0, "")), Head(*found))
        return newest

    async def find(self, reference: str) -> list[LogRow]:
        """Return the rows of a trace, named by its id or the beginning of it; or the row of this number."""
        calls = mcp_tool_call_log
        async with self._engine.read() as connection:
            if reference.isdecimal() and len(reference) < 16:
                for table in (calls, audit_events):
                    row = (await connection.execute(select(table).where(table.c.seq == int(reference)))).first()
                    if row is not None:
                        return [_row(table, row)]
            if not reference:
                return []
            begins = (calls.c.trace_id >= reference) & (calls.c.trace_id < reference + "g")
            rows = await connection.execute(select(calls).where(begins).order_by(calls.c.seq).limit(PAGE))
            return [_row(calls, row) for row in rows]

    async def durations(self, wanted: LogFilter, by: By | None) -> AsyncIterator[list[CallTimes]]:
        """Yield the durations of all calls, page by page. The database groups them: no row is read by itself."""
        calls = mcp_tool_call_log
        conditions = _conditions(calls, wanted)
        # SQLite finds the least bare number by trying row after row; of a sum, it goes by the index of the conditions.
        number = calls.c.seq + 0 if conditions else calls.c.seq
        first, last = (select(find(number)).where(*conditions).scalar_subquery() for find in (func.min, func.max))
        keys = [_BY[by], calls.c.status] if by is not None else [calls.c.status]
        query = select(*keys, _MICROSECONDS).where(*conditions).group_by(*keys)
        async with self._engine.read() as connection:
            start, end = (await connection.execute(select(first, last))).one()
        while start is not None and start <= end:
            upto = min(end, start + SPAN - 1)
            async with self._engine.read() as connection:
                rows = (await connection.execute(query.where(calls.c.seq.between(start, upto)))).all()
                # Numbers may have gaps of any size.
                start = (await connection.execute(select(func.min(calls.c.seq)).where(calls.c.seq > upto))).scalar()
            yield [CallTimes(row[0], row[-2], array("q", map(int, row[-1].split(",")))) for row in rows]

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[AsyncConnection]:
        """Give the current log; later writes do not show."""
        async with self._engine.read() as connection:
            if connection.dialect.name != "sqlite":
                await connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield connection


@asynccontextmanager
async def open_reader(url: str) -> AsyncIterator[AuditReader]:
    """Give the log in the database behind `url`, which is neither made nor mended nor migrated for it.

    Raises:
        StorageError: there is none.
    """
    async with open_existing(url, "nothing has been recorded yet.") as engine:
        async with engine.read() as connection:
            stamp, missing, is_current = await connection.run_sync(_looked_over)
        if stamp is not None:
            refuse_old_database(stamp, engine.path, engine.database)
        if missing and len(missing) < len(_TABLES):
            raise StorageError(f"The audit log is NOT whole: its table {missing[0]} was removed from the database.")
        if missing:
            raise StorageError("This database has no audit log: no gateway of this version has used it yet.")
        if not is_current:
            raise StorageError("An older version of aggregator made this audit log: start a gateway of this one first.")
        yield AuditReader(engine)


def _looked_over(connection: Connection) -> tuple[str | None, list[str], bool]:
    """Return the stamp, which tables of the log are missing, and whether the others have every column."""
    found = inspect(connection)
    stamp = connection.scalar(select(STAMP.c.version_num)) if found.has_table(STAMP.name) else None
    missing = [table.name for table in _TABLES if not found.has_table(table.name)]
    columns = {
        table: {one["name"] for one in found.get_columns(table.name)} for table in _TABLES if table.name not in missing
    }
    return stamp, missing, all(known >= set(table.c.keys()) for table, known in columns.items())


async def ends(connection: AsyncConnection) -> dict[int, LogBounds]:
    """Return the record of both ends of each chain; none if it is lost, or not written by the gateway."""
    rows = await connection.execute(select(audit_heads).order_by(audit_heads.c.chain))
    return {
        row.chain: LogBounds(Head(row.seq, row.digest), Head(row.trimmed_seq, row.trimmed_digest), row.key_id, row.mac)
        for row in rows
        if all(isinstance(one, int) for one in (row.chain, row.seq, row.trimmed_seq))
    }


async def log_end(connection: AsyncConnection) -> LogPlace:
    """Return the newest row of each chain. Rows up to these show to every later reader."""
    return {chain: bounds.head.seq for chain, bounds in (await ends(connection)).items()}


class LogRange(NamedTuple):
    """The rows of these chains behind number `after`, up to `upto`; unless `one_chain`, of all."""

    chains: tuple[int, ...]
    after: int
    upto: int
    one_chain: bool

    def of(self, table: Table) -> list[ColumnElement[bool]]:
        """Return the conditions on the rows of a table."""
        found = [table.c.seq > self.after, table.c.seq <= self.upto]
        return [table.c.chain == self.chains[0], *found] if self.one_chain else found


def parts_between(place: LogPlace, end: LogPlace, dialect: str) -> list[LogRange]:
    """Return the parts between two places of the log. A file has one writer: there the number is enough."""
    if dialect == "sqlite":
        after, upto = max(place.values(), default=0), max(end.values(), default=0)
        return [LogRange(tuple(end), after, upto, one_chain=False)] if after < upto else []
    return [
        LogRange((chain,), place.get(chain, 0), upto, one_chain=True)
        for chain, upto in sorted(end.items())
        if place.get(chain, 0) < upto
    ]


async def next_rows(connection: AsyncConnection, seq: int, wanted: LogFilter = ALL) -> list[LogRow]:
    """Return a page of rows after number `seq`."""
    found: list[LogRow] = []
    upto: int | None = None
    for table in _tables(wanted):
        query = _query(table, wanted).where(table.c.seq > seq)
        if upto is not None:
            query = query.where(table.c.seq <= upto)
        rows = [_row(table, row) for row in await connection.execute(query.order_by(table.c.seq).limit(PAGE))]
        # Behind the last of a full page, rows of the first table may follow that were not read.
        upto = rows[-1].seq if len(rows) == PAGE else None
        found += rows
    found.sort(key=_seq)
    # A number that is there twice stays on one page.
    twice = len(found) > PAGE and found[PAGE].seq == found[PAGE - 1].seq
    return found[: PAGE + twice]


def _tables(wanted: LogFilter) -> tuple[Table, ...]:
    only_calls = wanted.tool is not None or wanted.status is not None
    return (mcp_tool_call_log,) if only_calls else (mcp_tool_call_log, audit_events)


def _query(table: Table, wanted: LogFilter) -> Select[Any]:
    return select(table).where(*_conditions(table, wanted))


def _conditions(table: Table, wanted: LogFilter) -> list[ColumnElement[bool]]:
    calls = table is mcp_tool_call_log
    at = table.c.started if calls else table.c.at
    found: list[ColumnElement[bool]] = []
    if not calls and not wanted.begun:
        found.append(table.c.kind != BEGUN)
    if wanted.agent is not None:
        found.append(table.c.agent_id == wanted.agent)
    if wanted.server is not None:
        mine = table.c.server_id == wanted.server
        found.append(mine | (table.c.answered_by == wanted.server) if calls else mine)
    if wanted.tool is not None:
        pattern = _pattern(wanted.tool)
        found.append(table.c.tool_name.like(pattern, escape="\\") | table.c.asked_name.like(pattern, escape="\\"))
    if wanted.status is not None:
        found.append(table.c.status == wanted.status)
    if wanted.since is not None:
        found.append(at >= wanted.since)
    if wanted.until is not None:
        found.append(at < wanted.until)
    return found


def _pattern(tool: str) -> str:
    for literal in "\\%_":
        tool = tool.replace(literal, f"\\{literal}")
    return tool.replace("*", "%").replace("?", "_")


def _row(table: Table, row: Any) -> LogRow:
    columns = row._mapping
    calls = table is mcp_tool_call_log
    values = {
        name: value for name in (CALL_COLUMNS if calls else EVENT_COLUMNS) if (value := columns[name]) is not None
    }
    kind = CALL if calls else columns["kind"]
    place = columns["bytes"], columns["previous"], columns["digest"], columns["chain"]
    return LogRow(columns["seq"], kind, values, *place)


def _seq(row: LogRow) -> int:
    return row.seq
