"""Python's garbage collector beside what stays: everything stands still while it goes through all objects.

The start and a large catalog are kept from it. A catalog and its index hold no cycles, so they are freed without it.
"""

import asyncio
import gc
from typing import Final, Protocol

from aggregator.catalog.catalog import Catalog

# The thresholds of `gc.set_threshold`: objects made between two collections of the youngest generation, and how many
# collections of one generation lead to one of the next. 50,000 objects are gone through in some 10 ms.
COLLECTED: Final = (10_000, 5, 80)
# Tools from which on a catalog is large.
MANY: Final = 2_000
# Seconds between two freezes: objects in a cycle at that moment are never collected.
BETWEEN: Final = 60.0


class Snapshots(Protocol):
    """The catalog in force (`CatalogUpdates`)."""

    async def replaced(self, known: Catalog | None) -> Catalog: ...

    async def indexed(self) -> None: ...


def spare_start() -> None:
    """Keep the objects made for the start from the collector; the records of calls are hardly ever in cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)


async def spare_catalogs(snapshots: Snapshots) -> None:
    """Keep large catalogs and their index from the collector, until cancelled."""
    catalog: Catalog | None = None
    while True:
        catalog = await snapshots.replaced(catalog)
        if len(catalog) >= MANY:
            _spare()
            await snapshots.indexed()
            _spare()
            await asyncio.sleep(BETWEEN)


def _spare() -> None:
    gc.collect(1)
    gc.freeze()
