"""Transactions on the one database, of either kind. Writers of this process queue here, so that none polls a lock."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Table, func, insert, select
from sqlalchemy import Engine as SyncEngine
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from aggregator import DISTRIBUTION
from aggregator.domain.shell import shell_word
from aggregator.storage.engine import postgres, sqlite
from aggregator.storage.engine.async_engine import AsyncConnection, AsyncEngine
from aggregator.storage.engine.files import identity, lost
from aggregator.storage.engine.postgres_connections import postgres_engine
from aggregator.storage.engine.postgres_url import PostgresUrl, postgres_url
from aggregator.storage.errors import DriverMissing, StorageBusy, StorageError
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.tables import changes

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

T = TypeVar("T")
# What `version` returns: equal as long as the subject was not changed. The first half is the file's own identity.
Version = tuple[int, int]

# Makes a deleted file anew, or prepares the one that took its place.
RemakeFile = Callable[[], Coroutine[Any, Any, None]]
# Called when the file of the database is another one.
OnFileReplaced = Callable[[], None]
# Called when a change was written and committed.
OnChangesWritten = Callable[[], None]


class Engine:
    """The transactions of one database; `path` is the file, or None when the database is not a file.

    Without `remake`, a file that was deleted stays so. Unless `bounded`, a statement on a server may take any time.
    """

    def __init__(self, url: str, path: Path | None, remake: RemakeFile | None = None, *, bounded: bool = True) -> None:
        self.path = path
        self.server = postgres_url(url) if path is None else None
        self._engine = _made(self.server, path, bounded=bounded)
        self._writing = self._engine.execution_options(**sqlite.WRITING)
        # Threads of their own: reading waits for no writer, and neither for other work in threads.
        self._writer = _Thread("database", path, sqlite.WRITING)
        self._reader = _Thread("database reads", path, {})
        self._turn = asyncio.Lock()
        self._renewing = asyncio.Lock()
        self._file = identity(path) if path else 0
        self._remake = remake
        self._on_file_replaced: list[OnFileReplaced] = []
        self._on_changes: list[OnChangesWritten] = []
        # The replica of this process, if it is one: its rows in `changes` name it.
        self.origin: str | None = None

    def __repr__(self) -> str:
        return f"<Engine on {self.path or self._engine.dialect.name}>"

    def insert(self, table: Table) -> "sqlite_dialect.Insert | postgresql.Insert":
        """Return an INSERT that can name the action for an existing row (ON CONFLICT)."""
        if self.path is not None:
            return sqlite_dialect.insert(table)
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)

    @property
    def database(self) -> str:
        """The name of the database on its server, empty for a file."""
        return self.server.database if self.server is not None else ""

    @property
    def raw(self) -> AsyncEngine:
        """The engine below, for opening and migrating."""
        return self._engine

    def on_file_replaced(self, listener: OnFileReplaced) -> None:
        """Call `listener` each time the file is another one from now on; a second time changes nothing."""
        if listener not in self._on_file_replaced:
            self._on_file_replaced.append(listener)

    def on_changes_written(self, listener: OnChangesWritten) -> None:
        """Call `listener` each time this process has written a change that others watch."""
        self._on_changes.append(listener)

    async def close(self) -> None:
        """End every connection."""
        await self._dispose()
        self._writer.close()
        self._reader.close()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Give a consistent view, which waits for no writer.

        Raises:
            StorageError: the database cannot do it.
        """
        async with self._faults(), self._engine.begin() as connection:
            yield connection

    async def read_in_thread(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, a few short reads, on a consistent view: a quarter of what `read` costs, and one after another.

        Raises:
            StorageError: the database cannot do it.
        """
        async with self._faults():
            if self.path is None:
                async with self._engine.begin() as connection:
                    return await connection.run_sync(work)
            return await self._reader.run(work)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Give the state of the database at the first read, however long the reading takes and however much is written.

        Raises:
            StorageError: the database cannot be read.
        """
        options = {} if self.path is not None else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        async with self._faults(), self._engine.execution_options(**options).begin() as connection:
            yield connection

    @asynccontextmanager
    async def write(self, *subjects: str, body: Mapping[str, Any] | None = None) -> AsyncIterator[AsyncConnection]:
        """Give one transaction that writes, whole or not at all; processes that watch one of `subjects` notice, and are
        told `body`.

        Raises:
            StorageError: the database cannot do it; nothing was written.
        """
        async with self._in_turn(), self._faults(), self._writing.begin() as connection:
            yield connection
            for subject in subjects:
                await self._note(connection, subject, body)
        self._noted(subjects)

    async def publish(self, subject: str, body: Mapping[str, Any] | None = None) -> None:
        """Write a change that notifies other processes, with the facts they need.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        async with self._in_turn(), self._faults(), self._writing.begin() as connection:
            await self._note(connection, subject, body)
        self._noted((subject,))

    async def _note(self, connection: AsyncConnection, subject: str, body: Mapping[str, Any] | None) -> None:
        """Add a change to the log. No other is numbered before this transaction ends: so numbers are in the order of
        the commits, and who reads on from a number misses none.
        """
        if self.path is None:
            await connection.execute(postgres.lock("changes"))
        newest = await connection.scalar(select(func.max(changes.c.seq)))
        text = json.dumps(body) if body is not None else None
        row = {"seq": (newest or 0) + 1, "subject": subject, "origin": self.origin, "at": time.time(), "body": text}
        await connection.execute(insert(changes).values(row))

    def _noted(self, subjects: Iterable[str]) -> None:
        """Make the waiting processes check for changes now."""
        if any(True for _ in subjects):
            for listener in self._on_changes:
                listener()

    async def write_in_thread(self, work: Callable[[Connection], T]) -> T:
        """Run one writing transaction, `work`, in a thread, so that it costs the event loop little.

        A cancellation takes effect after `work`; whether it was written is unknown then.

        Raises:
            StorageError: the database failed.
        """
        async with self._in_turn(), self._faults():
            if self.path is None:
                async with self._writing.begin() as connection:
                    return await connection.run_sync(work)
            running = self._writer.run(work)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait([running])
                if not running.cancelled():
                    running.exception()  # read, or asyncio would log it
                raise

    async def version(self, subject: str) -> Version:
        """Return a value that differs as soon as any process has changed the subject: one look-up by key.

        Raises:
            StorageError: the database cannot be read.
        """
        if self.path is not None:
            await self._keep_to(self.path)
        async with self.read() as connection:
            found = await connection.scalar(select(func.max(changes.c.seq)).where(changes.c.subject == subject))
        return self._file, found or 0

    async def _keep_to(self, path: Path) -> None:
        """Close a file that was deleted or replaced, and use the one in its place.

        Raises:
            StorageError: there is none, and none can be created.
        """
        if await asyncio.to_thread(identity, path) == self._file:
            return
        async with self._renewing:
            if await asyncio.to_thread(identity, path) == self._file:
                return
            # While the old one is open, the new one cannot have the same identity.
            if self._remake is not None:
                await self._remake()
                for listener in self._on_file_replaced:
                    listener()
            file = await asyncio.to_thread(identity, path)
            await self._dispose()
            if not file:
                raise StorageError(lost(path))
            self._file = file

    async def _dispose(self) -> None:
        await self._engine.dispose()
        await self._writer.dispose()
        await self._reader.dispose()

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(sqlite.BUSY_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise StorageBusy("Too much waits to be written to the database.") from None
        try:
            yield
        finally:
            self._turn.release()

    @asynccontextmanager
    async def _faults(self) -> AsyncIterator[None]:
        try:
            yield
        except NoConnectionFree as error:
            raise StorageBusy("Every connection to the database is taken.") from error
        except Exception as error:  # some of the driver's own reach SQLAlchemy unseen
            if (fault := self.fault(error)) is None:
                raise
            raise fault from error

    def fault(self, error: BaseException) -> StorageError | None:
        """Return the error for the operator, if it is the database's fault."""
        if self.server is not None:
            return postgres.translated(error, self.server)
        assert self.path is not None
        return sqlite.translated(error, self.path) if isinstance(error, DBAPIError) else None


class _Thread:
    """A thread for whole transactions on a file, with a connection of its own from the first one on."""

    def __init__(self, name: str, path: Path | None, options: Mapping[str, str]) -> None:
        self._path = path
        self._options = options
        self._pool = ThreadPoolExecutor(1, name)
        self._engine: SyncEngine | None = None

    def run(self, work: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Run `work` in one transaction, after what runs already."""
        assert self._path is not None, "a server has connections of its own"
        if self._engine is None:
            self._engine = sqlite.sqlite_engine_of_a_thread(self._path, self._options)
        return asyncio.get_running_loop().run_in_executor(self._pool, _transaction, self._engine, work)

    async def dispose(self) -> None:
        """End the connection; the next transaction opens another."""
        if self._engine is not None:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._engine.dispose)

    def close(self) -> None:
        """End the thread after what runs."""
        self._pool.shutdown(wait=False)


def _transaction(engine: SyncEngine, work: Callable[[Connection], T]) -> T:
    with engine.begin() as connection:
        return work(connection)


def _made(server: PostgresUrl | None, path: Path | None, *, bounded: bool) -> AsyncEngine:
    if server is None:
        assert path is not None
        return sqlite.sqlite_engine(path)
    try:
        return postgres_engine(server, bounded=bounded)
    except ImportError as error:
        install = f"pip install {shell_word(f'{DISTRIBUTION}[postgres]')}"
        raise DriverMissing(f"The storage URL needs {error.name}, which is not installed: {install}.") from error


@asynccontextmanager
async def open_existing(url: str, nothing: str) -> AsyncIterator[Engine]:
    """Give the database behind `url` for reading; it is not created, repaired or migrated for this.

    Raises:
        StorageError: it is a file that does not exist; `nothing` ends the message.
    """
    url = full_url(url)
    path = sqlite_path(url)
    if path is not None and not await asyncio.to_thread(path.exists):
        raise StorageError(f"There is no database {path}: {nothing}")
    engine = Engine(url, path)
    if path is not None:
        sqlite.only_look(engine.raw)
    try:
        yield engine
    finally:
        await engine.close()
