"""The snapshot behind a backup: the state of every table at one moment, while processes write on."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy import Table, select

from aggregator.storage.backup.contents import kept_tables, revision_of
from aggregator.storage.backup.errors import BackupError
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import open_existing
from aggregator.storage.engine.stamp import refuse_unusable

# Rows that are in memory at a time.
PAGE: Final = 1000


class DatabaseSnapshot:
    """A database at one moment. `schema` is the revision of its tables, `store` the kind of database.

    `tables` are the tables of a backup, each after those that its rows refer to.
    """

    def __init__(self, connection: AsyncConnection, schema: str, tables: Sequence[Table]) -> None:
        self.schema = schema
        self.tables = tables
        self.store = connection.dialect.name
        self._connection = connection

    def __repr__(self) -> str:
        return f"<DatabaseSnapshot of {self.store}, schema {self.schema}>"

    async def rows(self, table: Table) -> AsyncIterator[Sequence[Sequence[Any]]]:
        """Yield the rows of a table in the order of its key, some at a time."""
        query = select(table).order_by(*table.primary_key.columns)
        async with self._connection.stream(query, execution_options={"yield_per": PAGE}) as result:
            async for page in result.partitions():
                yield page


@asynccontextmanager
async def open_snapshot(url: str, *, audit: bool = True) -> AsyncIterator[DatabaseSnapshot]:
    """Give the current database behind `url`; it is not created, repaired or migrated for this.

    Raises:
        StorageError: there is none, or it cannot be read, or this version cannot use its tables.
    """
    nothing = "nothing was kept yet. Is this the configuration you mean?"
    async with open_existing(url, nothing) as engine, engine.snapshot() as connection:
        schema = await connection.run_sync(revision_of)
        if schema is None:
            raise BackupError("The database has no tables of aggregator: there is nothing to take from it.")
        refuse_unusable(schema, engine.path, engine.database)
        tables = await connection.run_sync(lambda sync: kept_tables(sync, audit=audit))
        yield DatabaseSnapshot(connection, schema, tables)
