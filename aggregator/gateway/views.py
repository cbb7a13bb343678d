"""What each agent sees: the catalog through the rulebook in force. Listed, found and callable are one and the same."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.listing import Listing
from aggregator.catalog.offer import Offer
from aggregator.config.model import ServerConfig
from aggregator.config.settings import Expose
from aggregator.domain.decision import ConfirmBy, Decision
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ItemKind, ItemRecord, ToolRecord
from aggregator.domain.schema_walk import positions
from aggregator.gateway.kept import Kept
from aggregator.policy.limits import Limits
from aggregator.policy.live import Live
from aggregator.policy.open import OPEN
from aggregator.policy.rulebook import Rulebook, Ruling, Tightening, unknown_agent
from aggregator.policy.traits import claimed
from aggregator.wire.codec import encode

# Agents whose list is kept ready; others' are made when they ask.
_KEPT: Final = 256
# Of one agent: what was decided about resources and prompts that may be gone by now.
_REMEMBERED: Final = 50_000


class Confirming(NamedTuple):
    """How the agreement of a person is had: who says yes, and what is done where the host cannot ask."""

    by: ConfirmBy = "host"
    fallback: Literal["deny", "queue"] = "deny"


class View:
    """One agent under one rulebook. Taken once per request, so that nothing in it mixes two of them."""

    def __init__(self, principal: Principal, book: Rulebook | None, trusted: Mapping[str, bool]) -> None:
        self.principal = principal
        self.book = book
        self._rules = book.for_agent(principal.agent_id) if book is not None else None
        self._trusted = trusted

    @property
    def open(self) -> bool:
        """Whether there are no rules at all, so that everything is allowed."""
        return self.book is None

    @property
    def confirming(self) -> Confirming:
        """How the agreement of a person to a call of this agent is had."""
        rules = self._rules
        return Confirming(rules.confirm_by, rules.confirm_fallback) if rules is not None else Confirming()

    def style(self, door: Style) -> Style:
        """How names are listed for this agent at a door."""
        return self._rules.names or door if self._rules is not None else door

    def binding(self, name: str) -> str | None:
        """The id of the server whose tool a plain name means for this agent."""
        return self._rules.binding(name) if self._rules is not None else None

    def ruling(self, tool: ToolRecord) -> Ruling:
        """All that is decided about one tool."""
        if self.book is None:
            return OPEN
        if self._rules is None:
            return Ruling(unknown_agent(self.principal.agent_id), (), Limits(), None)
        return self._rules.rule(tool, trusted=self._trusted.get(tool.server, False))

    def sees(self, tool: ToolRecord) -> bool:
        """Whether the tool exists for this agent."""
        return self.ruling(tool).decision.visible

    def decide(
        self, kind: ItemKind, server: ServerConfig, own: str, *, listed: bool = False, also: tuple[str, ...] = ()
    ) -> Decision:
        """Whether the agent may have something else of a server: what it reads by this URI, or gets by this name.

        `listed` and `also` are those of `AgentRules.decide_resource`.
        """
        return self._decide(kind, server.id, server.prefix, own, listed, also)

    def shows(self, item: ItemRecord) -> bool:
        """Whether a resource, template or prompt exists for this agent; a template counts as the URI it looks like."""
        return self._decide(item.kind, item.server, item.prefix, item.own_name, True, ()).visible

    def _decide(
        self, kind: ItemKind, server: str, prefix: str, own: str, listed: bool, also: tuple[str, ...]
    ) -> Decision:
        if self.book is None:
            return OPEN.decision
        if self._rules is None:
            return unknown_agent(self.principal.agent_id)
        if kind == "prompt":
            return self._rules.decide_prompt(server, own, prefix=prefix)
        return self._rules.decide_resource(server, own, prefix=prefix, listed=listed, also=also)

    def might_use(self, server: ServerConfig, own_name: str = "?") -> bool:
        """Whether a server that is not there yet may be named to this agent: it could call whatever has that name."""
        return self.supposed(server, own_name).visible

    def supposed(self, server: ServerConfig, own_name: str) -> Decision:
        """What would be decided about a tool of that name, whether or not there is one."""
        return self.ruling(ToolRecord(server.id, server.prefix, own_name, {}, {}, server.timeout)).decision

    def read_only(self, tool: ToolRecord) -> bool:
        """Whether a word that counts says that the tool only reads: the admin's, or a trusted server's."""
        if self.book is None:
            return claimed(tool.definition, trusted=self._trusted.get(tool.server, False)).read_only
        return self.ruling(tool).read_only

    def expose(self, door: Expose) -> Expose:
        """How much is listed for this agent at a door."""
        return self._rules.expose or door if self._rules is not None else door


class Views:
    """The views of now, and their lists as long as neither the catalog nor the rulebook changes.

    `trusted` says so of servers by id; it is swapped whole, together with the catalog.
    """

    def __init__(self, live: Live | None, trusted: Mapping[str, bool]) -> None:
        self._live = live
        self.trusted = trusted
        self._listings: Kept[Listing] = Kept(_KEPT)
        self._offers: Kept[Offer] = Kept(_KEPT)
        self._shown: Kept[dict[tuple[ItemKind, str, str], bool]] = Kept(_KEPT)

    @property
    def rulebook(self) -> Rulebook | None:
        """The rules in force; None where there are none and everything is allowed."""
        return self._live.rulebook if self._live is not None else None

    def of(self, principal: Principal) -> View:
        """What this agent sees now."""
        return View(principal, self.rulebook, self.trusted)

    def listing(self, view: View, catalog: Catalog) -> Listing:
        """What this agent may call, as it is to be shown to it."""
        if view.open:
            return catalog.listed

        def make() -> Listing:
            seen = ((tool, view.ruling(tool)) for tool in catalog.listed.tools)
            return Listing(tightened(tool, r.tightening) for tool, r in seen if r.decision.visible)

        return self._listings.get(view.principal.agent_id, (catalog, view.book), make)

    def offer(self, view: View, offer: Offer) -> Offer:
        """What this agent may read and get."""
        if view.open:
            return offer
        agent = view.principal.agent_id

        def make() -> Offer:
            # A list that grows by one entry is not all decided about again.
            known = self._shown.get(agent, (view.book,), dict)
            if len(known) > _REMEMBERED:
                known.clear()

            def shows(item: ItemRecord) -> bool:
                key = item.kind, item.server, item.own_name
                if key not in known:
                    known[key] = view.shows(item)
                return known[key]

            return offer.only(shows)

        return self._offers.get(agent, (offer, view.book), make)


def tightened(tool: ToolRecord, rules: tuple[Tightening, ...]) -> ToolRecord:
    """The tool with the schema this agent is held to: its own, and each of the policy's beside it."""
    schema: Mapping[str, Any] = tool.definition["inputSchema"]
    own = schema.get("allOf", [])
    if not rules or not isinstance(own, list):
        return tool
    held_to = [*own, *(_standing_alone(rule.schema) for rule in rules)]
    definition = {**tool.definition, "inputSchema": {**schema, "allOf": held_to}}
    return replace(tool, definition=definition, rendered={})


def _standing_alone(schema: Mapping[str, object]) -> Mapping[str, object]:
    """A policy's schema inside another: an `$id` of its own keeps its references its own."""
    if "$id" in schema or not any("$ref" in node or "$dynamicRef" in node for _, node in positions(schema)):
        return schema
    return {"$id": f"urn:aggregator:rule:{blake2b(encode(schema), digest_size=8).hexdigest()}", **schema}
