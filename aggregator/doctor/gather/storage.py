"""The database, looked at without a change: SQLite files are opened for reading alone.

Rule: these functions wait for the disk: call them in a thread.
"""

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aggregator.doctor.checks.storage import DatabaseFault, StorageFacts
from aggregator.domain.text.error_text import error_text
from aggregator.storage.engine.engine import Engine
from aggregator.storage.engine.files import set_aside_before, unwritable
from aggregator.storage.engine.stamp import refuse_unusable
from aggregator.storage.errors import DriverMissing, StorageError, StorageReadOnly, StorageRefused
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.records import ADDED_LATER, ASKS
from aggregator.storage.tables import FIRST_REVISION, REVISION
from aggregator.tool_reports.doctor import ReportCounts

_PATIENCE: Final = 2.0
_MONTH: Final = 30 * 86_400.0
_KEYS: Final = "SELECT key_id, agent_id, expires, revoked, last_used FROM api_keys ORDER BY created"
_STAMP: Final = "SELECT version_num FROM alembic_version"
_SERVER: Final = (
    "SELECT to_regclass('alembic_version') IS NOT NULL, "
    "coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)"
)
_NO_TABLES: Final = "The user of `storage` may not make tables in the database: let it own the database."
_FAULTS: Final[Mapping[type[StorageError], DatabaseFault]] = {
    StorageRefused: "refused",
    DriverMissing: "driver",
    StorageReadOnly: "read_only",
}
_HEAD: Final = "SELECT key_id FROM audit_heads WHERE chain = 0"
_HELD: Final = (
    "SELECT server, kind, name, entry, classes FROM pinned_items WHERE held = 1 ORDER BY server, kind, name LIMIT 1000"
)
# Of the last entry of each server in a configuration.
_ASKING: Final = (
    "SELECT s.id FROM (SELECT id, fingerprint, max(connected) FROM mcp_servers GROUP BY id) AS s "
    "JOIN mcp_item_lists AS i ON i.server = s.id AND i.fingerprint = s.fingerprint WHERE i.kind = ? LIMIT 1000"
)
_REPORTS: Final = "SELECT server, count(DISTINCT tool), sum(times) FROM tool_reports GROUP BY server ORDER BY server"
_NO_ENTRIES: Final[Mapping[str, str]] = {}
_OLDEST: Final = "SELECT min(started) FROM mcp_tool_call_log"
_CALLS: Final = "SELECT server_id, count(*) FROM mcp_tool_call_log WHERE started > ? GROUP BY server_id"


@dataclass(frozen=True, slots=True)
class StorageRead:
    """The content of the database: the facts, the keys without their hashes, and the calls of the last 30 days by
    server, which are empty unless the audit is older than that. `chained` names the key that the audit
    log was begun with. `held` are the names of held definitions by server; servers of
    `grows` added some while they were connected. `asking` are the servers that have asked hosts during calls,
    `reports` the tools that agents reported, by server.
    """

    facts: StorageFacts
    keys: tuple[Mapping[str, object], ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)
    chained: str | None = None
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    grows: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    reports: Mapping[str, ReportCounts] = field(default_factory=dict)

    @classmethod
    def nothing(cls) -> "StorageRead":
        """Return the result without a database."""
        return cls(StorageFacts(None))


def read_storage(url: str, now: float, entries: Mapping[str, str] = _NO_ENTRIES) -> StorageRead:
    """Return the content of the database at a URL and its problems; a database server is not asked here."""
    try:
        path = sqlite_path(full_url(url))
    except StorageError as error:
        return StorageRead(StorageFacts(None, fault="url", said=str(error)))
    if path is None:
        return StorageRead(StorageFacts(None, newest=REVISION))
    there = next((one for one in (path.parent, *path.parents) if one.exists()), path.parent)
    free, mode = _free(there), _mode(path)
    common: dict[str, Any] = {"free": free, "mode": mode, "newest": REVISION}
    fault = _file_fault(path, there)
    if fault is not None:
        return StorageRead(StorageFacts(path, path.exists(), *fault, **common))
    if not path.exists():
        return StorageRead(StorageFacts(path, **common))
    return _opened(path, common, now, entries)


async def ask_server(url: str) -> StorageFacts:
    """Return the problems of a database server; nothing is changed there."""
    engine = None
    try:
        engine = Engine(full_url(url), None)
        async with engine.read() as connection:
            made, may_make = tuple[Any, ...]((await connection.exec_driver_sql(_SERVER)).one())
            stamp = (await connection.exec_driver_sql(_STAMP)).scalar() if made else None
        if fault_of_stamp := _stamp_fault(stamp):
            return StorageFacts(None, fault=fault_of_stamp, stamp=str(stamp), newest=REVISION)
        if stamp != REVISION and not may_make:
            return StorageFacts(None, fault="read_only", said=_NO_TABLES)
        return StorageFacts(None, stamp=stamp, newest=REVISION)
    except StorageError as error:
        named = (name for kind, name in _FAULTS.items() if isinstance(error, kind))
        fault: DatabaseFault = next(named, "unreachable")
        return StorageFacts(None, fault=fault, said=str(error))
    finally:
        if engine is not None:
            await engine.close()


async def storage_fault(url: str) -> str | None:
    """Return why the database cannot be used, as far as that shows without changing it; None if nothing is wrong."""
    try:
        path = sqlite_path(full_url(url))
        await Engine(full_url(url), path).close()
        if path is not None and (stamp := await asyncio.to_thread(_stamp_of, path)) is not None:
            refuse_unusable(stamp, path)
    except StorageError as error:
        return str(error)
    if path is None:
        return None
    there = next(one for one in (path.parent, *path.parents) if one.exists())
    writable = there.is_dir() and os.access(there, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    return None if writable else unwritable(path)


def _file_fault(path: Path, there: Path) -> tuple[DatabaseFault, str] | None:
    if not there.is_dir():
        return "folder", f"{there} is no folder."
    if not path.exists() and there != path.parent and not os.access(there, os.W_OK):
        return "folder", f"{there} cannot be written."
    if path.is_dir():
        return "damaged", "it is a folder."
    if not os.access(there, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        return "read_only", ""
    if sys.platform != "win32" and os.statvfs(there).f_flag & os.ST_RDONLY:
        return "read_only", ""
    return None


def _opened(path: Path, common: Mapping[str, Any], now: float, entries: Mapping[str, str]) -> StorageRead:
    try:
        aside = set_aside_before(path)
    except OSError:
        aside = ()
    if not path.stat().st_size:
        return StorageRead(StorageFacts(path, True, aside=aside, **common))
    try:
        with closing(_connected(path)) as connection:
            connection.execute("BEGIN")
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            stamp = _one(connection, _STAMP) if "alembic_version" in tables else None
            facts = StorageFacts(path, True, stamp=stamp, aside=aside, **common)
            if fault_of_stamp := _stamp_fault(stamp):
                return StorageRead(StorageFacts(path, True, fault_of_stamp, stamp=str(stamp), aside=aside, **common))
            if stamp != REVISION:
                return StorageRead(facts)
            read = _keys(connection), _calls(connection, now), _one(connection, _HEAD), *_held(connection, entries)
            asking = frozenset(id for (id,) in connection.execute(_ASKING, (ASKS,)))
            reports = {server: ReportCounts(*counts) for server, *counts in connection.execute(_REPORTS)}
            return StorageRead(facts, *read, asking, reports)
    except sqlite3.Error as error:
        said = error_text(error)
        fault: DatabaseFault = "locked" if "locked" in said or "busy" in said else "damaged"
        return StorageRead(StorageFacts(path, True, fault, f"{said}.", aside=aside, **common))


def _stamp_of(path: Path) -> str | None:
    """Return the stamp of a file; None if it has none, or cannot be read, which shows elsewhere."""
    try:
        with closing(_connected(path)) as connection:
            stamp = _one(connection, _STAMP)
    except sqlite3.Error:
        return None
    return str(stamp) if stamp is not None else None


def _connected(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)


def _stamp_fault(stamp: object) -> DatabaseFault | None:
    """Return why this version cannot use tables with this stamp; None if it can, or if there are none."""
    if stamp is None:
        return None
    return "too_new" if str(stamp) > REVISION else "too_old" if str(stamp) < FIRST_REVISION else None


def _keys(connection: sqlite3.Connection) -> tuple[Mapping[str, object], ...]:
    names = ("key_id", "agent_id", "expires", "revoked", "last_used")
    return tuple(dict(zip(names, row, strict=True)) for row in connection.execute(_KEYS))


def _held(
    connection: sqlite3.Connection, entries: Mapping[str, str]
) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """Return the names of held definitions by server, and the servers that added some while they were connected."""
    found: dict[str, tuple[str, ...]] = {}
    grows: set[str] = set()
    for server, kind, name, entry, classes in connection.execute(_HELD):
        # Rows of other configurations are not this one's to approve; those without an entry go to it.
        if not entry or entries.get(server, entry) == entry:
            found[server] = (*found.get(server, ()), name or kind)
            if ADDED_LATER in str(classes or "").split(","):
                grows.add(server)
    return found, frozenset(grows)


def _calls(connection: sqlite3.Connection, now: float) -> dict[str, int]:
    """Return the calls of the last 30 days by server; nothing if the audit is younger than that."""
    oldest = _one(connection, _OLDEST)
    if oldest is None or now - float(oldest) < _MONTH:
        return {}
    found = {str(server): int(count) for server, count in connection.execute(_CALLS, (now - _MONTH,))}
    return found or {"": 0}


def _one(connection: sqlite3.Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row is not None else None


def _mode(path: Path) -> int | None:
    if os.name != "posix":
        return None
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return None


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
