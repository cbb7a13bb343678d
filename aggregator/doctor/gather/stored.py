"""The rows that the doctor reads, by queries which SQLite and PostgreSQL both understand."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aggregator.storage.records import ADDED_LATER, ASKS, GROWS, SERVED, TAKES_LESS
from aggregator.tool_reports.doctor import ReportCounts

# The rows of a query with named parameters.
Rows = Callable[[str, Mapping[str, object]], Iterable[Sequence[Any]]]

_MONTH: Final = 30 * 86_400.0
_KEYS: Final = "SELECT key_id, agent_id, expires, revoked, last_used FROM api_keys ORDER BY created"
_HEAD: Final = "SELECT key_id FROM audit_heads WHERE chain = 0"
_HELD: Final = (
    "SELECT server, kind, name, entry, classes, renamed_from FROM pinned_items "
    "WHERE held = 1 ORDER BY server, kind, name LIMIT 1000"
)
# Of the last entry of each server in a configuration.
_HABITS: Final = (
    "SELECT s.id, i.kind FROM mcp_servers AS s "
    "JOIN (SELECT id, max(connected) AS connected FROM mcp_servers GROUP BY id) AS last "
    "ON last.id = s.id AND last.connected = s.connected "
    "JOIN mcp_item_lists AS i ON i.server = s.id AND i.fingerprint = s.fingerprint "
    "WHERE i.kind IN (:asks, :grows) LIMIT 1000"
)
_REPORTS: Final = "SELECT server, count(DISTINCT tool), sum(times) FROM tool_reports GROUP BY server ORDER BY server"
_OLDEST: Final = "SELECT min(started) FROM mcp_tool_call_log"
_CALLS: Final = "SELECT server_id, count(*) FROM mcp_tool_call_log WHERE started > :since GROUP BY server_id"


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a database: the keys without their hashes; `chained` names the key that the audit log was begun
    with. `held` are the names of definitions that wait, by server; `less` are those among them whose servers take less
    than the approved definitions, which are served; `withheld` are the tools among them that no host gets by this name,
    as server and own name, each with the approved name under which hosts get it, or an empty one. Servers of `grows`
    have added tools while they were connected, those of `asking` have asked hosts during calls. `reports` are the tools
    that agents reported, by server.
    """

    keys: tuple[Mapping[str, object], ...] = ()
    chained: str | None = None
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    less: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    withheld: Mapping[tuple[str, str], str] = field(default_factory=dict)
    grows: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    reports: Mapping[str, ReportCounts] = field(default_factory=dict)


class _HeldRows(NamedTuple):
    """The definitions that wait for an approval, collected for `StoredRows`.

    `grows` has the servers that added tools while they were connected.
    """

    names: dict[str, tuple[str, ...]]
    less: dict[str, tuple[str, ...]]
    withheld: dict[tuple[str, str], str]
    grows: set[str]


def stored_rows(rows: Rows, entries: Mapping[str, str]) -> StoredRows:
    """Return the rows of a database with the tables of this version.

    entries: the key of each configured server's entry, by the server's id.
    """
    held = _held(rows, entries)
    habits = [(str(server), kind) for server, kind in rows(_HABITS, {"asks": ASKS, "grows": GROWS})]
    return StoredRows(
        _keys(rows),
        _first(rows, _HEAD),
        held.names,
        held.less,
        held.withheld,
        frozenset(held.grows).union(server for server, kind in habits if kind == GROWS),
        frozenset(server for server, kind in habits if kind == ASKS),
        {server: ReportCounts(*counts) for server, *counts in rows(_REPORTS, {})},
    )


def stored_calls(rows: Rows, now: float) -> dict[str, int]:
    """Return the calls of the last 30 days by server; nothing if the audit is younger than that."""
    oldest = _first(rows, _OLDEST)
    if oldest is None or now - float(oldest) < _MONTH:
        return {}
    found = {str(server): int(count) for server, count in rows(_CALLS, {"since": now - _MONTH})}
    return found or {"": 0}


def _keys(rows: Rows) -> tuple[Mapping[str, object], ...]:
    names = ("key_id", "agent_id", "expires", "revoked", "last_used")
    return tuple(dict(zip(names, row, strict=True)) for row in rows(_KEYS, {}))


def _held(rows: Rows, entries: Mapping[str, str]) -> _HeldRows:
    """Return the definitions that wait for an approval in this configuration."""
    found = _HeldRows({}, {}, {}, set())
    for server, kind, name, entry, classes, before in rows(_HELD, {}):
        # Rows of other configurations are not this one's to approve; those without an entry go to it.
        if not entry or entries.get(server, entry) == entry:
            found.names[server] = (*found.names.get(server, ()), name or kind)
            markers = str(classes or "").split(",")
            if kind == "tool" and (before or SERVED not in markers):
                found.withheld[server, name] = before if before and SERVED in markers else ""
            if TAKES_LESS in markers:
                found.less[server] = (*found.less.get(server, ()), before or name)
            if ADDED_LATER in markers:
                found.grows.add(server)
    return found


def _first(rows: Rows, query: str) -> Any:
    return next((row[0] for row in rows(query, {})), None)
