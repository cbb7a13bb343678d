"""The last hour, computed from the rows of the audit: minutes, durations of calls, and the tools that stand out.

This file decides: rows and the time are its arguments. Law: the duration of a tool is its server's time for calls that
it answered, or failed to; refused calls, and the time for confirmation, do not count.
"""

from collections.abc import Iterable
from math import ceil
from operator import attrgetter

from aggregator.storage.audit.query import GROUPS
from aggregator.storage.audit.search import CallTime
from aggregator.telemetry.last_hour import MINUTES, Hour, MinuteCounts, ToolTimes

_FAILED = frozenset(GROUPS["failed"])
_REFUSED = frozenset(GROUPS["refused"])
_NAMED = 10


def hour_of(rows: Iterable[CallTime], now: float) -> Hour:
    """Return the last hour of these calls, of which none began earlier."""
    first = int(now // 60) - MINUTES + 1
    counts = {minute: [0, 0, 0] for minute in range(first, first + MINUTES)}
    tools: dict[tuple[str, str], tuple[list[float], list[int]]] = {}
    durations: list[float] = []
    for one in rows:
        minute = counts.get(int(one.started // 60))
        if minute is None:
            continue
        failed, refused = one.status in _FAILED, one.status in _REFUSED
        minute[0] += 1
        minute[1] += failed
        minute[2] += refused
        durations.append(one.duration)
        if refused or one.status in ("pending", "cancelled") or one.tool is None:
            continue
        times, failures = tools.setdefault((one.server or "", one.tool), ([], [0]))
        times.append(one.upstream_seconds or one.duration)
        failures[0] += failed
    told = [
        ToolTimes(server, tool, len(times), failures[0], _part(times, 0.5), _part(times, 0.95))
        for (server, tool), (times, failures) in tools.items()
    ]
    slowest = sorted(told, key=lambda one: one.p95 or 0.0, reverse=True)
    failing = sorted((one for one in told if one.failed), key=attrgetter("failed"), reverse=True)
    begun = min((minute for minute, (calls, _, _) in counts.items() if calls), default=first + MINUTES - 1)
    minutes = tuple(MinuteCounts(at * 60.0, *counts[at]) for at in range(begun, first + MINUTES))
    return Hour(
        minutes, _part(durations, 0.5), _part(durations, 0.95), tuple(slowest[:_NAMED]), tuple(failing[:_NAMED])
    )


def _part(times: list[float], part: float) -> float | None:
    """Return the time that this part of the calls took at most; None if there are none."""
    return sorted(times)[max(0, ceil(len(times) * part) - 1)] if times else None
