"""Calls found by a query, newest first: page by page, counted by minute, and as they come.

Law: a request looks at a bounded number of rows for a bounded time, says how far it came, and few run at one time.
"""

import asyncio
import json
import operator
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, case, false, func, not_, or_, select, union_all

from aggregator.storage.audit.query import COLUMNS, Bound, CallQuery, SearchWord, Term
from aggregator.storage.audit.read import CALL_COLUMNS, LogPlace, log_end, parts_between
from aggregator.storage.engine import postgres, sqlite
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import audit_events, mcp_tool_call_log

PAGE: Final = 50
# Rows that one request looks at, and seconds that it takes for them.
WINDOW: Final = 250_000
SECONDS: Final = 0.06
# Rows that are counted.
COUNTED: Final = 20_000
# A slice of the rows is to take so long; the first one is small, since most pages are full by then.
_SLICE_SECONDS: Final = 0.02
_FIRST_SLICE: Final = 2_000
# Calls that began earlier may end later: so many rows around a time are read beyond the range of its index.
_NEAR: Final = 200
_LATE: Final = 10_000
_TOGETHER: Final = 2
# Of the rows that came since a moment ago.
NEW: Final = 250
SLOW: Final = 1.0

_calls: Final = mcp_tool_call_log
# The columns of a list, without those that may be long.
LISTED: Final = tuple(name for name in CALL_COLUMNS if name not in ("arguments", "result", "steps"))
_LISTED: Final = (_calls.c.seq, _calls.c.chain, *(_calls.c[name] for name in LISTED))
_WHOLE: Final = (*(_calls.c[name] for name in ("seq", "chain", "digest", "previous", *CALL_COLUMNS)),)
_TIMES: Final = (
    *(_calls.c[name] for name in ("started", "status", "server_id", "tool_name", "duration", "upstream_seconds")),
)
_ARRIVED: Final = select(_calls.c.seq, _calls.c.status, _calls.c.started, _calls.c.duration)
_NAMES: Final = ("error_code", "tool_name", "asked_name")
# Of a text that is not shown, a search would tell what stands in it.
_VALUES: Final = ("error_message", "arguments", "result")
_COMPARE: Final = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}

_PLACE: Final = re.compile(r"\d{1,18}(?:,\d{1,9}:\d{1,18})*", re.ASCII)
_LONGEST_PLACE: Final = 4_000

CallRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """Rows, newest first, without their empty columns.

    `before` is the place to continue, None at the beginning of the log. `looked_to` is the begin time of the oldest row
    read; `full`: the search ended because it found enough.
    """

    rows: tuple[CallRow, ...]
    before: int | None
    looked_to: float | None
    full: bool


class CountedCalls(NamedTuple):
    """Calls that began in one minute (its number since 1970) and ended so; `slow` of them took longer than `SLOW`."""

    minute: int
    status: str
    calls: int
    slow: int


class CallTime(NamedTuple):
    """The times of one call, in seconds, with its tool and server."""

    started: float
    status: str
    server: str | None
    tool: str | None
    duration: float
    upstream_seconds: float | None


class ArrivedCall(NamedTuple):
    """A new call, with the columns that are counted."""

    seq: int
    status: str
    started: float
    duration: float


@dataclass(frozen=True, slots=True)
class Counts:
    """The calls found in the newest rows, by minute and status; `since` is when the first of those rows began."""

    counted: tuple[CountedCalls, ...]
    since: float | None


class CallSearch:
    """The search for calls in one database, while others write."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns = asyncio.Semaphore(_TOGETHER)

    async def find(
        self, query: CallQuery, *, before: int | None = None, limit: int = PAGE, values: bool = False
    ) -> FoundCalls:
        """Return the newest calls of a query below number `before`. `values`: search messages and stored values, too.

        Raises:
            StorageError: the database cannot be read. So with every method.
        """
        async with self._reading() as connection:
            conditions = conditions_of(query, connection.dialect.name, values=values)
            top, floor = await _window(connection, query, before)
            found: list[CallRow] = []
            first, at, size, ends = top - WINDOW, top, _FIRST_SLICE, monotonic() + SECONDS
            bottom = max(first, floor)
            while len(found) < limit and at > bottom and monotonic() < ends:
                began = monotonic()
                low = max(bottom, at - size) if conditions else bottom
                page = select(*_LISTED).where(_calls.c.seq < at, _calls.c.seq >= low, *conditions)
                rows = await connection.execute(page.order_by(_calls.c.seq.desc()).limit(limit - len(found)))
                found += [_row(row) for row in rows]
                at, took = low, max(monotonic() - began, 1e-6)
                size = int(min(max(size * _SLICE_SECONDS / took, 500), 8 * size, WINDOW))
            full = len(found) == limit
            if full:
                reached, oldest = found[-1]["seq"], found[-1]["started"]
            else:
                first_left = select(_calls.c.started).where(_calls.c.seq >= at).order_by(_calls.c.seq).limit(1)
                reached, oldest = at, await connection.scalar(first_left)
            return FoundCalls(tuple(found), reached if reached > max(floor, 1) else None, oldest, full)

    async def count(self, query: CallQuery, since: float, *, values: bool = False) -> Counts:
        """Return the numbers of calls that a query finds among the newest `COUNTED` rows, and since then."""
        async with self._reading() as connection:
            dialect = connection.dialect.name
            conditions = conditions_of(query, dialect, values=values)
            top, floor = await _window(connection, CallQuery(since=max(since, query.since or 0.0)), None)
            low = max(floor, top - COUNTED)
            minute = (sqlite if dialect == "sqlite" else postgres).whole(_calls.c.started / 60)
            slow = func.sum(case((_calls.c.duration > SLOW, 1), else_=0))
            counted = (
                select(minute, _calls.c.status, func.count(), slow)
                .where(_calls.c.seq >= low, _calls.c.started + 0 >= since, *conditions)
                .group_by(minute, _calls.c.status)
            )
            rows = [CountedCalls(*row) for row in await connection.execute(counted)]
            oldest = select(_calls.c.started).where(_calls.c.seq >= low).order_by(_calls.c.seq).limit(1)
            return Counts(tuple(rows), await connection.scalar(oldest) if low > floor else since)

    async def times(self, since: float) -> list[CallTime]:
        """Return how long calls took that began since then, of the newest `COUNTED` rows."""
        async with self._reading() as connection:
            top = await _newest(connection) + 1
            times = select(*_TIMES).where(_calls.c.seq >= top - COUNTED, _calls.c.started + 0 >= since)
            return [CallTime(*row) for row in await connection.execute(times)]

    async def newest(self) -> int:
        """Return the number of the newest row, 0 if there is none."""
        async with self._engine.read() as connection:
            return await _newest(connection)

    async def end(self) -> LogPlace:
        """Return the place behind all rows that can be read now."""
        async with self._engine.read() as connection:
            return await log_end(connection)

    async def arrived(
        self, place: LogPlace, limit: int = NEW, *, upto: LogPlace | None = None
    ) -> tuple[list[ArrivedCall], LogPlace]:
        """Return the counted columns of calls after this place of the log, oldest first, and the place behind them.
        There are at least `limit` if there may be more. With `upto`, none after that place.
        """
        found: list[ArrivedCall] = []
        async with self._engine.read() as connection:
            end = await log_end(connection) if upto is None else upto
            reached = dict(end)
            for part in parts_between(place, end, connection.dialect.name):
                query = _ARRIVED.where(*part.of(_calls)).order_by(_calls.c.seq).limit(limit)
                rows = [ArrivedCall(*row) for row in await connection.execute(query)]
                if len(rows) == limit:
                    reached |= dict.fromkeys(part.chains, rows[-1].seq)
                found += rows
        return sorted(found), reached

    async def some(self, seqs: Iterable[int]) -> list[CallRow]:
        """Return the calls with these numbers, oldest first."""
        async with self._engine.read() as connection:
            query = select(*_LISTED).where(_calls.c.seq.in_(list(seqs))).order_by(_calls.c.seq)
            return [_row(row) for row in await connection.execute(query)]

    async def revision_before(self, seq: int, chain: int = 0) -> str | None:
        """Return the revision of the policies that were in force in the process that wrote row `seq`, if that is on
        record.
        """
        events = audit_events.c
        kinds = events.kind.in_(("policy_loaded", "policy_reloaded"))
        newest = select(events.details).where(
            kinds, events.chain == chain, events.seq < seq, events.seq >= seq - WINDOW
        )
        async with self._engine.read() as connection:
            details = await connection.scalar(newest.order_by(events.seq.desc()).limit(1))
        try:
            revision = json.loads(details or "{}").get("revision")
        except (ValueError, AttributeError):
            return None
        return revision if isinstance(revision, str) else None

    async def matching(self, queries: Sequence[tuple[CallQuery, bool]], first: int, last: int) -> list[frozenset[int]]:
        """Return which rows from `first` to `last` each query finds; beside a query, whether values are searched."""
        found = []
        async with self._engine.read() as connection:
            for query, values in queries:
                conditions = conditions_of(query, connection.dialect.name, values=values)
                numbers = select(_calls.c.seq).where(_calls.c.seq >= first, _calls.c.seq <= last, *conditions)
                found.append(frozenset((await connection.scalars(numbers.limit(last - first + 1))).all()))
        return found

    async def of_span(self, span_id: str) -> int | None:
        """Return the number of the call with this span among the newest `COUNTED` rows; None if there is none."""
        async with self._engine.read() as connection:
            top = await _newest(connection) + 1
            wanted = select(_calls.c.seq).where(_calls.c.seq >= top - COUNTED, _calls.c.span_id == span_id)
            return await connection.scalar(wanted.order_by(_calls.c.seq.desc()).limit(1))

    async def one(self, seq: int) -> CallRow | None:
        """Return a call with all its columns."""
        async with self._engine.read() as connection:
            row = (await connection.execute(select(*_WHOLE).where(_calls.c.seq == seq))).first()
            return _row(row) if row is not None else None

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        async with self._turns, self._engine.read() as connection:
            yield connection


def place_text(place: LogPlace) -> str:
    """Return a place of the log as a short text: `120`, or with other chains `120,1:118`."""
    others = (f"{chain}:{seq}" for chain, seq in sorted(place.items()) if chain)
    return ",".join((str(place.get(0, 0)), *others))


def place_of(text: str) -> LogPlace | None:
    """Return the place of the log that a text of `place_text` names, or None."""
    if len(text) > _LONGEST_PLACE or _PLACE.fullmatch(text) is None:
        return None
    first, *others = text.split(",")
    return {0: int(first), **{int(chain): int(seq) for chain, _, seq in (one.partition(":") for one in others)}}


def conditions_of(query: CallQuery, dialect: str, *, values: bool) -> list[ColumnElement[bool]]:
    """Return a query as conditions on the table of calls."""
    found = [_term(term, dialect) for term in query.terms]
    found += [_word(word, values=values) for word in query.words]
    found += [_bound(bound) for bound in query.bounds]
    # Not by the index, which would have to be sorted: the numbers of rows are the order.
    if query.since is not None:
        found.append(_calls.c.started + 0 >= query.since)
    if query.until is not None:
        found.append(_calls.c.started + 0 < query.until)
    return found


def _term(term: Term, dialect: str) -> ColumnElement[bool]:
    tests: list[ColumnElement[bool]] = []
    for name in COLUMNS[term.key]:
        column = _calls.c[name]
        if term.key == "trace":
            tests += [column.startswith(value, autoescape=True) for value in term.values]
        elif term.values:
            tests.append(column.in_(term.values))
        matches = sqlite.glob if dialect == "sqlite" else postgres.glob
        tests += [matches(column, pattern) for pattern in term.patterns]
    return _unless(or_(*tests), negated=term.negated)


def _unless(test: ColumnElement[bool], *, negated: bool) -> ColumnElement[bool]:
    """Return a test, or that it is not passed: an empty column passes none."""
    return not_(func.coalesce(test, false())) if negated else test


def _word(word: SearchWord, *, values: bool) -> ColumnElement[bool]:
    names = (*_NAMES, *_VALUES) if values else _NAMES
    tests = [_calls.c[name].icontains(word.text, autoescape=True) for name in names]
    tests.append(_calls.c.trace_id.startswith(word.text, autoescape=True))
    return _unless(or_(*tests), negated=word.negated)


def _bound(bound: Bound) -> ColumnElement[bool]:
    column = _calls.c.duration if bound.key == "took" else func.coalesce(_calls.c.result_bytes, 0)
    test: ColumnElement[bool] = _COMPARE[bound.operator](column, bound.value)
    return _unless(test, negated=bound.negated)


async def _window(connection: AsyncConnection, query: CallQuery, before: int | None) -> tuple[int, int]:
    """Return the numbers that rows are read below and above: by times, if given."""
    top, floor = await _newest(connection) + 1, 0
    if before is not None:
        top = min(top, before)
    by_time = select(_calls.c.seq).limit(_NEAR)
    if query.until is not None:
        near = by_time.where(_calls.c.started < query.until).order_by(_calls.c.started.desc()).subquery()
        last = await connection.scalar(select(func.max(near.c.seq)))
        top = min(top, last + _LATE) if last is not None else 0
    if query.since is not None:
        near = by_time.where(_calls.c.started >= query.since).order_by(_calls.c.started).subquery()
        first = await connection.scalar(select(func.min(near.c.seq)))
        floor = first if first is not None else top
    return top, floor


async def _newest(connection: AsyncConnection) -> int:
    return await connection.scalar(_NEWEST) or 0


_ENDS: Final = union_all(select(func.max(_calls.c.seq).label("seq")), select(func.max(audit_events.c.seq))).subquery()
_NEWEST: Final = select(func.max(_ENDS.c.seq))


def _row(row: Any) -> CallRow:
    """Return a row without its empty columns; chain 0, which is the only one of most logs, is not named."""
    return {name: value for name, value in row._mapping.items() if value is not None and (value or name != "chain")}
