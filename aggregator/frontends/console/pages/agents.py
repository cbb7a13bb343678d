"""The agents: their roles, their visible tools and the cost of these, and their recent calls and refusals."""

import time
from collections.abc import Sequence
from typing import Any, Final

from aggregator.flow.decide.decide_flow import how_long_ago
from aggregator.flow.storage import FlowRow
from aggregator.frontends.console.foreign_words import error_text
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import ROWS, bounded, chosen_page, link, view_of
from aggregator.frontends.console.view import ConsoleRequest, NotThere, PageRoute, PageView
from aggregator.storage.audit.recent import RecentCall, calls_of_agent

_CALLS: Final = 10
_NAME: Final = 200
_WHY: Final = 300


class AgentsPage:
    """The list of agents, and one of them."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._browser = parts.browser

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        page = {"q": "part of the name", "page": f"the page, of {ROWS} agents each, from 1"}
        return [
            PageRoute("GET", "/agents", "viewer", self.listed, "The agents of the policies", fields=page),
            PageRoute(
                "GET", "/agents/{name}", "viewer", self.show, "One agent: roles, what it sees, what it did lately"
            ),
        ]

    async def listed(self, request: ConsoleRequest) -> PageView:
        """Return the list."""
        query, page = request.query.get("q", "").strip()[:_NAME], chosen_page(request)
        found = [agent for agent in self._browser.agents() if query.lower() in agent.lower()]
        pages = max(1, -(-len(found) // ROWS))
        page = min(page, pages)
        shown = found[(page - 1) * ROWS : page * ROWS]
        rows = []
        for agent in shown:
            principal = self._browser.principal(agent)
            if principal is not None:
                roles = [role[:_NAME] for role in principal.roles[:ROWS]]
                rows.append({"name": agent, "href": link("agents", agent), "tenant": principal.tenant, "roles": roles})
        data = {
            "query": query,
            "page": page,
            "pages": pages,
            "total": len(found),
            "agents": rows,
            "open": self._is_open(),
        }
        return PageView("agents.html", "Agents", data)

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page of one agent."""
        name = request.path["name"]
        principal = self._browser.principal(name)
        if principal is None:
            raise NotThere(f"There is no agent {name[:_NAME]!r} in the policies.")
        view = view_of(self._parts, principal)
        cost = await self._browser.cost(principal)
        database = await self._parts.opened()
        engine, now, values = database.engine, time.time(), request.person.may("approver")
        by_server: dict[str, int] = {}
        for tool in await self._browser.tools(view):
            by_server[tool.server] = by_server.get(tool.server, 0) + 1
        held = await self._browser.held_tools(view)
        live = self._parts.policies
        rules = live.rulebook.for_agent(name) if live is not None and live.rulebook is not None else None
        data = {
            "name": name,
            "open": self._is_open(),
            "tenant": principal.tenant,
            "roles": [role[:_NAME] for role in principal.roles[:ROWS]],
            "source": rules.source if rules is not None else None,
            "settings": {setting: str(found.value)[:_NAME] for setting, found in list(rules.settings.items())[:ROWS]}
            if rules is not None
            else {},
            "cost": {
                "tools": cost.tools,
                "tokens": cost.tokens,
                "shown_tools": cost.shown_tools,
                "shown_tokens": cost.shown_tokens,
            },
            "servers": [
                {"id": server, "tools": count, "href": link("servers", server)}
                for server, count in list(by_server.items())[:ROWS]
            ],
            "server_count": len(by_server),
            "held": [{"name": one.tool.name[:_NAME], "href": link("tools", one.tool.name)} for one in held[:_CALLS]],
            "held_count": len(held),
            "read": [_read(row, now) for row in (await database.flow.show(name, now=now))[:ROWS]],
            "calls": [_call(one, values=values) for one in await calls_of_agent(engine, name, _CALLS)],
            "refusals": [_call(one, values=values) for one in await calls_of_agent(engine, name, _CALLS, refused=True)],
        }
        return PageView("agent.html", name, data)

    def _is_open(self) -> bool:
        return self._parts.policies is None or self._parts.policies.rulebook is None


def _read(row: FlowRow, now: float) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "scope": row.shown,
        "label": row.label,
        "tool": row.tool[:_NAME],
        "trace_id": row.trace_id,
        "last": row.last,
        "ago": how_long_ago(now - row.last),
        "expires": row.expires,
    }


def _call(call: RecentCall, *, values: bool) -> dict[str, Any]:
    return {
        "seq": call.seq,
        "href": link("calls", str(call.seq)),
        "started": call.started,
        "tool": call.tool[:_NAME],
        "status": call.status,
        "duration": call.duration,
        "why": bounded(error_text(call.status, call.code, call.why or None, values=values) or "", _WHY),
        "rule": call.rule,
        "rule_source": call.rule_source,
    }
