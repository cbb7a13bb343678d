"""The lists of servers that were kept, straight from the SQLite file: a start has no time to import SQLAlchemy.

Rule: this file only reads, and waits for no lock. What is wrong with the database shows when it is opened.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aggregator.storage.records import BASELINE, PIN_FAULT, PIN_VERSION, Definition, KeptCatalog, PinRow

# Readers wait only for a process that has locked the whole file.
_PATIENCE: Final = 0.1
_KEPT: Final = """
SELECT s.connected, t.name, t.digest, v.definition
FROM mcp_servers AS s
LEFT JOIN mcp_tools AS t ON t.server = s.id AND t.fingerprint = s.fingerprint
LEFT JOIN mcp_tool_versions AS v ON v.server = t.server AND v.digest = t.digest
WHERE s.fingerprint = ?
ORDER BY t.position
"""
_KEPT_ITEMS: Final = """
SELECT i.kind, i.definitions FROM mcp_servers AS s
JOIN mcp_item_lists AS i ON i.server = s.id AND i.fingerprint = s.fingerprint
WHERE s.fingerprint = ?
"""

# Of each server the tools it had when it was last connected, for completion in a shell.
_NAMES: Final = """
SELECT t.server, t.name FROM mcp_tools AS t
JOIN (SELECT id, fingerprint, max(connected) FROM mcp_servers GROUP BY id) AS s
ON t.server = s.id AND t.fingerprint = s.fingerprint
ORDER BY t.server, t.position LIMIT 10000
"""
_HAS_PINS: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pinned_items'"
_PINS: Final = """
SELECT server, kind, name, digest, version, approved, approved_by, seen_digest, seen_version, seen, classes,
renamed_from, flags, held, entry FROM pinned_items
"""
_PINS_OF: Final = """
SELECT server, kind, name, digest, version, approved, approved_by, seen_digest, seen_version, seen, classes,
renamed_from, flags, held, entry, definition, seen_definition FROM pinned_items WHERE server = ?
"""
_AGENTS: Final = "SELECT DISTINCT agent_id FROM api_keys WHERE revoked IS NULL ORDER BY agent_id LIMIT 1000"


def tool_names(path: Path) -> list[tuple[str, str]]:
    """Return the id of each server and the names of its tools, as far as the file has them."""
    return [(str(server), str(name)) for server, name in _rows(path, _NAMES)]


def key_holders(path: Path) -> list[str]:
    """Return the agents that have keys, as far as the file has them."""
    return [str(agent) for (agent,) in _rows(path, _AGENTS)]


def _rows(path: Path, query: str) -> list[tuple[object, ...]]:
    try:
        with closing(_opened(path)) as connection:
            return list(connection.execute(query))
    except sqlite3.Error:
        return []


def glance(path: Path, fingerprints: Iterable[str]) -> dict[str, KeptCatalog]:
    """Return the result of `Catalogs.fitting`, or nothing if the file has none. Reads the disk: call it in a thread."""
    found = {}
    try:
        with closing(_opened(path)) as connection:
            connection.execute("BEGIN")
            for fingerprint in fingerprints:
                rows = connection.execute(_KEPT, (fingerprint,)).fetchall()
                if rows:
                    tools = tuple(Definition(*row[1:]) for row in rows if row[1] is not None)
                    # What is no time is one long ago.
                    connected = rows[0][0] if isinstance(rows[0][0], float) else 0.0
                    found[fingerprint] = KeptCatalog(connected, tools, _items(connection, fingerprint))
    except sqlite3.Error:
        return {}
    return found


def _items(connection: sqlite3.Connection, fingerprint: str) -> dict[str, str]:
    """Return the lists besides the tools; a table of them that cannot be read costs them alone."""
    try:
        return dict(connection.execute(_KEPT_ITEMS, (fingerprint,)).fetchall())
    except sqlite3.Error:
        return {}


QuickPins = tuple[list[PinRow], dict[str, frozenset[str]], dict[str, str]]


def pin_rows(path: Path, entries: Mapping[str, str], server: str | None = None) -> QuickPins | None:
    """Return the results of `Pins.all`, `Pins.baselines` and `Pins.faults`: of one server with definitions, or of all
    without.

    entries: the key of each server's entry. An entry without rows has the rows of its name alone, as if they were
    claimed.

    None: only opening the file can tell. A missing file or table has no pins. Reads the disk: call it in a thread.
    """
    if not path.exists():
        return [], {}, {}
    rows: list[PinRow] = []
    taken: dict[str, set[str]] = {}
    faults: dict[str, str] = {}
    try:
        with closing(_opened(path)) as connection:
            connection.execute("BEGIN")
            if connection.execute(_HAS_PINS).fetchone() is None:
                return [], {}, {}
            query, given = (_PINS, ()) if server is None else (_PINS_OF, (server,))
            found_rows = connection.execute(query, given).fetchall()
            own = {row[0] for row in found_rows if row[14] and row[14] == entries.get(row[0])}
            for row in found_rows:
                if row[0] not in entries or row[14] != (entries[row[0]] if row[0] in own else ""):
                    continue
                (server, kind, name, *values, classes, renamed_from, flags, held), texts = row[:14], row[15:]
                if kind == BASELINE:
                    taken.setdefault(server, set()).add(name)
                    continue
                if kind == PIN_FAULT:
                    faults[server] = name
                    continue
                if kind == PIN_VERSION:
                    continue
                named = (tuple(names.split(",")) if names else () for names in (classes, flags))
                found: Any = (server, kind, name, *values, next(named), renamed_from, next(named), bool(held), *texts)
                rows.append(PinRow(*found))
    except sqlite3.Error:
        return None
    rows.sort(key=lambda row: (row.server, row.kind, row.name))
    return rows, {server: frozenset(kinds) for server, kinds in taken.items()}, faults


def _opened(path: Path) -> sqlite3.Connection:
    name = f"file:{quote(str(path))}?mode=ro"
    connection = sqlite3.connect(name, uri=True, timeout=_PATIENCE, isolation_level=None)
    # A damaged text costs its own row, not the others.
    connection.text_factory = partial(bytes.decode, errors="replace")
    return connection
