"""The catalog snapshots in force, read by everything that lists, finds or calls."""

import asyncio

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.records import ToolRecord


class CurrentCatalog:
    """The snapshots of tools and of resources. Each is replaced as a whole, never changed."""

    def __init__(self) -> None:
        # The tools of all upstreams.
        self.tools = Catalog()
        self.resources = ItemCatalog()
        # The tools that are known of servers which are away, and can neither be listed nor called now.
        self.absent: tuple[ToolRecord, ...] = ()
        self._replaced = asyncio.Event()

    def replace_tools(self, tools: Catalog) -> None:
        """Put another snapshot of the tools into force."""
        self.tools = tools
        # A new event each time, so that each replacement resumes all tasks that wait for it, and no later one.
        self._replaced.set()
        self._replaced = asyncio.Event()

    async def tools_other_than(self, known: Catalog | None) -> Catalog:
        """Wait until the tools are not the `known` snapshot; return them."""
        while self.tools is known:
            await self._replaced.wait()
        return self.tools
