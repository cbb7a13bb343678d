"""How an upstream is, for those who watch the program from outside: the health page and the metrics."""

import time
from typing import Any

from aggregator.telemetry.snapshot import RecentCalls, UpstreamSnapshot
from aggregator.upstream.upstream import Upstream


def condition(link: Upstream, tools: int) -> dict[str, Any]:
    """For `/readyz` and `aggregator status`; times in seconds since 1970. `tools`: how many of its tools are taken."""
    now = link.life.condition
    return {
        "state": now.state,
        "reason": link.health.told() if now.state == "ready" else link.reason,
        "since": round(now.since, 3),
        "tools": tools,
        "in_flight": link.in_flight,
        "next_try": round(now.next_try, 3) if now.next_try is not None else None,
        "health": link.health.report(),
    }


def measured(link: Upstream, tools: int) -> UpstreamSnapshot:
    """For the metrics. `tools`: as above."""
    return UpstreamSnapshot(
        link.state,
        tools,
        link.reconnects,
        link.in_flight,
        link.refused,
        link.since,
        link.health.answers,
        RecentCalls(*link.health.vitals.figures(time.monotonic())),
    )
