"""The tool reports on pages: all of them, those of one tool, and the button that clears them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import bounded, link
from aggregator.frontends.console.view import (
    BadInput,
    ConsoleRequest,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
    SignedIn,
)
from aggregator.tool_reports.rows import LONGEST, ToolReport

# Characters of a name; agents of one tool that are shown, and tools.
_NAME: Final = 300
_AGENTS: Final = 20
_TOOLS: Final = 200
_SCHEMA: Final = {
    "type": "object",
    "required": ["tools", "taken"],
    "properties": {
        "taken": {"type": "boolean", "description": "agents may report tools: `report_tool` is on"},
        "tools": {"type": "array", "description": "reported tools, the latest first, with the reasons of each agent"},
    },
}


class ReportsPage:
    """The list of reported tools, and the clearing of reports."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        fields = {"server": "The id of the server.", "tool": "The own name of the tool."}
        return [
            PageRoute("GET", "/reports", "viewer", self.list, "Tools that agents reported as broken", schema=_SCHEMA),
            PageRoute("POST", "/reports/clear", "operator", self.clear, "Clear the reports of a tool", fields=fields),
        ]

    async def list(self, request: ConsoleRequest) -> PageView:
        """Return the reported tools."""
        reports = await (await self._parts.opened()).tool_reports.list()
        tools = reported(self._parts, reports, request.person)
        data = {"tools": tools[:_TOOLS], "left_out": max(0, len(tools) - _TOOLS), "taken": _taken(self._parts)}
        return PageView("reports.html", "Reports", data)

    async def clear(self, request: ConsoleRequest) -> Redirect:
        """Clear the reports of a tool.

        Raises:
            BadInput: no tool is named.
            NotThere: nothing is reported of it.
        """
        server, tool = request.form.get("server", ""), request.form.get("tool", "")
        if not server or not tool:
            raise BadInput("server" if not server else "tool", "Send the server and the tool.")
        count = await (await self._parts.opened()).tool_reports.clear(server, tool)
        if not count:
            raise NotThere(f"Nothing is reported of {tool[:_NAME]!r} of {server[:_NAME]!r}: it may be cleared by now.")
        by = request.person.name
        said = f"{by} cleared the reports of {tool[:80]} of {server[:80]}."
        details = {"by": by, "about": f"{server[:80]}.{tool[:80]}", "reports": count}
        self._parts.record("tool_reports", said, server=server, details=details)
        return Redirect("/reports")


async def of_tool(parts: ConsoleParts, server: str, tool: str, person: SignedIn) -> list[dict[str, Any]]:
    """Return the reports of one tool; at most one entry."""
    return reported(parts, await (await parts.opened()).tool_reports.list(server, tool), person)


def reported(parts: ConsoleParts, reports: Sequence[ToolReport], person: SignedIn | None) -> list[dict[str, Any]]:
    """Return the reported tools in the order of their latest reports, with their agents.

    Reasons are texts of agents: people who may not see values get counts alone, as does a page without `person`.
    """
    found: dict[tuple[str, str], list[ToolReport]] = {}
    for report in reports:
        found.setdefault((report.server, report.tool), []).append(report)
    shows = person is not None and person.may("approver")
    return [_reported(parts, server, tool, some, shows=shows) for (server, tool), some in found.items()]


def _reported(
    parts: ConsoleParts, server: str, tool: str, reports: Sequence[ToolReport], *, shows: bool
) -> dict[str, Any]:
    upstream = parts.upstreams.get(server)
    prefix = upstream.config.prefix if upstream is not None else server
    name = f"{prefix}.{tool}" if prefix else tool
    return {
        "server": server,
        "tool": tool,
        "name": name[:_NAME],
        "href": link("tools", name) if upstream is not None else "",
        "times": sum(one.times for one in reports),
        "last": max(one.last for one in reports),
        "agent_count": len(reports),
        "agents": [_of_agent(one, shows=shows) for one in reports[:_AGENTS]],
    }


def _of_agent(report: ToolReport, *, shows: bool) -> Mapping[str, Any]:
    reasons = [{**one._asdict(), "text": bounded(one.text, LONGEST)} for one in report.reasons] if shows else []
    return {"agent": report.agent_id, "times": report.times, "last": report.last, "reasons": reasons}


def _taken(parts: ConsoleParts) -> bool:
    return parts.gateway.takes_reports
