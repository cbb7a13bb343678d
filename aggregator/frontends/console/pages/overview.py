"""The first page: tasks for a user, then the last hour; without calls yet, the ways to connect a host."""

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from aggregator.frontends.console.calls.hour import hour_of
from aggregator.frontends.console.foreign_words import server_reason
from aggregator.frontends.console.fresh import Fresh
from aggregator.frontends.console.pages.conditions import problems_of
from aggregator.frontends.console.parts import CONSOLE_PATH, ConsoleParts
from aggregator.frontends.console.tool_data import bounded, link, pin_link
from aggregator.frontends.console.view import ConsoleRequest, PageRoute, PageView
from aggregator.frontends.web.address_wishes import framework_path
from aggregator.pins.gateway.answers import held_note
from aggregator.pins.gateway.state import HeldItem
from aggregator.storage.audit.query import CallQuery, quoted
from aggregator.storage.audit.refusals import RuleRefusals, refusals_by_rule
from aggregator.telemetry.last_hour import MINUTES, Hour, MinuteCounts, ToolTimes
from aggregator.telemetry.metrics import OTHER, UNKNOWN
from aggregator.tool_reports.console import reported as reported_tools
from aggregator.upstream.upstream import Upstream

_NAMED: Final = 8
_WAITING: Final = 5
_AWAY: Final = 10
_HELD: Final = 10
_SERVERS: Final = 12
_LISTS: Final = 12
_CALLS: Final = 10
_NAME: Final = 200
_REASON: Final = 300
_SAID: Final = 1_000
# Seconds that data common to all viewers is cached; the search for refusals reads many rows.
_FRESH: Final = 1.0
_FRESH_REFUSALS: Final = 5.0
_FRESH_HOUR: Final = 2.0
_DAY: Final = 86_400.0
_DOWN: Final = frozenset({"unavailable", "silent", "reconnecting"})
# The chart: width of a bar with its gap, of a bar, and the height of the highest.
_STEP: Final = 10
_BAR: Final = 8
_HIGH: Final = 32

_SCHEMA: Final = {
    "type": "object",
    "required": ["approvals", "away", "problems", "servers", "lists"],
    "properties": {
        "approvals": {"type": "object", "description": "`waiting`: how many; `oldest`: those that wait for longest"},
        "away": {"type": "array", "description": "servers that do not answer, with their reasons"},
        "held": {"type": "array", "description": "servers with definitions that wait for an approval"},
        "reported": {"type": "array", "description": "tools that agents reported as broken"},
        "problems": {"type": "array", "description": "what else is wrong: configuration, policies, audit, receivers"},
        "calls": {"type": ["object", "null"], "description": "the last hour, minute by minute"},
        "failing": {"type": "array", "description": "the tools that failed most in the last hour"},
        "slowest": {"type": "array", "description": "the slowest tools of the last hour"},
        "refusals": {"type": "array", "description": "the rules that refused most calls since yesterday"},
        "limits": {"type": "array", "description": "the limits that were reached since yesterday"},
        "servers": {"type": "array"},
        "lists": {"type": "array", "description": "tokens of each agent's list: `whole`, and as it is `shown`"},
        "last_calls": {"type": "array"},
        "connect": {"type": ["object", "null"], "description": "how to connect a host; null once there was a call"},
    },
}


class OverviewPage:
    """The first page. What it reads of the process and the database is kept for a second, for all viewers."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        # Data for users with and without access to servers' texts.
        self._shared = {values: Fresh(partial(self._read, values), _FRESH) for values in (True, False)}
        self._refusals = Fresh(self._read_refusals, _FRESH_REFUSALS)
        self._hour = Fresh(self._read_hour, _FRESH_HOUR)

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        said = "What needs a person, and the last hour"
        return [PageRoute("GET", "/", "viewer", self.show, said, schema=_SCHEMA)]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page."""
        shared = await self._shared[request.person.may("approver")].value()
        connect = None if shared["last_calls"] else self._connect(request)
        return PageView("overview.html", "Overview", {**shared, "connect": connect})

    async def _read(self, values: bool) -> dict[str, Any]:
        parts, now = self._parts, time.time()
        database = await parts.opened()
        waiting = await database.approvals.waiting(now=now)
        pending = await database.approvals.list("pending", most=200, now=now) if waiting else []
        calls = (await database.calls.find(CallQuery(), limit=_CALLS)).rows
        refusals = await self._refusals.value() if calls else []
        _, details = parts.report()
        servers = [_server(one, values=values) for one in parts.upstreams.values()]
        away = [one for one in servers if one["state"] in _DOWN]
        away.sort(key=lambda one: one["since"])
        servers.sort(key=lambda one: (-one["in_flight"], -(one["p95"] or 0.0), one["id"]))
        pins = parts.pins
        told = ((name, pins.held(name), pins.waiting(name)) for name in parts.upstreams) if pins is not None else ()
        held = [_held(name, items, waiting) for name, items, waiting in told if items or waiting]
        reported = reported_tools(parts, await database.tool_reports.list(), None)
        lists = sorted(parts.snapshot().lists.items(), key=lambda item: -item[1].whole)
        running, _ = await parts.running()
        hour = await self._hour.value()
        return {
            "now": now,
            "approvals": {
                "waiting": waiting,
                "oldest": [
                    {"id": one.id, "agent": one.agent_id[:_NAME], "tool": one.tool[:_NAME], "created": one.created}
                    for one in pending[:_WAITING]
                ],
            },
            "away": away[:_AWAY],
            "away_total": len(away),
            "held": held[:_HELD],
            "held_total": len(held),
            "reported": reported[:_HELD],
            "reported_total": len(reported),
            "problems": problems_of(details, values=values),
            "calls": _hour(hour) if hour is not None else None,
            "running": {
                "count": running.count,
                "longest": running.oldest[0].seconds if running.oldest else None,
                "name": running.oldest[0].name[:_NAME] if running.oldest else None,
                "id": running.oldest[0].id if running.oldest else None,
            },
            "failing": _tools(hour.failing) if hour is not None else [],
            "slowest": _tools(hour.slowest) if hour is not None else [],
            "refusals": [_refusal(one) for one in refusals if not one.is_limit],
            "limits": [_refusal(one) for one in refusals if one.is_limit],
            "servers": servers[:_SERVERS],
            "servers_total": len(servers),
            "tools": len(parts.gateway.catalog),
            "lists": [{"agent": name[:_NAME], "whole": one.whole, "shown": one.shown} for name, one in lists[:_LISTS]],
            "lists_total": len(lists),
            "last_calls": [_call(row) for row in calls],
        }

    async def _read_hour(self) -> Hour | None:
        """Return the last hour: by the rows of all processes, which outlive a restart; without an audit by what this
        process has counted.
        """
        if not self._parts.config().audit.enabled:
            return await self._parts.hour()
        now = time.time()
        rows = await (await self._parts.opened()).calls.times(now - MINUTES * 60)
        return await asyncio.to_thread(hour_of, rows, now)

    async def _read_refusals(self) -> list[RuleRefusals]:
        return await refusals_by_rule((await self._parts.opened()).engine, time.time() - _DAY, _NAMED)

    def _connect(self, request: ConsoleRequest) -> dict[str, Any]:
        """Return the address for hosts, and lines that connect some of them."""
        config = self._parts.config()
        here = request.origin + request.base.removesuffix(CONSOLE_PATH)
        stdio = json.dumps({"mcpServers": {"aggregator": {"command": "aggregator", "args": ["stdio"]}}})
        found: dict[str, Any] = {"url": None, "needs_key": not self._parts.access.keyless, "lines": []}
        http = config.http
        if http.enabled:
            url = found["url"] = f"{here}{http.path}"
            key = ' --header "Authorization: Bearer agk_..."' if found["needs_key"] else ""
            headers = {"headers": {"Authorization": "Bearer agk_..."}} if found["needs_key"] else {}
            entry = {"name": "aggregator", "type": "http", "url": url, **headers}
            served = json.dumps({"mcpServers": {"aggregator": {"type": "http", "url": url, **headers}}})
            found["lines"] = [
                {"host": "Claude Code", "line": f"claude mcp add --transport http aggregator {url}{key}"},
                {"host": "VS Code", "line": f"code --add-mcp '{json.dumps(entry)}'"},
                {"host": "Hosts with a file of servers", "line": served},
                {
                    "host": "Agent frameworks, which pass names and schemas to a model API",
                    "line": f"{here}{framework_path(http)}",
                },
            ]
        found["lines"].append({"host": "Hosts that start programs, such as Claude Desktop", "line": stdio})
        return found


def _server(upstream: Upstream, *, values: bool) -> dict[str, Any]:
    figures = dict(upstream.health.latency.figures(time.monotonic()).times)
    ready = upstream.state == "ready"
    return {
        "id": upstream.config.id,
        "href": link("servers", upstream.config.id),
        "state": "silent" if ready and not upstream.health.answers else upstream.state,
        "since": upstream.since,
        "reason": bounded(server_reason(upstream, values=values), _REASON),
        "in_flight": upstream.in_flight,
        "p95": figures.get("p95"),
    }


def _held(server: str, held: Sequence[HeldItem], waiting: Sequence[HeldItem]) -> dict[str, Any]:
    """Return a server with waiting definitions: a single one links to its page, several to the list of the server."""
    every = [*held, *waiting]
    only = every[0] if len(every) == 1 else None
    return {
        "id": server,
        "href": pin_link(server, only.kind, only.sent_as or only.name) if only is not None else link("pins", server),
        "count": len(every),
        "said": bounded(held_note(held, waiting), _SAID),
    }


def _tools(times: Sequence[ToolTimes]) -> list[dict[str, Any]]:
    """Return the first tools, without those that have no name in the metrics."""
    return [_tool(one) for one in times if one.tool not in (UNKNOWN, OTHER)][:_NAMED]


def _tool(times: ToolTimes) -> dict[str, Any]:
    return {
        "name": times.tool[:_NAME],
        "calls": times.calls,
        "failed": times.failed,
        "p50": times.p50,
        "p95": times.p95,
        "href": _calls_of(f"tool:{quoted(times.tool[:_NAME])}", "since:1h"),
    }


def _refusal(one: RuleRefusals) -> dict[str, Any]:
    return {
        "rule": one.rule,
        "source": one.source,
        "times": one.times,
        "agents": one.agents,
        "agent": one.agent,
        "tool": one.tool,
        "last": one.last,
        "href": _calls_of("status:denied", f"rule:{quoted(one.rule[:_NAME])}"),
    }


def _calls_of(*terms: str) -> str:
    return f"/calls?q={quote(' '.join(terms), safe='', errors='replace')}"


def _call(row: Any) -> dict[str, Any]:
    return {
        "seq": row["seq"],
        "started": row["started"],
        "status": row["status"],
        "agent": row["agent_id"][:_NAME],
        "tool": (row.get("tool_name") or row["asked_name"])[:_NAME],
        "duration": row["duration"],
    }


def _hour(hour: Hour) -> dict[str, Any]:
    """Return the last hour: its sums, and the bars of the chart, the newest at the right."""
    calls, failed, refused = (sum(minute[part] for minute in hour.minutes) for part in (1, 2, 3))
    highest = max((minute.calls for minute in hour.minutes), default=0)
    first = MINUTES - len(hour.minutes)
    return {
        "total": calls,
        "failed": failed,
        "refused": refused,
        "p50": hour.p50,
        "p95": hour.p95,
        "highest": highest,
        "minutes": [one._asdict() for one in hour.minutes],
        "bars": [
            bar
            for number, minute in enumerate(hour.minutes, first)
            if highest and minute.calls
            for bar in _bars(number, minute, highest)
        ],
    }


def _bars(number: int, minute: MinuteCounts, highest: int) -> list[dict[str, Any]]:
    """Return the rectangles of one minute: all calls, and at the foot those that were refused and that failed."""
    made, foot = [], 0
    parts = (("calls", minute.calls), ("failed", minute.failed), ("refused", minute.refused))
    for kind, count in parts:
        if not count:
            continue
        height = max(1, round(_HIGH * count / highest))
        height = min(height, _HIGH - foot)
        made.append({"kind": kind, "x": number * _STEP, "y": _HIGH - foot - height, "width": _BAR, "height": height})
        foot += height if kind != "calls" else 0
    return made
