"""`subscriptions/listen`: the notifications that a host of 2026-07-28 gets on one stream
(S/basic/patterns/subscriptions).
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from aggregator.domain.errors import INVALID_PARAMS, CallRefused, HostError
from aggregator.domain.missing import ItemRefused
from aggregator.domain.versions import META_SUBSCRIPTION_ID
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.host import Host
from aggregator.gateway.reads.permission import ItemPermission, may_have
from aggregator.gateway.reads.resource_lookup import ResourceLookup
from aggregator.gateway.reads.subscriptions import UPDATED, Subscriber, Subscriptions, can_tell
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.list_changed import LIST_KINDS, ListChanges, ListKind, notification
from aggregator.gateway.views.views import View

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_RESOURCES: Final = "resourceSubscriptions"


class ListenStreams:
    """The handler of `subscriptions/listen`.

    The accepted part of the filter is acknowledged first; the stream ends when the host goes or the process drains.
    """

    def __init__(
        self,
        changes: ListChanges,
        subscriptions: Subscriptions,
        agent_items: AgentItems,
        resources: ResourceLookup,
        startup: StartupWait,
        permission: ItemPermission,
    ) -> None:
        self._permission = permission
        self._startup = startup
        self._changes = changes
        self._subscriptions = subscriptions
        self._agent_items = agent_items
        self._resources = resources

    async def listen(self, request: Request) -> dict[str, Any]:
        """Return the result that ends the stream.

        Raises:
            HostError: the filter is no object.
        """
        wanted, channel = request.params.get("notifications"), request.channel
        if not isinstance(wanted, dict):
            raise HostError(INVALID_PARAMS, "`notifications` must be an object that says what to listen for.")
        meta = {META_SUBSCRIPTION_ID: channel.request_id}
        acknowledged = False
        await self._agent_items.ready(request.host)

        def notify_list(kind: ListKind) -> None:
            channel.notify(notification(kind), {"_meta": meta})

        def notify_resource(uri: str) -> None:
            if acknowledged:
                channel.notify(UPDATED, {"uri": uri, "_meta": meta})

        subscriber = Subscriber(request.host, notify_resource)
        kinds = [kind for kind in LIST_KINDS if wanted.get(_filter(kind)) is True]
        honoured: dict[str, Any] = {_filter(kind): True for kind in kinds}
        try:
            found = await self._subscriptions.subscribe_stream(subscriber, await self._found(request, wanted))
            if found:
                honoured[_RESOURCES] = [one.requested for one in found]
            channel.notify(_ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
            acknowledged = True
            with self._changes.listen(request.host, kinds, notify_list):
                await self._changes.wait_closed()
        finally:
            self._subscriptions.end(subscriber)
        return {"_meta": meta}

    async def resume(self, host: Host, uris: Collection[str]) -> None:
        """Subscribe a host of the handshake eras to exactly its subscriptions at another replica, or before a
        restart.
        """
        await self._startup.settled()
        await self._agent_items.ready(host)
        self._subscriptions.resume(host, self._visible(self._agent_items.view_of(host), uris), uris)

    async def _found(self, request: Request, wanted: Mapping[str, Any]) -> list[ResolvedItem]:
        """Return the resources of the filter that the host may read, of servers that support subscriptions."""
        uris = wanted.get(_RESOURCES)
        view, host = self._agent_items.view(request), request.host
        visible = self._visible(view, uris if isinstance(uris, list) else ())
        try:
            return [found for found in visible if await self._permission.watched(found, view, host) is None]
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused

    def _visible(self, view: View, uris: Collection[Any]) -> list[ResolvedItem]:
        placed = [self._resources.find_visible(view, uri) for uri in uris if isinstance(uri, str)]
        return [found for found in placed if found is not None and can_tell(found.upstream) and may_have(found, view)]


def _filter(kind: ListKind) -> str:
    return f"{kind}ListChanged"
