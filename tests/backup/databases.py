"""Databases to back up, and what is in them."""

import asyncio
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import insert

from aggregator.audit.rows import row
from aggregator.domain.call_record import AuditEvent
from aggregator.storage.audit.chain import ChainBatch, ChainKey
from aggregator.storage.backup.copying import BackupReport, CopyReport, back_up, migrate_store, restore
from aggregator.storage.backup.source import open_snapshot
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord
from aggregator.storage.tables import metadata
from tests.audit.logs import AT, NOTHING, make_call

KEY: Final = KeyRecord("key1", "shop", "hash of ä", "für den Laden", 1763712000.125)


def url_of(path: Path) -> str:
    """Return the URL of a file, as an operator writes it."""
    return f"sqlite:///{path}"


def said_nothing(table: str, rows: int, /) -> None:
    """Take note of progress, and do nothing."""
    assert rows >= 0, table


async def fill(database: Database, calls: int = 5, *, key: KeyRecord = KEY) -> None:
    """Put a key, calls and an event into a database."""
    await database.keys.add(key)
    entries = [row(make_call(number), NOTHING) for number in range(1, calls + 1)]
    await database.audit.append(ChainBatch([*entries, row(AuditEvent("console", AT, "somewhere"), NOTHING)]))


async def make_database(url: str, calls: int = 5, chain_key: str | None = None) -> None:
    """Make a database with a key, calls and an event."""
    async with open_database(url, chain_key) as database:
        await fill(database, calls)


async def add_rows(database: Database, rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Add rows to tables of the database, each behind those that it refers to."""
    async with database.engine.write() as connection:
        for table, values in rows:
            await connection.execute(insert(metadata.tables[table]).values(values))


async def content(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table that a backup has."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    async with open_snapshot(url) as snapshot:
        for table in snapshot.tables:
            found[table.name] = [tuple(row) async for page in snapshot.rows(table) for row in page]
    return found


async def backed_up(url: str, *, audit: bool = True) -> bytes:
    """Return a backup of a database."""
    return (await report_of(url, audit=audit))[1]


async def report_of(url: str, *, audit: bool = True) -> tuple[BackupReport, bytes]:
    """Return what is said of a backup, and the backup."""
    out = io.BytesIO()
    report = await back_up(url, out, audit=audit, now=time.time(), said=said_nothing)
    return report, out.getvalue()


async def restored(
    url: str, archive: bytes, *, replace: bool = False, key: ChainKey | None = None, unproven: bool = False
) -> CopyReport:
    """Restore a backup."""
    return await restore(url, io.BytesIO(archive), replace=replace, key=key, unproven=unproven, said=said_nothing)


async def migrated(url: str, to: str, *, key: ChainKey | None = None) -> CopyReport:
    """Copy a database into another."""
    return await migrate_store(url, to, key=key, unproven=False, said=said_nothing)


def made_archive(path: Path, calls: int = 5) -> bytes:
    """Return a backup of a new database at this path."""

    async def make() -> bytes:
        await make_database(url_of(path), calls)
        return await backed_up(url_of(path))

    return asyncio.run(make())
