"""A word to the other processes that a change was written, so that they look for it at once and not at their next look.

Rule: it only wakes, outside of every transaction that writes, and at most so often; a word that is lost costs a moment.
"""

import asyncio
import logging
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.storage.engine.postgres_connections import DRIVER, connector
from aggregator.storage.engine.postgres_url import PostgresUrl
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

_CHANNEL: Final = "aggregator_changes"
# Seconds: between two words of one process, for one statement, between two looks at the connection, and between tries.
_APART: Final = 0.05
_STATEMENT: Final = 5.0
_LOOK_EVERY: Final = 20.0
_AGAIN: Final = 1.0

# Called when some process has written a change.
OnWoken = Callable[[], None]


class ChangeWake:
    """A connection of its own that says and hears when changes were written; `note_change` counts once it runs."""

    def __init__(self, url: PostgresUrl) -> None:
        self._connect = connector(url, _STATEMENT)
        self._written = asyncio.Event()

    def note_change(self) -> None:
        """Notify the others soon that a change was written."""
        self._written.set()

    async def run(self, wake: OnWoken) -> None:
        """Call `wake` for each notification, until cancelled; an ended connection is opened again."""
        errors = resolve_name(DRIVER)
        while True:
            try:
                connection = await self._connect()
                try:
                    await connection.add_listener(_CHANNEL, lambda *_: wake())
                    # What was written while there was no connection.
                    wake()
                    await self._speak(connection)
                finally:
                    connection.terminate()
            except (
                OSError,
                StorageError,
                errors.PostgresError,
                errors.InterfaceError,
                errors.InternalClientError,
            ) as error:
                log.debug("nothing is heard of changes for a moment: %s", type(error).__name__)
            await asyncio.sleep(_AGAIN)

    async def _speak(self, connection: Any) -> None:
        """Say when something was written; raise an error of the driver once the connection does not answer."""
        while True:
            try:
                async with asyncio.timeout(_LOOK_EVERY):
                    await self._written.wait()
            except TimeoutError:
                await connection.execute("SELECT 1")
                continue
            self._written.clear()
            await connection.execute("SELECT pg_notify($1, '')", _CHANNEL)
            await asyncio.sleep(_APART)
