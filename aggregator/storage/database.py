"""The way to the database. This module is light; the machinery behind it is loaded when a database is opened."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


@asynccontextmanager
async def open_database(url: str) -> "AsyncIterator[Database]":
    """The database behind `url` (`sqlite+aiosqlite:///PATH`), checked and migrated; closed on the way out.

    Raises:
        StorageError: it cannot be used; the message says what to do.
    """
    opened: Callable[[str], Coroutine[Any, Any, Database]]
    opened = await asyncio.to_thread(resolve_name, "aggregator.storage.opening:open_here")
    database = await opened(url)
    try:
        yield database
    finally:
        await database.close()
