"""The database that a backup is restored into: filled in one transaction, proven, and only then there.

Law: until every row is in it and the audit log is proven, nothing that was there before is touched.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from aggregator.domain.text.error_text import error_text
from aggregator.storage.audit.chain import ChainKey
from aggregator.storage.audit.read import AuditReader
from aggregator.storage.audit.verify import Verdict, verify
from aggregator.storage.backup.contents import kept_tables, revision_of, tables_with_rows
from aggregator.storage.backup.errors import BackupError, TargetInUse, TargetNotEmpty
from aggregator.storage.engine import postgres_tables, sqlite
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.create import create_tables
from aggregator.storage.engine.engine import Engine
from aggregator.storage.engine.files import make_file, put_in_place, unmake
from aggregator.storage.engine.lockfile import locked
from aggregator.storage.engine.migrate import is_known, upgrade_within
from aggregator.storage.engine.stamp import STAMP, refuse_newer, refuse_older
from aggregator.storage.errors import StorageDamaged, StorageError, StorageReadOnly
from aggregator.storage.locate import SQLITE, full_url, sqlite_path
from aggregator.storage.tables import REVISION, metadata

# Seconds that another opening, restore or copy is waited for.
_PATIENCE: Final = 5.0
# Seconds for which a replica that was seen counts as running: longer than the pause between its heartbeats.
SEEN_FOR: Final = 15.0
_ENDING: Final = ".restoring"
_STOP: Final = "Stop every `aggregator serve` and `aggregator stdio` that uses it, then try again."
_REPLACE: Final = "Nothing was changed. Name an empty one; `restore --replace` moves what is there aside."


class FilledDatabase:
    """A database to fill. `tables` are the tables that accept rows, by name.

    `replaced` is the new place of the former rows: a file, or a schema of the database.
    """

    def __init__(self, connection: AsyncConnection, engine: Engine, tables: Sequence[Table]) -> None:
        self.tables = {table.name: table for table in tables}
        self.replaced: str | None = None
        self.store = connection.dialect.name
        self._connection = connection
        self._engine = engine

    def __repr__(self) -> str:
        return f"<FilledDatabase {self._engine.path or self.store}>"

    async def begin(self, table: Table) -> None:
        """Remove the rows that every new table has, before its own are added."""
        await self._connection.execute(delete(table))

    async def add(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows.

        Raises:
            BackupError: the database does not take one of them.
        """
        try:
            await self._connection.execute(insert(table), rows)
        except DBAPIError as error:
            if self._engine.fault(error) is not None:
                raise
            raise BackupError(
                f"The database does not take a row of the table {table.name} ({type(error.orig).__name__}): "
                "the backup does not fit the tables of its own version. Use another backup."
            ) from error

    async def finish(self) -> None:
        """Bring the tables up to date, once every row is in them."""
        await self._connection.run_sync(_updated)

    async def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return {
            name: await self._connection.scalar(select(func.count()).select_from(table)) or 0
            for name, table in self.tables.items()
        }

    async def proof(self, key: ChainKey | None) -> Verdict:
        """Return the verdict on the audit log.

        Raises:
            StorageError: the log has a key that is not `key`.
        """
        return await verify(_FilledLog(self._engine, self._connection), key=key)


class _FilledLog(AuditReader):
    """The audit log in a transaction that has not ended."""

    def __init__(self, engine: Engine, connection: AsyncConnection) -> None:
        super().__init__(engine)
        self._connection = connection

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[AsyncConnection]:
        yield self._connection


@asynccontextmanager
async def open_target(url: str, schema: str, *, replace: bool) -> AsyncIterator[FilledDatabase]:
    """Give an empty database behind `url` to fill, with the tables of revision `schema`.

    At the end of `async with` it exists completely, or not at all. With `replace`, existing rows are moved aside.

    Raises:
        TargetNotEmpty, TargetInUse: there are rows without `replace`; or processes use it.
        StorageError, BackupError: it cannot be created.
    """
    if not is_known(schema):
        refuse_newer(schema, "The backup")
        refuse_older(schema, "The backup", "Restore it with the version that made it; its rows cannot be taken over.")
        raise BackupError(f"This version of aggregator knows no schema {schema}, which the backup has.")
    url = full_url(url)
    path = sqlite_path(url)
    if path is None:
        async with _filled_server(url, schema, replace) as target:
            yield target
        return
    async with _filled_file(path, schema, replace) as target:
        yield target


@asynccontextmanager
async def _filled_file(path: Path, schema: str, replace: bool) -> AsyncIterator[FilledDatabase]:
    new = Path(f"{path}{_ENDING}")
    is_new = not await asyncio.to_thread(path.exists)
    await asyncio.to_thread(make_file, path)
    try:
        async with locked(Path(f"{path}.lock"), _PATIENCE):
            has_rows = await _look_into(path, replace)
            await asyncio.to_thread(unmake, new)
            await asyncio.to_thread(make_file, new)
            try:
                engine = Engine(f"{SQLITE}{new}", new)
                try:
                    async with engine.write() as connection:
                        tables = await connection.run_sync(_made, schema)
                        target = FilledDatabase(connection, engine, tables)
                        yield target
                finally:
                    await engine.close()
                aside = await asyncio.to_thread(_put_in_place, new, path, has_rows)
                target.replaced = None if aside is None else str(aside)
            finally:
                await asyncio.to_thread(unmake, new)
    except BaseException:
        if is_new:
            # What holds nothing must not look as if keys might be in it.
            await asyncio.to_thread(_unmake_empty, path)
        raise


def _unmake_empty(path: Path) -> None:
    if path.exists() and not path.stat().st_size:
        unmake(path)


def _put_in_place(new: Path, path: Path, keep: bool) -> Path | None:
    try:
        return put_in_place(new, path, keep=keep)
    except OSError as error:
        raise StorageError(f"The database {path} cannot be put in its place: {error.strerror}.") from error


async def _look_into(path: Path, replace: bool) -> bool:
    """Return whether there is something in the file that has to stay beside the new one."""
    if not await asyncio.to_thread(lambda: path.stat().st_size):
        return False
    await refuse_in_use(path)
    try:
        engine = Engine(f"{SQLITE}{path}", path)
        try:
            async with engine.read() as connection:
                rows = await connection.run_sync(_rows_in)
        finally:
            await engine.close()
    except StorageDamaged:
        rows = "it is no sound database, and rows may be in it"
    if rows is not None and not replace:
        raise TargetNotEmpty(f"The database {path} is not empty: {rows}. {_REPLACE}")
    return rows is not None


async def refuse_in_use(path: Path) -> None:
    """Refuse a file that any process has open.

    Raises:
        TargetInUse: one has.
        StorageError: the file cannot be used.
    """
    try:
        used = await asyncio.to_thread(sqlite.others_use, path)
    except sqlite3.Error as error:
        raise StorageReadOnly(f"The database {path} cannot be written: {error_text(error)}.") from error
    if used:
        raise TargetInUse(f"Another process has the database {path} open. {_STOP}")


@asynccontextmanager
async def _filled_server(url: str, schema: str, replace: bool) -> AsyncIterator[FilledDatabase]:
    engine = Engine(url, None)
    try:
        async with engine.write() as connection:
            replaced = await connection.run_sync(_cleared, replace)
            tables = await connection.run_sync(_made, schema)
            target = FilledDatabase(connection, engine, tables)
            target.replaced = replaced
            yield target
    except DBAPIError as error:
        fault = engine.fault(error)
        raise fault or BackupError(f"The database cannot be filled: {type(error.orig).__name__}.") from error
    finally:
        await engine.close()


def _cleared(connection: Connection, replace: bool) -> str | None:
    """Take the tables of ours out of the way; return the schema in which they are now, if they had rows."""
    there = set(inspect(connection).get_table_names())
    ours = [name for name in (*metadata.tables, STAMP.name) if name in there]
    if not ours:
        return None
    if serving := postgres_tables.count_serving(connection, there, SEEN_FOR):
        raise TargetInUse(f"{serving} replicas serve from this database. {_STOP}")
    refuse_newer(revision_of(connection) or "", "The database")
    postgres_tables.lock_tables(connection, ours)
    rows = _rows_in(connection)
    if rows is not None and not replace:
        raise TargetNotEmpty(f"The database is not empty: {rows}. {_REPLACE}")
    if rows is None:
        metadata.drop_all(connection)
        STAMP.drop(connection, checkfirst=True)
        return None
    schema = time.strftime("aggregator_replaced_%Y%m%dt%H%M%Sz", time.gmtime())
    postgres_tables.move_aside(connection, ours, schema)
    return schema


def _rows_in(connection: Connection) -> str | None:
    """Return the names of tables with rows, for display, or None."""
    found = tables_with_rows(connection)
    return None if not found else f"it has rows in {', '.join(found[:3])}{' and others' if len(found) > 3 else ''}"


def _made(connection: Connection, schema: str) -> list[Table]:
    if schema == REVISION:
        create_tables(connection)
    else:
        upgrade_within(connection, schema)
    return kept_tables(connection)


def _updated(connection: Connection) -> None:
    if revision_of(connection) != REVISION:
        upgrade_within(connection, REVISION)
    if connection.dialect.name == "postgresql":
        postgres_tables.count_on(connection, inspect(connection).get_table_names())


async def refuse_serving(url: str) -> None:
    """Refuse a database that processes use: their later writes would be lost.

    Raises:
        TargetInUse: some do.
        StorageError: it cannot be used.
    """
    url = full_url(url)
    path = sqlite_path(url)
    if path is not None:
        if await asyncio.to_thread(path.exists):
            await refuse_in_use(path)
        return
    engine = Engine(url, None)
    try:
        async with engine.read() as connection:
            found = await connection.run_sync(
                lambda sync: postgres_tables.count_serving(sync, inspect(sync).get_table_names(), SEEN_FOR)
            )
    finally:
        await engine.close()
    if found:
        raise TargetInUse(f"{found} replicas serve from this database. {_STOP}")
