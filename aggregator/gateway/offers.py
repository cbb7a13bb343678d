"""What there is besides tools, now, and what of it each agent has."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.uris.links import Elsewhere
from aggregator.gateway.host import Host
from aggregator.gateway.request import Request
from aggregator.gateway.views.views import View, Views
from aggregator.upstream.upstream import Upstream

# Templates that the links of one result are held against; a look at one takes a microsecond.
_LOOKS: Final = 2_000


class Offers:
    """`all` is swapped whole when it changes; `settled` waits for servers that are still starting."""

    def __init__(
        self, views: Views, settled: Callable[[], Awaitable[None]], by_prefix: Mapping[str, Upstream], slices: Slices
    ) -> None:
        self.all = ItemCatalog()
        self._by_prefix = by_prefix
        self.settled = settled
        self._views = views
        self._slices = slices

    def view(self, question: Request) -> View:
        """What the agent behind a request sees."""
        return self.view_of(question.host)

    def view_of(self, host: Host) -> View:
        """What the agent behind a host sees."""
        return self._views.of(host.principal)

    def of(self, view: View) -> ItemCatalog:
        """What the agent has."""
        return self._views.offer(view, self.all)

    async def ready(self, host: Host) -> None:
        """Work out ahead, in pieces, what the agent behind a host has."""
        while not self._views.knows_offer(self.view_of(host), self.all):
            await self._views.offered(self.view_of(host), self.all, self._slices)

    def elsewhere(self, host: Host, link: Upstream) -> Elsewhere:
        """Return what tells, of the URIs in one result, which another server than this one would answer for a host."""
        looks = 0

        def elsewhere(uri: str) -> bool:
            nonlocal looks
            view = self.view_of(host)
            if not self._views.knows_offer(view, self.all):
                return True  # it takes too long to tell, and the spelling that leads back is never wrong
            offer = self.of(view)
            record = offer.listed(uri)
            if record is None and offer.unnamed:
                looks += offer.unnamed
                if looks > _LOOKS:
                    return True  # the same
                record = offer.fitting(uri)
            return record.server != link.config.id if record is not None else "" in self._by_prefix

        return elsewhere
