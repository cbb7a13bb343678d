"""The list of all pages. The first matching route is used."""

from collections.abc import Sequence
from typing import Protocol

from aggregator.accounts.console import ConnectionsPage
from aggregator.frontends.console.pages.agents import AgentsPage
from aggregator.frontends.console.pages.approvals import ApprovalsPage
from aggregator.frontends.console.pages.calls import CallsPage
from aggregator.frontends.console.pages.events import EventsPage
from aggregator.frontends.console.pages.health import HealthPage
from aggregator.frontends.console.pages.overview import OverviewPage
from aggregator.frontends.console.pages.policies import PoliciesPage
from aggregator.frontends.console.pages.policy_edit import PolicyEditPage
from aggregator.frontends.console.pages.servers import ServersPage
from aggregator.frontends.console.pages.tool import ToolPage
from aggregator.frontends.console.pages.tools import ToolsPage
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import PageRoute
from aggregator.pins.console.page import PinsPage
from aggregator.tool_reports.console import ReportsPage


class PageGroup(Protocol):
    """A page with its actions."""

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""


def all_pages(parts: ConsoleParts) -> list[PageGroup]:
    """Return every page."""
    return [
        OverviewPage(parts),
        ApprovalsPage(parts),
        CallsPage(parts),
        ToolsPage(parts),
        ToolPage(parts),
        ServersPage(parts),
        PinsPage(parts),
        ConnectionsPage(parts),
        AgentsPage(parts),
        PoliciesPage(parts),
        PolicyEditPage(parts),
        HealthPage(parts),
        ReportsPage(parts),
        EventsPage(parts),
    ]
