"""The update of everything that agents see, after an upstream or the configuration has changed."""

import asyncio

from aggregator.catalog.catalog import Catalog
from aggregator.config.model import Config
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.pins.gateway.book import PinBook


class CatalogUpdates:
    """The one place that replaces the snapshots in force. Hosts are notified if their own lists differ."""

    def __init__(
        self,
        builder: CatalogBuilder,
        current: CurrentCatalog,
        failover: Failover,
        finder: Finder,
        list_changed: ListChanges,
        pins: PinBook | None = None,
    ) -> None:
        self._pins = pins
        self._builder = builder
        self._current = current
        self._failover = failover
        self._finder = finder
        self._list_changed = list_changed
        self._many_resources = asyncio.Event()

    async def prepare(self, config: Config) -> None:
        """Examine the current lists as another configuration will show them, ahead of `reconfigure`."""
        await self._builder.prepare(config.servers, config.name_limit)

    def reconfigure(self, config: Config) -> None:
        """Take a new configuration, after the supervisor and the lists of hosts have."""
        self._builder.reconfigure([server.prefix for server in config.servers], config.name_limit)
        self._finder.reconfigure(config)
        self.rebuild(anew=True)

    def rebuild(self, *, anew: bool = False) -> None:
        """Replace the snapshots with new ones of the current upstreams.

        `anew`: notify hosts even if the tools are equal, since their lists may differ for another reason.
        """
        self._failover.rebuild(self._builder.tools_of)
        held = self._builder.held()
        others, self._current.held = held is not self._current.held, held
        resources = self._builder.resources()
        if resources is None:
            self._many_resources.set()
        elif resources is not self._current.resources:
            self._current.resources = resources
            self._list_changed.announce()
        catalog = self._builder.tools()
        if anew or catalog.tools != self._current.tools.tools:
            self._current.replace_tools(catalog)
            others = True
            self._finder.index.update()
            self._list_changed.announce()
        if others and self._pins is not None:
            # Held tools too: a text that mentions them would suggest calling them.
            self._pins.set_tools((*catalog.parts, *held.tools.parts))

    async def replaced(self, known: Catalog | None) -> Catalog:
        """Wait until the tools in force are not the `known` snapshot; return them."""
        return await self._current.tools_other_than(known)

    async def indexed(self) -> None:
        """Wait until the tools in force can be found by words."""
        await self._finder.index.wait_indexed()

    async def run(self) -> None:
        """Build the resources in slices whenever there are too many to build them at once, until cancelled."""
        while True:
            await self._many_resources.wait()
            self._many_resources.clear()
            await self._builder.build_resources()
            self.rebuild()
