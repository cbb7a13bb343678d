"""The status of an upstream for observers outside the process: the health page and the metrics."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aggregator.app.catalog_sync import CatalogSync
from aggregator.app.reload.config_reload import ConfigReload
from aggregator.app.reload.group_facts import GroupFacts
from aggregator.app.reload.policy_reload import PolicyReload
from aggregator.app.reload.policy_reload import report as policy_report
from aggregator.app.telemetry import CallTelemetry
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.gateway.access import Access
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.gateway.views.finder import Finder
from aggregator.notify.app import NoticeEvents
from aggregator.pins.app.sync import PinSync
from aggregator.pins.gateway.book import PinBook
from aggregator.policy.live import LivePolicies
from aggregator.telemetry.snapshot import ListTokens, RecentCalls, Snapshot, UpstreamSnapshot
from aggregator.upstream.upstream import Upstream


class Status:
    """The status of all parts."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        gateway: Dispatcher,
        builder: CatalogBuilder,
        failover: Failover,
        access: Access,
        telemetry: CallTelemetry,
        notices: NoticeEvents,
        *,
        live: LivePolicies | None,
        catalog_sync: CatalogSync | None,
        config_reload: ConfigReload | None,
        policy_reload: PolicyReload | None,
        facts: GroupFacts,
        finder: Finder,
        kept: KeptWork,
        book: PinBook | None = None,
        pin_sync: PinSync | None = None,
    ) -> None:
        self._book = book
        self._pin_sync = pin_sync
        self._finder = finder
        self._facts = facts
        self._kept = kept
        self._upstreams = upstreams
        self._gateway = gateway
        self._builder = builder
        self._failover = failover
        self._access = access
        self._telemetry = telemetry
        self._notices = notices
        self._live = live
        self._catalog_sync = catalog_sync
        self._config_reload = config_reload
        self._policy_reload = policy_reload

    def report(self) -> tuple[bool, Mapping[str, Any]]:
        """Return whether every upstream has come up or failed by now, and the details for `/readyz`."""
        held = self._book.counts() if self._book is not None else {}
        waiting = self._book.waiting_counts() if self._book is not None else {}
        withheld = self._pin_sync.withheld if self._pin_sync is not None else {}
        unsearchable = self._finder.index.unsearchable
        servers = {
            name: {
                **condition(upstream, self._tools(upstream)),
                "answered_by": self._failover.answering(name),
                **({"held": held[name]} if name in held else {}),
                **({"waiting": waiting[name]} if name in waiting else {}),
                **({"withheld": withheld[name]} if name in withheld else {}),
                **({"unsearchable": unsearchable[name]} if name in unsearchable else {}),
            }
            for name, upstream in self._upstreams.items()
        }
        stopping = self._gateway.drain.started or self._gateway.drain.leaving
        tried = all(upstream.lifecycle.tried for upstream in self._upstreams.values())
        # Without the keys every request is refused, without the group sessions, and without the pins tools: a
        # balancer is to ask elsewhere.
        group = self._gateway.group
        pins_awaited = self._pin_sync is not None and self._pin_sync.awaited
        alone = self._access.unread or (group.enabled and group.awaited) or pins_awaited
        ready = tried and not stopping and not alone
        details = {"ready": ready, "tools": len(self._gateway.catalog), "servers": servers}
        if stopping:
            details["stopping"] = True
        if self._config_reload is not None:
            details["config"] = self._config_reload.report()
        if self._live is not None:
            slow = self._policy_reload.problem if self._policy_reload is not None else None
            details["policies"] = policy_report(self._live, slow)
        different = self._facts.differences()
        if different:
            details["differs"] = different
        keys = self._access.keyring.problem or self._access.locked
        if keys is not None:
            details["keys"] = keys
        issuers = self._access.tokens.problems() if self._access.tokens is not None else {}
        if issuers:
            details["issuers"] = "; ".join(f"{name}: {problem}" for name, problem in issuers.items())
        if self._catalog_sync is not None and self._catalog_sync.problem is not None:
            details["catalogs"] = self._catalog_sync.problem
        if self._pin_sync is not None and self._pin_sync.problem is not None:
            details["pins"] = self._pin_sync.problem
        if (progress := self._finder.meanings.progress) is not None:
            details["meaning"] = progress._asdict()
        if self._finder.index.problem is not None:
            details["search"] = self._finder.index.problem
        if self._kept.problem is not None:
            details["tasks"] = self._kept.problem
        receivers = self._notices.report()
        if receivers:
            details["notify"] = receivers
        return ready, details | self._telemetry.report()

    def snapshot(self) -> Snapshot:
        """Return the measurements for one scrape of the metrics."""
        queues, lost = self._telemetry.queues()
        held = self._book.counts() if self._book is not None else {}
        spans = self._telemetry.spans
        return Snapshot(
            upstreams={
                name: replace(measured(upstream, self._tools(upstream)), held=held.get(name, 0))
                for name, upstream in self._upstreams.items()
            },
            sessions=self._gateway.list_changes.sessions(),
            open=self._gateway.admission.in_use,
            refused=self._gateway.admission.refused,
            queues=queues,
            lost=lost,
            lists={agent: ListTokens(*costs) for agent, costs in self._gateway.list_costs().items()},
            spans=spans.counts() if spans is not None else None,
            receivers=self._notices.counts(),
        )

    def _tools(self, upstream: Upstream) -> int:
        return len(self._builder.tools_of(upstream))


def condition(upstream: Upstream, tools: int) -> dict[str, Any]:
    """Return the status for `/readyz` and `aggregator status`; times in seconds since 1970, `tools` the number of valid
    tools.
    """
    now = upstream.lifecycle.current
    return {
        "state": now.state,
        "reason": upstream.health.problem() if now.state == "ready" else upstream.reason,
        "since": round(now.since, 3),
        "tools": tools,
        "in_flight": upstream.in_flight,
        "next_try": round(now.next_try, 3) if now.next_try is not None else None,
        "health": upstream.health.report(),
        **({"own_connections": upstream.own_connections} if upstream.own_connections is not None else {}),
    }


def measured(upstream: Upstream, tools: int) -> UpstreamSnapshot:
    """Return the measurements for the metrics; `tools` is the number of valid tools."""
    return UpstreamSnapshot(
        upstream.state,
        tools,
        upstream.reconnects,
        upstream.in_flight,
        upstream.refused,
        upstream.since,
        upstream.health.answers,
        RecentCalls(*upstream.health.latency.figures(time.monotonic())),
    )
