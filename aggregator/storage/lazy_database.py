"""The database of one process, opened when it is first needed."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.flow.storage import FlowLabels
    from aggregator.results.storage import KeptResults
    from aggregator.storage.approvals import Approvals
    from aggregator.storage.audit.log import AuditRows
    from aggregator.storage.catalogs import Catalogs
    from aggregator.storage.opening import Database
    from aggregator.storage.tool_vectors import ToolVectors

log = logging.getLogger(__name__)


class LazyDatabase:
    """The database at `url`; None without a `url`. The end of `async with` closes it."""

    def __init__(self, url: str | None, chain_key: str | None) -> None:
        self.url = url
        self._chain_key = chain_key
        # The keys of the entries that the pins of this process belong to; None: of no entry.
        self.entries: Callable[[], Mapping[str, str]] | None = None
        self._database: Database | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        await self._stack.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def open(self) -> "Database | None":
        """Return the open database, or None if there is no URL.

        Raises:
            StorageError: it cannot be used.
        """
        async with self._opening:
            if self._database is None and self.url is not None:
                self._database = await self._stack.enter_async_context(open_database(self.url, self._chain_key))
                self._database.pins.entries = self.entries
            return self._database

    async def approvals(self) -> "Approvals | None":
        """Return the queue of approvals, or None if it cannot be used."""
        try:
            database = await self.open()
        except StorageError as error:
            log.error("approvals cannot be queued: %s", error)
            return None
        return database.approvals if database is not None else None

    async def catalogs(self) -> "Catalogs":
        """Return the kept catalogs.

        Raises:
            StorageError: the database cannot be used.
        """
        database = await self.open()
        assert database is not None, "catalogs are kept only with a database"
        return database.catalogs

    async def tool_vectors(self) -> "ToolVectors | None":
        """Return the vectors of tools; None without a database.

        Raises:
            StorageError: the database cannot be used.
        """
        database = await self.open()
        return database.tool_vectors if database is not None else None

    async def audit_rows(self) -> "AuditRows":
        """Return the audit log.

        Raises:
            StorageError: the database cannot be used.
        """
        database = await self.open()
        assert database is not None, "calls are recorded only with a database"
        return database.audit

    async def results(self) -> "KeptResults | None":
        """Return the kept results; None without a database.

        Raises:
            StorageError: the database cannot be used.
        """
        database = await self.open()
        return database.results if database is not None else None

    async def flow_labels(self) -> "FlowLabels | None":
        """Return the labels of conversations; None without a database.

        Raises:
            StorageError: the database cannot be used.
        """
        database = await self.open()
        return database.flow if database is not None else None
