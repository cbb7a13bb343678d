"""The way to the database. This module is light; the machinery behind it is loaded when a database is opened."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


@asynccontextmanager
async def open_database(url: str, chain_key: str | None = None) -> "AsyncIterator[Database]":
    """The database behind `url` (`sqlite+aiosqlite:///PATH`), checked and migrated; closed on the way out.

    `chain_key` is the secret that the chain of the audit is made with, if it is (`audit.chain_key`).

    Raises:
        StorageError: it cannot be used; the message says what to do.
    """
    opened: Callable[[str, str | None], Coroutine[Any, Any, Database]]
    opened = await asyncio.to_thread(resolve_name, "aggregator.storage.opening:open_here")
    database = await opened(url, chain_key)
    try:
        yield database
    finally:
        await database.close()
