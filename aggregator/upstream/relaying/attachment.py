"""One other replica that uses a server which runs here: its stream, its subscriptions, what it was told of lists."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from aggregator.replicas.leases import Held
from aggregator.upstream.list_kinds import LIST_CHANGE_FILTERS, LIST_METHODS, Kind
from aggregator.upstream.places.messages import BEAT
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.upstream import Upstream

# Messages that another replica may leave unread: one that does not read is attached anew.
_UNREAD_AT_MOST: Final = 10_000
# In these states the server is away, for a reason that hosts are told.
_AWAY: Final = frozenset({"unavailable", "disabled"})


class Attachment:
    """The use of an upstream by the replica `origin`, for as long as this one holds the lease."""

    def __init__(self, origin: str, upstream: Upstream, held: Held) -> None:
        self.id = secrets.token_hex(12)
        self.origin = origin
        self.upstream = upstream
        self.held = held
        self.ended: str | None = None
        self.leaving = False
        self._messages: list[Mapping[str, Any]] = []
        self._wake = asyncio.Event()
        self._wanted: Counter[str] = Counter()
        self._seen: dict[Kind, list[Any]] = {}

    def __repr__(self) -> str:
        return f"<Attachment of {self.origin} to {self.upstream.config.id}>"

    def put(self, message: Mapping[str, Any]) -> None:
        """Send a message on the stream."""
        if len(self._messages) >= _UNREAD_AT_MOST:
            self.end("this replica does not read what it is sent")
            return
        self._messages.append(message)
        self._wake.set()

    def end(self, why: str) -> None:
        """End it: the other replica looks where the server runs. May be called twice."""
        if self.ended is None:
            self.ended = why
        self._wake.set()

    def leave(self) -> None:
        """Take no further requests; those under way go on until this replica ends."""
        if not self.leaving:
            self.leaving = True
            self.put({"leaving": "the replica that runs it is about to end"})

    def look(self) -> None:
        """Look at the upstream again: it has changed."""
        self._wake.set()

    # -- subscriptions

    async def subscribe(self, uri: str, limit: float) -> None:
        """Subscribe to a resource for the other replica.

        Raises:
            UpstreamRpcError, UpstreamError: the server does not agree.
        """
        self._wanted[uri] += 1
        self.upstream.subscriptions.want(uri)
        try:
            await self.upstream.wait_subscribed(uri, limit)
        except BaseException:
            self.unsubscribe(uri)
            raise

    def unsubscribe(self, uri: str) -> None:
        """Let go of a resource."""
        if self._wanted[uri] > 0:
            self._wanted[uri] -= 1
            self.upstream.subscriptions.unwant(uri)

    def updated(self, watched: Iterable[str], uri: str) -> None:
        """Pass on an update of a resource, if the other replica wants it."""
        if any(self._wanted[one] > 0 for one in watched):
            self.put({"notification": "notifications/resources/updated", "params": {"uri": uri}})

    # -- the stream

    async def messages(self) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield what the other replica is told, until it is over; a sign of life at least once a second."""
        greeted: Negotiated | None = None
        try:
            while self.ended is None:
                self._wake.clear()
                now = self._gone()
                if now is not None:
                    yield now
                    return
                negotiated = self.upstream.negotiated
                ready = self.upstream.state == "ready" or (self.upstream.state == "stopped" and negotiated is not None)
                if greeted is None and ready and negotiated is not None:
                    greeted = negotiated
                    self._seen = {kind: self.upstream.lists[kind] for kind in LIST_METHODS}
                    yield {"attachment": self.id, "greeting": _greeting(negotiated)}
                elif greeted is None and self.upstream.state == "stopped":
                    self.upstream.start()
                elif greeted is not None and negotiated is not None and negotiated != greeted:
                    yield {"ended": "the server was connected anew, and is another one"}
                    return
                for message in self._news():
                    yield message
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT):
                        await self._wake.wait()
                    continue
                yield {}
            yield {"ended": self.ended}
        finally:
            self.end("its stream was closed")
            for uri, count in self._wanted.items():
                for _ in range(count):
                    self.upstream.subscriptions.unwant(uri)
            self._wanted.clear()

    def _gone(self) -> Mapping[str, Any] | None:
        """Return the last message, where the server is not to be had here any more."""
        if not self.held.good:
            return {"ended": "another replica may run it by now"}
        if self.upstream.lifecycle.closed:
            return {"ended": "this replica ends, or has another configuration now"}
        if self.upstream.state in _AWAY:
            # Without the time of the next attempt: a reason that differs each second would be logged each second.
            current = self.upstream.lifecycle.current
            return {"away": current.reason or current.state, "said": current.said}
        return None

    def _news(self) -> list[Mapping[str, Any]]:
        """Return what was to be told, and the lists that are others by now."""
        messages, self._messages = self._messages, []
        lists = self.upstream.lists
        changed = {LIST_METHODS[kind].capability for kind, old in self._seen.items() if lists[kind] is not old}
        self._seen = {kind: self.upstream.lists[kind] for kind in self._seen}
        return [
            *messages,
            *({"notification": f"notifications/{name}/list_changed", "params": {}} for name in sorted(changed)),
        ]


def _greeting(negotiated: Negotiated) -> dict[str, Any]:
    """Return what the server said of itself; changes of lists are told in any case."""
    capabilities = dict(negotiated.capabilities)
    for name in LIST_CHANGE_FILTERS:
        if isinstance(offered := capabilities.get(name), Mapping):
            capabilities[name] = {**offered, "listChanged": True}
    return {
        "version": negotiated.version,
        "server_info": negotiated.server_info,
        "capabilities": capabilities,
        "instructions": negotiated.instructions,
    }
