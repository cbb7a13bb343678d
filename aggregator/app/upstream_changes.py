"""The reaction of the program to upstreams: lists, audit events and kept catalogs follow their changes."""

import asyncio
from typing import Any

from aggregator.app.audit_events import AuditEvents
from aggregator.app.catalog_updates import CatalogUpdates
from aggregator.gateway.call_log import CallObservers
from aggregator.gateway.reads.subscriptions import Subscriptions
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.pins.app.sync import PinSync
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.upstream import Upstream


class UpstreamChanges:
    """An `UpstreamObserver`. `catalog_changed` is set after each change, for the writer of kept catalogs."""

    def __init__(
        self,
        builder: CatalogBuilder,
        updates: CatalogUpdates,
        subscriptions: Subscriptions,
        events: AuditEvents,
        observers: CallObservers,
    ) -> None:
        self.catalog_changed = asyncio.Event()
        # Set by the builder of the program if there are pins.
        self.pins: PinSync | None = None
        self._builder = builder
        self._updates = updates
        self._subscriptions = subscriptions
        self._events = events
        self._observers = observers

    def changed(self) -> None:
        """Update what agents see, and record changed states."""
        self._updates.rebuild()
        self._events.upstreams_changed()
        self.catalog_changed.set()
        if self.pins is not None:
            self.pins.lists_changed()

    async def examine(self, upstream: Upstream, kind: Kind, definitions: list[Any]) -> None:
        """Examine a list before it counts, in slices."""
        if self.pins is not None:
            await self.pins.examine(upstream, kind, definitions)
        else:
            await self._builder.examine(upstream, kind, definitions)

    def resource_updated(self, upstream: Upstream, watched: list[str], uri: str) -> None:
        """Notify the subscribers of a resource."""
        self._subscriptions.resource_updated(upstream, watched, uri)

    def session_over(self, server: str, version: str, seconds: float, failure: str | None) -> None:
        """Count a session with an upstream."""
        count = self._observers.upstream_session_over
        if count is not None:
            count(server, version, seconds, failure)
