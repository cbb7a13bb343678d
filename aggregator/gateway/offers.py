"""What there is besides tools, now, and what of it each agent has."""

from collections.abc import Awaitable, Callable

from aggregator.catalog.offer import Offer
from aggregator.gateway.host import Host
from aggregator.gateway.question import Question
from aggregator.gateway.views import View, Views


class Offers:
    """`all` is swapped whole when it changes; `settled` waits for servers that are still starting."""

    def __init__(self, views: Views, settled: Callable[[], Awaitable[None]]) -> None:
        self.all = Offer()
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
