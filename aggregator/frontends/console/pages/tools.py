"""The list of tools: all of them, those that an agent sees, or what `search_tools` finds for it and why."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.domain.records import ToolRecord
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import (
    ROWS,
    bounded,
    chosen_agent,
    chosen_level,
    chosen_page,
    link,
    offered_agents,
    view_of,
    why,
)
from aggregator.frontends.console.view import BadInput, ConsoleRequest, PageRoute, PageView

# Characters of one tool in the list, by level, in JSON, and of a query.
_TEXT: Final[Mapping[int, int]] = {1: 240, 2: 260, 3: 260}
_WHOLE: Final = 20_000
_LONGEST_QUERY: Final = 2_000
_NAME: Final = 200
# Held tools that are named above the list.
_HELD: Final = 20

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": {"type": "object"}},
        "held": {"type": "array", "items": {"type": "object"}, "description": "tools that wait for an approval"},
        "total": {"type": "integer"},
        "page": {"type": "integer"},
        "pages": {"type": "integer"},
        "cost": {"type": ["object", "null"]},
    },
}


class ToolsPage:
    """The list of tools and the search in it."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._browser = parts.browser

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        return [
            PageRoute(
                "GET",
                "/tools",
                "viewer",
                self.show,
                "Tools: all, those an agent sees, or what search_tools finds for it and why",
                _SCHEMA,
                {
                    "q": "words to search for, as in search_tools",
                    "as": "the agent whose tools they are; empty for all",
                    "level": "1, 2 or 3: how much of a tool is shown",
                    "server": "only tools of this server, by its id or prefix",
                    "page": f"the page, of {ROWS} tools each, from 1",
                },
            )
        ]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page."""
        parts, query = self._parts, request.query.get("q", "").strip()
        if len(query) > _LONGEST_QUERY:
            raise BadInput("q", f"A query may have {_LONGEST_QUERY} characters.")
        principal, level, page = (
            chosen_agent(parts, request, request.query),
            chosen_level(request, 1),
            chosen_page(request),
        )
        server = request.query.get("server", "").strip() or None
        view = view_of(parts, principal)
        if query:
            found: Sequence[ToolRecord] = await self._browser.search(view, query, server)
        else:
            found = await self._browser.tools(view, server)
        pages = max(1, -(-len(found) // ROWS))
        page = min(page, pages)
        shown = found[(page - 1) * ROWS : page * ROWS]
        texts = await self._browser.described(view, shown, level)
        reasons = await self._browser.reasons(view, query, shown, server) if query else {}
        rows = [
            {
                "name": tool.name[:_NAME],
                "href": link("tools", tool.name),
                "server": tool.server,
                "source": self._browser.source(tool),
                "text": _line(tool, text.text, level, _WHOLE if request.as_json else _TEXT[level]),
                "tokens": text.tokens,
                "why": why(reasons.get(tool.name)),
                "action": reasons[tool.name].action if tool.name in reasons else 1.0,
                "spelling": reasons[tool.name].spelling if tool.name in reasons else 0.0,
            }
            for tool, text in zip(shown, texts, strict=True)
        ]
        held = await self._browser.held_tools(view, query, server)
        meaning = self._browser.meaning_progress
        data = {
            "query": query,
            "agent": principal.agent_id if principal is not None else "",
            "agents": offered_agents(parts),
            "level": level,
            "server": server or "",
            "page": page,
            "pages": pages,
            "total": len(found),
            "tools": rows,
            "held": [
                {
                    "name": one.tool.name[:_NAME],
                    "href": link("tools", one.tool.name),
                    "server": one.tool.server,
                    "why": bounded(one.why.why, _NAME),
                }
                for one in held[:_HELD]
            ],
            "held_total": len(held),
            "not_indexed": self._browser.not_indexed if query else 0,
            "meaning": meaning._asdict() if query and meaning is not None else None,
            "unsearchable": self._unsearchable(server) if query else [],
            "nearest": await self._browser.nearest(view, query) if query and not found else [],
            "away": self._away() if not (query and found) else [],
            "cost": await self._cost(principal) if principal is not None else None,
        }
        return PageView("tools.html", "Tools", data, fragment="_tools.html")

    async def _cost(self, principal: Any) -> dict[str, int]:
        cost = await self._browser.cost(principal)
        return {
            "tools": cost.tools,
            "tokens": cost.tokens,
            "shown_tools": cost.shown_tools,
            "shown_tokens": cost.shown_tokens,
        }

    def _unsearchable(self, server: str | None) -> list[dict[str, str]]:
        """Return the servers that were searched and whose tools cannot be found by words."""
        failed = self._browser.unsearchable
        found = (one.config for one in self._parts.upstreams.values() if one.config.id in failed)
        asked = [one for one in found if server in (None, one.id, one.prefix)]
        return [{"name": one.id, "href": link("servers", one.id)} for one in asked[:ROWS]]

    def _away(self) -> list[dict[str, str]]:
        """Return servers whose tools cannot be found now."""
        away = [one for one in self._parts.upstreams.values() if not one.listed]
        return [
            {"name": one.config.id, "state": one.state, "href": link("servers", one.config.id)} for one in away[:ROWS]
        ]


def _line(tool: ToolRecord, text: str | None, level: int, most: int) -> str:
    """Return the list entry of a tool; at level 1 without its name, which precedes it."""
    if text is None:
        return "too large to be shown here"
    return bounded(text.removeprefix(f"{tool.name}: ") if level == 1 else text, most)
