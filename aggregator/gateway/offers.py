"""What there is besides tools, now, and what of it each agent has."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aggregator.catalog.offer import Offer
from aggregator.domain.links import Elsewhere
from aggregator.gateway.host import Host
from aggregator.gateway.question import Question
from aggregator.gateway.views import View, Views
from aggregator.upstream.link import Link

# Templates that the links of one result are held against; a look at one takes a microsecond.
_LOOKS: Final = 2_000


class Offers:
    """`all` is swapped whole when it changes; `settled` waits for servers that are still starting."""

    def __init__(self, views: Views, settled: Callable[[], Awaitable[None]], by_prefix: Mapping[str, Link]) -> None:
        self.all = Offer()
        self._by_prefix = by_prefix
        self.settled = settled
        self._views = views

    def view(self, question: Question) -> View:
        """What the agent behind a request sees."""
        return self.view_of(question.host)

    def view_of(self, host: Host) -> View:
        """What the agent behind a host sees."""
        return self._views.of(host.principal)

    def of(self, view: View) -> Offer:
        """What the agent has."""
        return self._views.offer(view, self.all)

    def elsewhere(self, host: Host, link: Link) -> Elsewhere:
        """Return what tells, of the URIs in one result, which another server than this one would answer for a host."""
        looks = 0

        def elsewhere(uri: str) -> bool:
            nonlocal looks
            offer = self.of(self.view_of(host))
            record = offer.listed(uri)
            if record is None and offer.unnamed:
                looks += offer.unnamed
                if looks > _LOOKS:
                    return True  # it is too much to tell, and the spelling that leads back is never wrong
                record = offer.fitting(uri)
            return record.server != link.config.id if record is not None else "" in self._by_prefix

        return elsewhere
