"""SQLite: how connections are set up, and what its error codes mean to an operator.

Rule: SQL that only SQLite understands stands in this file and in no other.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, ColumnElement, Connection, Integer, QueuePool, cast, create_engine, event
from sqlalchemy import Engine as SyncEngine
from sqlalchemy.exc import DBAPIError

from aggregator.storage.engine.async_engine import AsyncConnection, AsyncEngine, ClosingPool, create_async_engine
from aggregator.storage.engine.files import lost, unwritable
from aggregator.storage.errors import StorageBusy, StorageDamaged, StorageError, StorageFull, StorageReadOnly

# In its verbose mode its messages would hold values from the rows.
logging.getLogger("aiosqlite").setLevel(logging.INFO)

# The execution option that says how a transaction begins. One that means to write says so at once: of two readers
# that both turn writers SQLite would refuse one without waiting.
BEGIN: Final = "aggregator_begin"
WRITING: Final = {BEGIN: "BEGIN IMMEDIATE"}
_NONE: Final = {BEGIN: ""}
BUSY_SECONDS: Final = 10.0
# Of SQLite's virtual machine, after which it asks whether to stop.
_STEPS: Final = 10_000


class _Connection(sqlite3.Connection):
    """A statement that a cancellation left unfinished keeps a closed connection and its lock: so it is rolled back."""

    def close(self) -> None:
        if self.in_transaction:
            self.rollback()
        super().close()


def sqlite_engine(path: Path) -> AsyncEngine:
    """Return an engine on the file, which must be there, whose transactions are ours to begin."""
    engine = create_async_engine(
        _url("sqlite+aiosqlite", path),
        hide_parameters=True,
        poolclass=ClosingPool,
        pool_size=3,
        max_overflow=2,
        pool_timeout=BUSY_SECONDS,
        connect_args={"timeout": BUSY_SECONDS, "isolation_level": None, "factory": _Connection},
    )
    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def sqlite_engine_of_a_thread(path: Path, options: Mapping[str, str]) -> SyncEngine:
    """An engine on the same file for transactions that run on one thread from beginning to end, one after another.

    `options` says how they begin.
    """
    engine = create_engine(
        _url("sqlite", path),
        hide_parameters=True,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=BUSY_SECONDS,
        connect_args={
            "timeout": BUSY_SECONDS / 2,
            "isolation_level": None,
            "factory": _Connection,
            "check_same_thread": False,
        },
        execution_options=options,
    )
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _url(driver: str, path: Path) -> URL:
    # `rw`: SQLite itself would make a new file in place of a lost one, readable by all.
    return URL.create(driver, database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"})


def _set_up(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    try:
        for pragma in ("foreign_keys = ON", "trusted_schema = OFF", "cell_size_check = ON", "synchronous = FULL"):
            cursor.execute(f"PRAGMA {pragma}")
    except BaseException:
        # SQLAlchemy forgets a connection whose set-up failed, without closing it.
        connection.close()
        raise
    cursor.close()


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options().get(BEGIN, "BEGIN")
    if statement:
        connection.exec_driver_sql(statement)


def only_look(engine: AsyncEngine) -> None:
    """Make its connections read-only, and make them read damaged texts too, with invalid UTF-8 as surrogates."""
    event.listen(engine.sync_engine, "connect", _only_look)


def _only_look(connection: Any, _record: object) -> None:
    connection.driver_connection.text_factory = partial(bytes.decode, errors="surrogateescape")
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.close()


async def use_write_ahead_log(engine: AsyncEngine, path: Path) -> None:
    """Readers and the writer do not wait for each other from here on; the file keeps the setting.

    Raises:
        StorageReadOnly: the file cannot be written.
    """
    async with _outside_transactions(engine) as connection:
        mode = (await connection.exec_driver_sql("PRAGMA journal_mode = WAL")).scalar_one()
        if mode != "wal":
            raise StorageReadOnly(unwritable(path))
        await connection.exec_driver_sql("BEGIN IMMEDIATE")
        # SQLite only asks the file when something is written.
        version = (await connection.exec_driver_sql("PRAGMA user_version")).scalar_one()
        await connection.exec_driver_sql(f"PRAGMA user_version = {int(version)}")
        await connection.exec_driver_sql("ROLLBACK")


def others_use(path: Path) -> bool | None:
    """Tell whether another connection of any process has the file open; None if it is no sound database.

    If none has, everything is in the file afterwards, without companion files. Call it in a thread.

    An error of SQLite says that the file cannot be written.
    """
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0.0)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            name = getattr(error, "sqlite_errorname", "") or ""
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                return True
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                return None
            raise
    return False


async def check(engine: AsyncEngine, tables: Iterable[str]) -> None:
    """Read these tables whole.

    Raises:
        StorageDamaged: something in them, or in the schema, is broken.
    """
    async with _outside_transactions(engine) as connection:
        await connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        there = {row[0] for row in await connection.exec_driver_sql("SELECT name FROM sqlite_master")}
        for table in sorted(there & set(tables)):
            result = (await connection.exec_driver_sql(f"PRAGMA quick_check({table})")).scalars().all()
            if result != ["ok"]:
                raise StorageDamaged(f"Its table {table} is damaged.")


def damaged_table(path: Path, tables: Iterable[str], stop: Callable[[], bool]) -> str | None:
    """The first of these tables that is damaged. It reads all of them, seconds per gigabyte, until `stop` says so: call
    it in a thread.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as connection:
            connection.set_progress_handler(stop, _STEPS)
            for table in tables:
                try:
                    found = connection.execute(f"PRAGMA quick_check({table})").fetchall()
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorname.startswith("SQLITE_CORRUPT"):
                        return table
                    raise
                if found != [("ok",)]:
                    return table
    except sqlite3.Error:
        return None  # locked, gone or stopped: that is reported elsewhere
    return None


def glob(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    """Return whether a column matches a pattern in which `*` and `?` stand for anything, case and all."""
    return column.op("GLOB", is_comparison=True)(pattern.replace("[", "[[]"))


def whole(column: ColumnElement[float]) -> ColumnElement[int]:
    """Return a positive number without its fraction."""
    return cast(column, Integer)


def _outside_transactions(engine: AsyncEngine) -> AsyncConnection:
    return engine.execution_options(**_NONE).connect()


_FAULTS: Final[tuple[tuple[tuple[str, ...], type[StorageError], Callable[[Path], str]], ...]] = (
    (("SQLITE_CORRUPT", "SQLITE_NOTADB"), StorageDamaged, "The database {} is damaged.".format),
    (("SQLITE_FULL",), StorageFull, "There is no room left for the database {}: nothing was written.".format),
    (("SQLITE_BUSY", "SQLITE_LOCKED"), StorageBusy, "The database {} was kept locked by another process.".format),
    (("SQLITE_READONLY", "SQLITE_PERM"), StorageReadOnly, unwritable),
    (("SQLITE_CANTOPEN",), StorageError, lost),
    (("SQLITE_IOERR",), StorageError, "The disk under the database {} reports errors.".format),
)


def translated(error: DBAPIError, path: Path) -> StorageError | None:
    """Return the error for the operator; None if it is no fault of the file."""
    cause: BaseException | None = error.orig
    while cause is not None and not isinstance(cause, sqlite3.Error):
        cause = cause.__cause__
    name = getattr(cause, "sqlite_errorname", "") or ""
    for codes, kind, message in _FAULTS:
        if name.startswith(codes):
            return kind(message(path))
    return None
