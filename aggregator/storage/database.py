"""Open the database. This module is light; SQLAlchemy is imported when a database is opened."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


class OpenDatabase(Protocol):
    """A function that opens the database at a URL; `chain_key` is the key of the audit's chain."""

    async def __call__(self, url: str, chain_key: str | None = None) -> "Database": ...


@asynccontextmanager
async def open_database(url: str, chain_key: str | None = None) -> "AsyncIterator[Database]":
    """Give the database behind `url` (`sqlite+aiosqlite:///PATH`), checked and migrated; closed on the way out.

    `chain_key` is the secret of the audit's chain, if it has one (`audit.chain_key`).

    Raises:
        StorageError: it cannot be used; the message contains the fix.
    """
    open_here = await asyncio.to_thread(_opener)
    database = await open_here(url, chain_key)
    try:
        yield database
    finally:
        await database.close()


def _opener() -> OpenDatabase:
    """Return the function that opens a database; a thread runs this, since SQLAlchemy is slow to import."""
    from aggregator.storage.opening import open_here

    return open_here
