"""What each agent sees: the catalog through the rulebook in force. Listed, found and callable are one and the same."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.listing import Listing
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.policy.limits import Limits
from aggregator.policy.live import Live
from aggregator.policy.open import OPEN
from aggregator.policy.rulebook import AgentRules, Rulebook, Ruling, Tightening, unknown_agent

# Agents whose list is kept ready; others' are made when they ask.
_KEPT: Final = 256


class Views:
    """One view per agent and state of the world, made when it is first asked for."""

    def __init__(self, live: Live | None, trusted: Mapping[str, bool]) -> None:
        self._live = live
        self._trusted = trusted
        self._listings: OrderedDict[str, tuple[Catalog, Rulebook | None, Listing]] = OrderedDict()

    @property
    def rulebook(self) -> Rulebook | None:
        """The rules in force; None where there are none and everything is allowed."""
        return self._live.rulebook if self._live is not None else None

    def rules(self, principal: Principal) -> AgentRules | None:
        """The rules of one agent, where there are any."""
        book = self.rulebook
        return book.for_agent(principal.agent_id) if book is not None else None

    def ruling(self, principal: Principal, tool: ToolRecord) -> Ruling:
        """All that is decided about one tool for one agent; asked once per call, so that none mixes two rulebooks."""
        book = self.rulebook
        if book is None:
            return OPEN
        rules = book.for_agent(principal.agent_id)
        if rules is None:
            return Ruling(unknown_agent(principal.agent_id), (), Limits(), None)
        return rules.rule(tool, trusted=self._trusted.get(tool.server, False))

    def listing(self, principal: Principal, catalog: Catalog) -> Listing:
        """What this agent may call, as it is to be shown to it."""
        book = self.rulebook
        if book is None:
            return catalog
        kept = self._listings.get(principal.agent_id)
        if kept is None or kept[0] is not catalog or kept[1] is not book:
            kept = (catalog, book, Listing(self._seen_by(principal, catalog)))
            self._listings[principal.agent_id] = kept
            while len(self._listings) > _KEPT:
                self._listings.popitem(last=False)
        self._listings.move_to_end(principal.agent_id)
        return kept[2]

    def style(self, principal: Principal, door: Style) -> Style:
        """How names are listed for this agent at a door."""
        rules = self.rules(principal)
        return rules.names if rules is not None and rules.names is not None else door

    def _seen_by(self, principal: Principal, catalog: Catalog) -> list[ToolRecord]:
        seen = []
        for tool in catalog.tools:
            ruling = self.ruling(principal, tool)
            if ruling.decision.visible:
                seen.append(tightened(tool, ruling.tightening))
        return seen


def tightened(tool: ToolRecord, rules: tuple[Tightening, ...]) -> ToolRecord:
    """The tool with the schema this agent is held to: its own, and each of the policy's beside it."""
    if not rules:
        return tool
    schema: Mapping[str, Any] = tool.definition["inputSchema"]
    held_to = [*schema.get("allOf", []), *(rule.schema for rule in rules)]
    definition = {**tool.definition, "inputSchema": {**schema, "allOf": held_to}}
    return replace(tool, definition=definition, rendered={})
