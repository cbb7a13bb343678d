"""Subscriptions to resources: one subscription at each upstream; hosts are notified under their own URI.

Law: a host is notified only about its subscriptions, and only while it may read the resource.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aggregator.domain.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    HostError,
    UpstreamError,
    UpstreamRpcError,
    is_hop_local,
)
from aggregator.domain.uris.exposed import wrapped
from aggregator.gateway.host import Host
from aggregator.gateway.reads.resource_lookup import ResourceLookup
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

UPDATED: Final = "notifications/resources/updated"
# Seconds between two notifications about a resource that changes all the time.
COALESCE: Final = 0.1
# Seconds that the acknowledgement of a stream waits for upstreams to agree.
_PATIENCE: Final = 1.0
# Resources that one host, or one stream, may subscribe to.
MOST: Final = 1_000
# The notification that the resource of a URI was updated.
NotifyUpdated = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Subscriber:
    """A host, or one of its streams. `uris` holds the subscribed URIs, by server and the server's own URI."""

    host: Host
    notify: NotifyUpdated
    uris: dict[tuple[str, str], str] = field(default_factory=dict)


class Subscriptions:
    """The subscriptions of all hosts."""

    def __init__(self, upstreams: Mapping[str, Upstream], lookup: ResourceLookup) -> None:
        self._upstreams = upstreams
        self._lookup = lookup
        self._of: dict[tuple[str, str], dict[Subscriber, None]] = {}
        self._hosts: dict[Host, Subscriber] = {}
        # By subscriber and notified URI: the upstream, its own URI, and the subscribed URIs that it concerns.
        self._due: dict[tuple[Subscriber, str], tuple[Upstream, str, set[str]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        # The upstreams subscribed to. A server that is replaced loses its subscriptions.
        self._subscribed: dict[str, Upstream] = dict(upstreams)

    def __len__(self) -> int:
        return len(self._of)

    def reconfigure(self) -> None:
        """Move the subscriptions to the current upstreams."""
        for server, own in list(self._of):
            upstream_now, subscribers = self._upstreams.get(server), list(self._of[server, own])
            for subscriber in subscribers:
                if upstream_now is None:
                    self._drop(subscriber, (server, own))
                elif upstream_now is not self._subscribed.get(server):
                    upstream_now.subscriptions.want(own)
        self._subscribed = dict(self._upstreams)

    # -- handshake eras

    async def subscribe(self, host: Host, found: ResolvedItem) -> None:
        """Subscribe a host of the handshake eras to a resource.

        Raises:
            HostError: the server refuses, or does not support subscriptions, or the host has too many.
            UpstreamError: the server is away.
        """
        about = {"uri": found.requested}
        if not can_tell(found.upstream):
            raise HostError(METHOD_NOT_FOUND, f"{found.upstream.config.id} tells of no changes of resources.", about)
        subscriber = self._of_host(host)
        if not self.add(subscriber, found):
            raise HostError(INVALID_PARAMS, f"At most {MOST} resources can be subscribed to.", about)
        try:
            await found.upstream.wait_subscribed(found.own, found.upstream.config.timeout)
        except UpstreamRpcError as error:
            self._drop(subscriber, (found.upstream.config.id, found.own))
            server = found.upstream.config.id
            log.info("%s does not tell of changes of %.200r: %s", server, found.own, error)
            # In our words: a subscription is no read, so the server's text would have no label.
            said = f"{server} refused to tell of changes of this resource (JSON-RPC error {error.code})."
            raise HostError(INTERNAL_ERROR if is_hop_local(error.code) else error.code, said, about) from error
        except BaseException:
            self._drop(subscriber, (found.upstream.config.id, found.own))
            raise

    def resume(self, host: Host, found: Iterable[ResolvedItem], uris: Collection[str]) -> None:
        """Set the subscriptions of a host to these resources; end its subscriptions to others than `uris`."""
        subscriber = self._of_host(host)
        for key, uri in list(subscriber.uris.items()):
            if uri not in uris:
                self._drop(subscriber, key)
        for one in found:
            self.add(subscriber, one)

    def _of_host(self, host: Host) -> Subscriber:
        def notify(uri: str) -> None:
            host.notify(UPDATED, {"uri": uri})

        return self._hosts.setdefault(host, Subscriber(host, notify))

    def unsubscribe(self, host: Host, uri: str, found: ResolvedItem | None) -> None:
        """End a subscription; `found` is the resource that the URI means now, if any."""
        subscriber = self._hosts.get(host)
        if subscriber is None:
            return
        exposed = next((key for key, known in subscriber.uris.items() if known == uri), None)
        if exposed is not None:
            self._drop(subscriber, exposed)
        elif found is not None:
            self._drop(subscriber, (found.upstream.config.id, found.own))

    def remove_host(self, host: Host) -> None:
        """End the subscriptions of a host that is gone."""
        subscriber = self._hosts.pop(host, None)
        if subscriber is not None:
            self.end(subscriber)

    # -- all

    def add(self, subscriber: Subscriber, found: ResolvedItem) -> bool:
        """Add a subscription; return False if the subscriber has too many."""
        key = found.upstream.config.id, found.own
        if key not in subscriber.uris:
            if len(subscriber.uris) >= MOST:
                return False
            found.upstream.subscriptions.want(found.own)
            self._of.setdefault(key, {})[subscriber] = None
        subscriber.uris[key] = found.requested
        return True

    async def subscribe_stream(self, subscriber: Subscriber, wanted: Iterable[ResolvedItem]) -> list[ResolvedItem]:
        """Add subscriptions; return those that no upstream has refused after a moment."""
        found = [one for one in wanted if self.add(subscriber, one)]
        answers = await asyncio.gather(*(self._agrees(one) for one in found))
        for one, agrees in zip(found, answers, strict=True):
            if not agrees:
                self._drop(subscriber, (one.upstream.config.id, one.own))
        return [one for one, agrees in zip(found, answers, strict=True) if agrees]

    async def _agrees(self, found: ResolvedItem) -> bool:
        """Return False if the upstream refuses; one that is away gets the request when it is back."""
        try:
            await found.upstream.wait_subscribed(found.own, _PATIENCE)
        except UpstreamRpcError:
            return False
        except UpstreamError as error:
            log.info("%s: %s", found.name, error)
        return True

    def end(self, subscriber: Subscriber) -> None:
        """End all subscriptions of a subscriber."""
        for key in list(subscriber.uris):
            self._drop(subscriber, key)

    def _drop(self, subscriber: Subscriber, key: tuple[str, str]) -> None:
        if subscriber.uris.pop(key, None) is None:
            return
        server, own = key
        if server in self._upstreams:
            self._upstreams[server].subscriptions.unwant(own)
        subscribers = self._of[key]
        del subscribers[subscriber]
        if not subscribers:
            del self._of[key]

    # -- telling

    def resource_updated(self, upstream: Upstream, watched: list[str], uri: str) -> None:
        """Schedule notifications about `uri`, which the upstream reported for these subscribed URIs."""
        server = upstream.config.id
        if self._upstreams.get(server) is not upstream:
            return  # replaced meanwhile; its successor reports updates
        for own in watched:
            for subscriber in self._of.get((server, own), ()):
                exposed = subscriber.uris[server, own] if uri == own else wrapped(upstream.config.prefix, uri)
                self._due.setdefault((subscriber, exposed), (upstream, uri, set()))[2].add(own)
        if self._due and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COALESCE, self._notify)

    def _notify(self) -> None:
        due, self._due, self._timer = self._due, {}, None
        for (subscriber, exposed), (upstream, uri, about) in due.items():
            host, server = subscriber.host, upstream.config.id
            wanted = any(
                (server, own) in subscriber.uris and self._lookup.may_read(host, upstream, own) for own in about
            )
            if wanted and self._lookup.may_read(host, upstream, uri):
                subscriber.notify(exposed)


def can_tell(upstream: Upstream) -> bool:
    """Tell whether a server supports subscriptions to resources, by its last answer."""
    if upstream.negotiated is None:
        return True
    offered = upstream.negotiated.capabilities.get("resources")
    return isinstance(offered, dict) and bool(offered.get("subscribe"))
