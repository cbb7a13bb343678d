"""The catalogs that a command saw, kept for the first list of the next program that a host starts."""

import asyncio
import logging
import os
from typing import Final

from aggregator.app.catalog_sync import CatalogSync
from aggregator.config.load import Loaded
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.storage.locate import default_url
from aggregator.upstream.supervisor import Supervisor

log = logging.getLogger(__name__)

# Seconds for all of them.
_AT_MOST: Final = 5.0


async def keep_catalogs(loaded: Loaded, supervisor: Supervisor) -> None:
    """Keep the catalogs of all connected servers, and read their habits from the database. A failure costs
    them their kept lists, and is no fault of the command.
    """
    url = loaded.storage or default_url(os.environ)
    database = LazyDatabase(url, loaded.config.audit.chain_key)
    try:
        async with asyncio.timeout(_AT_MOST), database:
            sync = CatalogSync(supervisor, url, database, asyncio.Event())
            await sync.recall_habits()
            await sync.keep_seen()
    except Exception as error:  # of the database, or of the disk below it
        log.debug("the catalogs that were seen are not kept: %s", error)
