"""The database, looked at without a change: SQLite files are opened for reading alone.

Rule: the functions that are not asynchronous wait for the disk: call them in a thread.
"""

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from aggregator.doctor.checks.storage import DatabaseFault, StorageFacts
from aggregator.doctor.gather.owners import other_owner
from aggregator.doctor.gather.stored import Rows, StoredRows, stored_calls, stored_rows
from aggregator.domain.text.error_text import error_text
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.engine.files import set_aside_before, unwritable
from aggregator.storage.engine.stamp import refuse_unusable
from aggregator.storage.errors import DriverMissing, StorageError, StorageReadOnly, StorageRefused
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.tables import FIRST_REVISION, REVISION
from aggregator.system.file_rights import rights_of_others

_PATIENCE: Final = 2.0
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
_NO_ENTRIES: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class StorageRead:
    """The facts about the database, and its rows; `has_rows` unless it cannot be used, or has other tables."""

    facts: StorageFacts
    rows: StoredRows = field(default_factory=StoredRows)

    @property
    def has_rows(self) -> bool:
        """Return whether the database has the tables of this version."""
        return self.facts.fault is None and self.facts.stamp == REVISION


async def read_storage(url: str, entries: Mapping[str, str] = _NO_ENTRIES) -> StorageRead:
    """Return the rows of the database at a URL, and its problems; nothing is changed there.

    entries: the key of each configured server's entry, by the server's id.
    """
    try:
        path = sqlite_path(full_url(url))
    except StorageError as error:
        return StorageRead(StorageFacts(None, fault="url", said=str(error)))
    return await (asyncio.to_thread(_read_file, path, entries) if path is not None else _read_server(url, entries))


async def count_calls(url: str, now: float) -> dict[str, int]:
    """Return the calls of the last 30 days by server, of a database that `read_storage` could read; nothing if the
    audit is younger, or cannot be read.
    """
    path = sqlite_path(full_url(url))
    try:
        if path is not None:
            return await asyncio.to_thread(_count_in_file, path, now)
        async with _at_server(url) as connection:
            return await connection.run_sync(lambda reading: stored_calls(_rows_of(reading), now))
    except (sqlite3.Error, StorageError, DBAPIError):
        return {}


def _read_file(path: Path, entries: Mapping[str, str]) -> StorageRead:
    there = next((one for one in (path.parent, *path.parents) if os.path.exists(one)), path.parent)
    free, mode = _free(there), _mode(path)
    common: dict[str, Any] = {"free": free, "mode": mode, "newest": REVISION, "owner": other_owner(path, path.parent)}
    common["others"] = rights_of_others(path)
    fault = _file_fault(path, there)
    if fault is not None:
        return StorageRead(StorageFacts(path, os.path.exists(path), *fault, **common))
    if not path.exists():
        return StorageRead(StorageFacts(path, **common))
    return _opened(path, common, entries)


async def _read_server(url: str, entries: Mapping[str, str]) -> StorageRead:
    try:
        async with _at_server(url) as connection:
            made, may_make = tuple[Any, ...]((await connection.exec_driver_sql(_SERVER)).one())
            stamp = (await connection.exec_driver_sql(_STAMP)).scalar() if made else None
            if fault_of_stamp := _stamp_fault(stamp):
                return StorageRead(StorageFacts(None, fault=fault_of_stamp, stamp=str(stamp), newest=REVISION))
            facts = StorageFacts(None, stamp=stamp, newest=REVISION)
            if stamp == REVISION:
                rows = await connection.run_sync(lambda reading: stored_rows(_rows_of(reading), entries))
                return StorageRead(facts, rows)
            return StorageRead(facts if may_make else StorageFacts(None, fault="read_only", said=_NO_TABLES))
    except StorageError as error:
        named = (name for kind, name in _FAULTS.items() if isinstance(error, kind))
        return StorageRead(StorageFacts(None, fault=next(named, "unreachable"), said=str(error)))
    except DBAPIError as error:
        # In the words of the driver: SQLAlchemy puts its own around them.
        said = error_text((error.orig and error.orig.__cause__) or error).splitlines()[0]
        return StorageRead(StorageFacts(None, fault="damaged", said=f"{said}."))


@asynccontextmanager
async def _at_server(url: str) -> AsyncIterator[AsyncConnection]:
    """Give a consistent view of a database server.

    Raises:
        StorageError: it cannot be used, or fails.
    """
    engine = Engine(full_url(url), None)
    try:
        async with engine.read() as connection:
            yield connection
    finally:
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
    if not os.path.exists(path) and there != path.parent and not os.access(there, os.W_OK):
        return "folder", f"{there} cannot be written."
    if os.path.isdir(path):
        return "damaged", "it is a folder."
    if not os.access(there, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        return "read_only", ""
    if sys.platform != "win32" and os.statvfs(there).f_flag & os.ST_RDONLY:
        return "read_only", ""
    return None


def _opened(path: Path, common: Mapping[str, Any], entries: Mapping[str, str]) -> StorageRead:
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
            return StorageRead(facts, stored_rows(_rows_in(connection), entries))
    except sqlite3.Error as error:
        said = error_text(error)
        fault: DatabaseFault = "locked" if "locked" in said or "busy" in said else "damaged"
        return StorageRead(StorageFacts(path, True, fault, f"{said}.", aside=aside, **common))


def _count_in_file(path: Path, now: float) -> dict[str, int]:
    with closing(_connected(path)) as connection:
        return stored_calls(_rows_in(connection), now)


def _rows_in(connection: sqlite3.Connection) -> Rows:
    return connection.execute


def _rows_of(connection: Connection) -> Rows:
    return lambda query, values: connection.execute(text(query), values)


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
