"""The servers that an agent may know of: all of them, or the one that a name means.

Rule: a server is found by its name without a look at the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from aggregator.domain.names import loosened
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.cache import SnapshotCache
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.server_seen import ServerSeen, server_seen
from aggregator.gateway.views.views import View, Views
from aggregator.pins.gateway.book import PinBook
from aggregator.pins.gateway.state import HeldItem
from aggregator.upstream.upstream import Upstream
from aggregator.upstream.upstreams import Upstreams

# Characters of a name that are compared loosely with the names of servers.
_LONGEST: Final = 100
_VIEWS_KEPT: Final = 64

HeldByServer = Mapping[str, Sequence[HeldItem]]
"""Held items by server id."""


class FailoverStatus(Protocol):
    """The servers that answer for others."""

    def answering(self, server: str) -> Iterable[str]: ...

    def covers(self, tool: ToolRecord) -> bool: ...


class _Seen(NamedTuple):
    """The part of the catalog that one agent sees: the numbers of items of each kind by server, the held ones, and
    those that are served as approved while newer definitions wait.
    """

    counts: Sequence[Mapping[str, int]]
    held: HeldByServer
    waiting: HeldByServer


class KnownServers:
    """The servers with an item for an agent, and those that it might use, which are absent or have nothing to offer."""

    def __init__(
        self,
        upstreams: Upstreams,
        views: Views,
        current: CurrentCatalog,
        failover: FailoverStatus,
        pins: PinBook | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._views = views
        self._current = current
        self._failover = failover
        self._pins = pins
        self._held: SnapshotCache[HeldByServer] = SnapshotCache(_VIEWS_KEPT)
        self._waiting: SnapshotCache[HeldByServer] = SnapshotCache(_VIEWS_KEPT)

    def all(self, view: View) -> list[ServerSeen]:
        """Return all servers that the agent may know of, in config order."""
        seen = self._seen_by(view)
        found = (self._server(view, server, seen) for server in self._upstreams)
        return [self._with_others(view, one, seen) for one in found if one is not None]

    def switched_off(self, view: View) -> list[str]:
        """Return the names of the servers that the agent could use if they were switched on in the configuration."""
        off = (one.config for one in self._upstreams.values() if not one.config.enabled)
        return [config.prefix or config.id for config in off if view.might_use(config)]

    def unreachable(self, tools: Iterable[ToolRecord]) -> list[str]:
        """Return the names of the servers of these tools to which no call can go now, nor to one that stands in."""
        ids = dict.fromkeys(tool.server for tool in tools if not self._failover.covers(tool))
        away = (one for server in ids if (one := self._upstreams.get(server)) is not None and one.away)
        return [one.config.prefix or one.config.id for one in away]

    def named(self, view: View, name: str) -> ServerSeen | None:
        """Return the server of that id or prefix; else the only one that it fits but for case and signs."""
        seen = self._seen_by(view)
        exact = self._first(view, self._upstreams.by_name.get(name, ()), seen)
        loose = loosened(name) if exact is None and len(name) <= _LONGEST else ""
        if loose:
            alike = self._upstreams.by_loose_name.get(loose, ())
            known = [one for one in (self._server(view, server, seen) for server in alike) if one is not None]
            exact = known[0] if len(known) == 1 else None
        return self._with_others(view, exact, seen) if exact is not None else None

    def _first(self, view: View, servers: Iterable[str], seen: _Seen) -> ServerSeen | None:
        return next((one for one in (self._server(view, server, seen) for server in servers) if one is not None), None)

    def _seen_by(self, view: View) -> _Seen:
        offer = self._views.resources(view, self._current.resources)
        listing = self._views.listing(view, self._current.tools)
        pages = (listing, offer.resources, offer.templates, offer.prompts, offer.skills)
        held = self._current.held
        made_of = held, view.rulebook, view.trusted
        return _Seen(
            [part.by_server for part in pages],
            self._held.get(view.key, made_of, lambda: self._held_of(view)) if held else {},
            self._waiting_for(view),
        )

    def _waiting_for(self, view: View) -> HeldByServer:
        pins = self._pins
        if pins is None:
            return {}
        made_of = pins.moment, self._current.tools, self._current.resources, view.rulebook, view.trusted
        return self._waiting.get(view.key, made_of, lambda: self._waiting_of(view, pins))

    def _waiting_of(self, view: View, pins: PinBook) -> HeldByServer:
        """Return the items of each server that the agent sees as they were approved, while newer definitions wait."""
        found: dict[str, list[HeldItem]] = {}
        shown = {(item.server, item.kind, item.own_name) for item in self._current.resources.items if view.shows(item)}
        for server in self._upstreams:
            for one in pins.waiting(server):
                tool = self._current.tools.of_server(server, one.name) if one.kind == "tool" else None
                sees = (server, one.kind, one.name) in shown if tool is None else view.is_visible(tool)
                if sees:
                    found.setdefault(server, []).append(one)
        return found

    def _server(self, view: View, server: str, seen: _Seen) -> ServerSeen | None:
        """Return a server, if the agent may know of it."""
        upstream = self._upstreams[server]
        if not (
            any(server in part for part in (*seen.counts, seen.held))
            or (upstream.config.enabled and self._has_nothing(upstream) and view.might_use(upstream.config))
        ):
            return None
        counts = (part.get(server, 0) for part in seen.counts)
        return server_seen(upstream, self._pins, seen.held.get(server, ()), seen.waiting.get(server, ()), *counts)

    def _has_nothing(self, upstream: Upstream) -> bool:
        """Return whether no item says that a server exists: it is away, has nothing to offer, or nothing is taken."""
        if upstream.away or upstream.lists.is_empty:
            return True
        items, server = self._current.resources, upstream.config.id
        parts = (self._current.tools.listed, items.resources, items.templates, items.prompts, items.skills)
        return upstream.state == "ready" and not any(server in part.by_server for part in parts)

    def _held_of(self, view: View) -> HeldByServer:
        """Return the held items of each server that the agent would see otherwise."""
        held, found = self._current.held, dict[str, list[HeldItem]]()
        items = (held.item(item) for item in held.items.items if view.shows(item))
        tools = (held.tool(tool) for tool in held.tools.tools if view.is_visible(tool))
        for one in (*tools, *items):
            if one is not None and not one.served:
                found.setdefault(one.server, []).append(one)
        return found

    def _with_others(self, view: View, one: ServerSeen, seen: _Seen) -> ServerSeen:
        """Add the servers that answer for one now, as far as the agent may know of them."""
        answering = (self._server(view, other, seen) for other in self._failover.answering(one.config.id))
        others = tuple(other.name for other in answering if other is not None)
        return replace(one, answered_by=others) if others else one
