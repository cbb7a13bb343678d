"""The current resources, templates and prompts, and the part of them that each agent has."""

from collections.abc import Mapping
from typing import Final

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.uris.links import LeadsElsewhere
from aggregator.gateway.host import Host
from aggregator.gateway.request import Request
from aggregator.gateway.views.current import CurrentCatalog, HeldItems
from aggregator.gateway.views.views import View, Views
from aggregator.upstream.upstream import Upstream

# Templates that the links of one result are matched with; each match takes about a microsecond.
_LOOKS: Final = 2_000


class AgentItems:
    """The current snapshot, `all`, which is replaced as a whole; `settled` waits for servers that are still starting.
    `current` has the snapshots of tools and items.
    """

    def __init__(
        self, views: Views, current: CurrentCatalog, by_prefix: Mapping[str, Upstream], slices: Slices
    ) -> None:
        self.current = current
        self._by_prefix = by_prefix
        self._views = views
        self._slices = slices

    @property
    def tools(self) -> Catalog:
        """The tools of all servers."""
        return self.current.tools

    @property
    def all(self) -> ItemCatalog:
        """The resources, templates and prompts of all upstreams."""
        return self.current.resources

    @property
    def held(self) -> HeldItems:
        """The held prompts and templates of all upstreams."""
        return self.current.held

    def view(self, request: Request) -> View:
        """Return the view of the agent behind a request."""
        return self.view_of(request.host)

    def view_of(self, host: Host) -> View:
        """Return the view of the agent behind a host."""
        return self._views.of(host.principal)

    def of(self, view: View) -> ItemCatalog:
        """Return the part of the snapshot that a view has."""
        return self._views.resources(view, self.all)

    async def ready(self, host: Host) -> None:
        """Work out the part that a host's agent has, in slices."""
        while not self._views.resources_ready(self.view_of(host), self.all):
            await self._views.prepare_resources(self.view_of(host), self.all, self._slices)

    def elsewhere(self, host: Host, upstream: Upstream) -> LeadsElsewhere:
        """Return the test that says, for URIs in one result, whether another server would answer a host's request for
        it.
        """
        looks = 0

        def elsewhere(uri: str) -> bool:
            nonlocal looks
            view = self.view_of(host)
            if not self._views.resources_ready(view, self.all):
                return True  # deciding takes too long, and a URI with the server's prefix is always right
            items = self.of(view)
            record = items.listed(uri)
            if record is None and items.templates_without_server:
                looks += items.templates_without_server
                if looks > _LOOKS:
                    return True  # deciding takes too long here too
                record = items.matching_template(uri)
            return record.server != upstream.config.id if record is not None else "" in self._by_prefix

        return elsewhere
