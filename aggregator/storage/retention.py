"""The removal of rows that are kept for no longer, in short transactions, so that no writer waits for long.

Law: what this removes, no process needs: it has expired, or is older than its table's rows are kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, or_, select

from aggregator.storage.approvals import KEPT as APPROVALS_KEPT
from aggregator.storage.audit.log import CLOCKS_DIFFER, AuditRows, with_times
from aggregator.storage.catalogs import KEPT as CATALOGS_KEPT
from aggregator.storage.console_sessions import IDLE_FOR
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageDamaged, StorageError
from aggregator.storage.tables import (
    approvals,
    audit_events,
    audit_heads,
    changes,
    console_links,
    console_sessions,
    flow_labels,
    host_sessions,
    kept_result_parts,
    kept_results,
    limit_usage,
    mcp_servers,
    mcp_tool_call_log,
    mcp_tool_versions,
    mcp_tools,
    oauth_clients,
    oauth_connects,
    replicas,
    tool_reports,
    tool_vectors,
    used_states,
)
from aggregator.storage.tool_vectors import VECTORS_KEPT
from aggregator.tool_reports.rows import REPORTS_KEPT

# Seconds. A replica that did not look for changes for so long reads everything anew.
CHANGES_KEPT: Final = 3600.0
REPLICAS_KEPT: Final = 86400.0
# Beyond the time at which a sealed state, a session or a flow label expires: clocks differ.
MARGIN: Final = 300.0
# Rows removed in one transaction.
STEP: Final = 2000

_PAGE: Final = 10_000

# Where a trim by size stops, as in `AuditRows.trim`; tests hold the two together.
_TRIM_TO: Final = 0.9


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Bounds of the audit log: rows stay for `keep_for` seconds and `keep_bytes` at most, None without a bound.

    `before` is a time before which audit rows go in any case. Without `audited`, they are left alone.
    """

    keep_for: float | None
    keep_bytes: int | None
    before: float | None = None
    audited: bool = True


class Removed(NamedTuple):
    """The number of rows of one kind that were removed, or would be; `why` says which."""

    kind: str
    rows: int
    why: str


class _Kind(NamedTuple):
    """One kind of rows: those that `gone` is true of go, in the order of a column.

    after: the kind that has to be removed before, since its rows are found by these.
    """

    name: str
    why: str
    table: Table
    order: Column[Any]
    gone: ColumnElement[bool]
    after: str = ""


async def prune(engine: Engine, audit: AuditRows, rules: RetentionRules, *, now: float) -> list[Removed]:
    """Remove expired rows; return the number removed of each kind. `now` is in seconds since 1970.

    A kind that the database refuses to remove, such as one with a damaged table, costs no other kind.

    Raises:
        StorageError: the database failed. All other kinds are removed.
    """
    done = []
    if rules.audited:
        before, rows = _audit_before(rules, now), 0
        while removed := await audit.trim(before=before, keep_bytes=rules.keep_bytes, now=now):
            rows += removed
        done.append(Removed("audit rows", rows, _audit_why(rules)))
    refused: dict[str, Exception] = {}
    for kind in _kinds(rules, now):
        if kind.after in refused:
            continue
        try:
            done.append(Removed(kind.name, await _removed(engine, kind), kind.why))
        except Exception as error:
            if isinstance(error, StorageError) and not isinstance(error, StorageDamaged):
                raise
            refused[kind.name] = error
    if refused:
        said = "; ".join(f"{name}: {type(error).__name__}" for name, error in refused.items())
        raise StorageError(f"Some kinds of rows cannot be removed: {said}.") from next(iter(refused.values()))
    return done


async def would_prune(engine: Engine, rules: RetentionRules, *, now: float) -> list[Removed]:
    """Return how much of each kind `prune` would remove now.

    Raises:
        StorageError: the database cannot be read.
    """
    found = []
    if rules.audited:
        rows = await count_to_trim(engine, before=_audit_before(rules, now), keep_bytes=rules.keep_bytes, now=now)
        found.append(Removed("audit rows", rows, _audit_why(rules)))
    async with engine.read() as connection:
        for kind in _kinds(rules, now):
            count = await connection.scalar(select(func.count()).select_from(kind.table).where(kind.gone))
            found.append(Removed(kind.name, count or 0, kind.why))
    return found


async def _removed(engine: Engine, kind: _Kind) -> int:
    """Remove the rows of a kind, some in each transaction; return how many went."""
    table, order, rows = kind.table, kind.order, 0
    some = select(order).where(kind.gone).order_by(order).limit(STEP).subquery()
    bound = select(func.max(some.c[order.name])).scalar_subquery()
    while True:
        async with engine.read() as connection:
            if (await connection.execute(select(order).where(kind.gone).limit(1))).first() is None:
                return rows
        async with engine.write() as connection:
            done = await connection.execute(delete(table).where(kind.gone, order <= bound))
        rows += done.rowcount


def _audit_before(rules: RetentionRules, now: float) -> float | None:
    times = [now - rules.keep_for] if rules.keep_for is not None else []
    return max([*times, rules.before] if rules.before is not None else times, default=None)


def _audit_why(rules: RetentionRules) -> str:
    said = ["older than audit.keep_for"] if rules.keep_for is not None else []
    if rules.before is not None:
        said.append("before --before")
    if rules.keep_bytes is not None:
        said.append("beyond audit.keep_bytes")
    return " or ".join(said) or "all are kept"


def _kinds(rules: RetentionRules, now: float) -> Iterator[_Kind]:
    """Yield the kinds of rows besides the audit, those first that others refer to."""
    yield _Kind(
        "approvals",
        f"over for {APPROVALS_KEPT / 86400:g} days",
        approvals,
        approvals.c.expires,
        approvals.c.expires < now - APPROVALS_KEPT,
    )
    ended = or_(console_sessions.c.expires <= now, console_sessions.c.last_seen <= now - IDLE_FOR)
    yield _Kind("console sessions", "ended", console_sessions, console_sessions.c.expires, ended)
    yield _Kind("console links", "expired", console_links, console_links.c.expires, console_links.c.expires <= now)
    ended = oauth_connects.c.expires <= now
    yield _Kind("accounts that were not connected", "expired", oauth_connects, oauth_connects.c.expires, ended)
    ended = oauth_clients.c.expires <= now
    yield _Kind("client ids at issuers", "expired", oauth_clients, oauth_clients.c.expires, ended)
    for name, table in (
        ("sealed states", used_states),
        ("sessions of hosts", host_sessions),
        ("use of limits", limit_usage),
        ("flow labels", flow_labels),
    ):
        yield _Kind(name, "expired", table, table.c.expires, table.c.expires <= now - MARGIN)
    # One that was kept while the clock was ahead would stay until then.
    gone = or_(kept_results.c.expires <= now, kept_results.c.created > now + CLOCKS_DIFFER)
    over, parts, first = select(kept_results.c.id).where(gone), kept_result_parts.c, "parts of kept results"
    yield _Kind(first, "expired", kept_result_parts, parts.id, parts.id.in_(over))
    yield _Kind("kept results", "expired", kept_results, kept_results.c.expires, gone, after=first)
    newest = select(func.max(changes.c.seq)).group_by(changes.c.subject)
    old = changes.c.at < now - CHANGES_KEPT
    hours = f"older than {CHANGES_KEPT / 3600:g} h"
    yield _Kind("changes", hours, changes, changes.c.seq, old & changes.c.seq.not_in(newest))
    lost = replicas.c.seen < now - REPLICAS_KEPT
    yield _Kind("replicas", "not seen for a day", replicas, replicas.c.seen, lost)
    unread = tool_vectors.c.used < now - VECTORS_KEPT
    why = f"not read for {VECTORS_KEPT / 86400:g} days"
    yield _Kind("vectors of tools", why, tool_vectors, tool_vectors.c.used, unread)
    quiet = tool_reports.c.last < now - REPORTS_KEPT
    why = f"not made again for {REPORTS_KEPT / 86400:g} days"
    yield _Kind("tool reports", why, tool_reports, tool_reports.c.last, quiet)
    lists = mcp_servers.c.connected < now - CATALOGS_KEPT
    days = f"not connected for {CATALOGS_KEPT / 86400:g} days"
    yield _Kind("catalogs of servers", days, mcp_servers, mcp_servers.c.connected, lists)
    if rules.keep_for is not None:
        # Rows of the audit name the definition that was called.
        kept = max(rules.keep_for, CATALOGS_KEPT)
        versions = mcp_tool_versions.c
        listed = select(mcp_tools.c.digest).where(
            mcp_tools.c.server == versions.server, mcp_tools.c.digest == versions.digest
        )
        unused = (versions.last_seen < now - kept) & ~listed.exists()
        why = f"in no list for {kept / 86400:g} days"
        yield _Kind("definitions of tools", why, mcp_tool_versions, versions.last_seen, unused)


async def count_to_trim(engine: Engine, *, before: float | None, keep_bytes: int | None, now: float) -> int:
    """Return how many rows `AuditRows.trim` would remove, called until there are none.

    Raises:
        StorageError: the database cannot be read.
    """
    if before is None and keep_bytes is None:
        return 0
    async with engine.read() as connection:
        size = await connection.scalar(select(func.coalesce(func.sum(audit_heads.c.bytes), 0))) or 0
        floor = None if keep_bytes is None or size <= keep_bytes else int(keep_bytes * _TRIM_TO)
        last = removed = freed = 0
        while page := await _page(connection, last):
            for row, at in await connection.run_sync(_dated(page, now)):
                old = before is not None and at < before
                if not old and (floor is None or size - freed <= floor):
                    return removed
                removed, freed = removed + 1, freed + row.bytes
            last = page[-1].seq
    return removed


def _dated(page: list[Any], now: float) -> Callable[[Connection], list[tuple[Any, float]]]:
    return lambda connection: list(with_times(connection, page, now))


async def _page(connection: AsyncConnection, last: int) -> list[Any]:
    """Return the next rows of the log, in order."""
    found = []
    for table, at in ((mcp_tool_call_log, mcp_tool_call_log.c.ended), (audit_events, audit_events.c.at)):
        query = select(table.c.seq, table.c.bytes, at.label("at")).where(table.c.seq > last).order_by(table.c.seq)
        found.append((await connection.execute(query.limit(_PAGE))).all())
    return sorted(chain(*found), key=lambda row: row.seq)[:_PAGE]
