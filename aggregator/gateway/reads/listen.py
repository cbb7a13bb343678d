"""`subscriptions/listen`: what a host of 2026-07-28 hears of, on one stream (S/basic/patterns/subscriptions)."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.versions import META_SUBSCRIPTION_ID
from aggregator.gateway.calls.relay import ResolvedItem
from aggregator.gateway.offers import Offers
from aggregator.gateway.reads.permission import decided
from aggregator.gateway.reads.resources import Resources
from aggregator.gateway.reads.subscriptions import UPDATED, Subscriber, Subscriptions, can_tell
from aggregator.gateway.request import Request
from aggregator.gateway.views.list_changed import LIST_KINDS, ListChanges, ListKind, notification

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_RESOURCES: Final = "resourceSubscriptions"


class ListenStreams:
    """What can be honoured is acknowledged first; the stream ends when the host goes or we close."""

    def __init__(
        self, changes: ListChanges, subscriptions: Subscriptions, offers: Offers, resources: Resources
    ) -> None:
        self._changes = changes
        self._subscriptions = subscriptions
        self._offers = offers
        self._resources = resources

    async def listen(self, question: Request) -> dict[str, Any]:
        """The result that ends the stream.

        Raises:
            HostError: the filter is none.
        """
        wanted, channel = question.params.get("notifications"), question.channel
        if not isinstance(wanted, dict):
            raise HostError(INVALID_PARAMS, "`notifications` must be an object that says what to listen for.")
        meta = {META_SUBSCRIPTION_ID: channel.request_id}
        acknowledged = False
        await self._offers.ready(question.host)

        def tell_list(kind: ListKind) -> None:
            channel.notify(notification(kind), {"_meta": meta})

        def tell_resource(uri: str) -> None:
            if acknowledged:
                channel.notify(UPDATED, {"uri": uri, "_meta": meta})

        subscriber = Subscriber(question.host, tell_resource)
        kinds = [kind for kind in LIST_KINDS if wanted.get(_filter(kind)) is True]
        honoured: dict[str, Any] = {_filter(kind): True for kind in kinds}
        try:
            found = await self._subscriptions.agreed(subscriber, self._found(question, wanted))
            if found:
                honoured[_RESOURCES] = [one.asked for one in found]
            channel.notify(_ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
            acknowledged = True
            with self._changes.listening(question.host, kinds, tell_list):
                await self._changes.closed()
        finally:
            self._subscriptions.end(subscriber)
        return {"_meta": meta}

    def _found(self, question: Request, wanted: Mapping[str, Any]) -> list[ResolvedItem]:
        """The resources it may read, of servers that tell of changes as far as is known."""
        view, uris = self._offers.view(question), wanted.get(_RESOURCES)
        placed = [
            self._resources.seen(view, uri) for uri in (uris if isinstance(uris, list) else ()) if isinstance(uri, str)
        ]
        return [
            found for found in placed if found is not None and can_tell(found.link) and decided(found, view).visible
        ]


def _filter(kind: ListKind) -> str:
    return f"{kind}ListChanged"
