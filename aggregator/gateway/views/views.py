"""What each agent sees: the catalog through the rulebook in force. Listed, found and callable are one and the same."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from aggregator.catalog.catalog import Catalog, ServerTools
from aggregator.catalog.listing import Listing
from aggregator.catalog.resources import ItemCatalog, offer_steps
from aggregator.config.model import ServerConfig
from aggregator.config.settings import Expose
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.decision import ConfirmBy, Decision
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ItemKind, ItemRecord, ToolRecord
from aggregator.domain.schema_walk import positions
from aggregator.gateway.views.cache import SnapshotCache
from aggregator.policy.annotations import claimed
from aggregator.policy.limits import Limits
from aggregator.policy.live import LivePolicies
from aggregator.policy.open_mode import OPEN
from aggregator.policy.rulebook import Rulebook, Ruling, Tightening, unknown_agent
from aggregator.wire.codec import encode

# Agents whose list is kept ready; others' are made when they ask.
_KEPT: Final = 256
# Of one agent: what was decided about resources and prompts that may be gone by now.
_REMEMBERED: Final = 50_000
# Lists of so many tools or items are decided about in one go.
_AT_ONCE: Final = 200


class ConfirmRule(NamedTuple):
    """How the agreement of a person is had: who says yes, and what is done where the host cannot ask."""

    by: ConfirmBy = "host"
    fallback: Literal["deny", "queue"] = "deny"


class View:
    """One agent under one rulebook. Taken once per request, so that nothing in it mixes two of them."""

    def __init__(self, principal: Principal, book: Rulebook | None, trusted: Mapping[str, bool]) -> None:
        self.principal = principal
        self.book = book
        self._rules = book.for_agent(principal.agent_id) if book is not None else None
        self.trusted = trusted

    @property
    def open(self) -> bool:
        """Whether there are no rules at all, so that everything is allowed."""
        return self.book is None

    @property
    def confirming(self) -> ConfirmRule:
        """How the agreement of a person to a call of this agent is had."""
        rules = self._rules
        return ConfirmRule(rules.confirm_by, rules.confirm_fallback) if rules is not None else ConfirmRule()

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
        return self._rules.rule(tool, trusted=self.trusted.get(tool.server, False))

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
            return claimed(tool.definition, trusted=self.trusted.get(tool.server, False)).read_only
        return self.ruling(tool).read_only

    def expose(self, door: Expose) -> Expose:
        """How much is listed for this agent at a door."""
        return self._rules.expose or door if self._rules is not None else door


class Views:
    """The views of now, and their lists as long as neither the catalog nor the rulebook changes.

    `trusted` says so of servers by id; it is swapped whole, together with the catalog.
    """

    def __init__(self, live: LivePolicies | None, trusted: Mapping[str, bool]) -> None:
        self._live = live
        self.trusted = trusted
        self._listings: SnapshotCache[Listing] = SnapshotCache(_KEPT)
        self._offers: SnapshotCache[ItemCatalog] = SnapshotCache(_KEPT)
        self._shown: SnapshotCache[dict[tuple[ItemKind, str, str], bool]] = SnapshotCache(_KEPT)
        self._parts: SnapshotCache[dict[ServerTools, tuple[ToolRecord, ...]]] = SnapshotCache(_KEPT)

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
        made_of = catalog, view.book
        return self._listings.get(view.principal.agent_id, made_of, lambda: at_once(self._listing(view, catalog)))

    def offer(self, view: View, offer: ItemCatalog) -> ItemCatalog:
        """What this agent may read and get."""
        if view.open:
            return offer
        made_of = offer, view.book
        return self._offers.get(view.principal.agent_id, made_of, lambda: at_once(self._offer(view, offer)))

    def knows(self, view: View, catalog: Catalog, offer: ItemCatalog) -> bool:
        """Whether `listing` and `offer` take but a moment for this agent."""
        known = len(catalog) <= _AT_ONCE or self._listings.has(view.principal.agent_id, (catalog, view.book))
        return view.open or (known and self.knows_offer(view, offer))

    def knows_offer(self, view: View, offer: ItemCatalog) -> bool:
        """Whether `offer` takes but a moment for this agent."""
        known = len(offer.items) <= _AT_ONCE or self._offers.has(view.principal.agent_id, (offer, view.book))
        return view.open or known

    async def listed(self, view: View, catalog: Catalog, slices: Slices) -> Listing:
        """Return what `listing` returns, worked out in pieces."""
        agent, made_of = view.principal.agent_id, (catalog, view.book)
        if not view.open and not self._listings.has(agent, made_of):
            self._listings.put(agent, made_of, await slices.run(self._listing(view, catalog)))
        return self.listing(view, catalog)

    async def offered(self, view: View, offer: ItemCatalog, slices: Slices) -> ItemCatalog:
        """Return what `offer` returns, worked out in pieces."""
        agent, made_of = view.principal.agent_id, (offer, view.book)
        if not view.open and not self._offers.has(agent, made_of):
            self._offers.put(agent, made_of, await slices.run(self._offer(view, offer)))
        return self.offer(view, offer)

    def _listing(self, view: View, catalog: Catalog) -> Steps[Listing]:
        """Decide about each tool; about those of servers that did not change it is decided already."""
        known = self._parts.get(view.principal.agent_id, (view.book, view.trusted), dict)
        now: dict[ServerTools, tuple[ToolRecord, ...]] = {}
        for part in catalog.parts:
            shown = known.get(part)
            if shown is None:
                seen: list[ToolRecord] = []
                for tool in part.listed:
                    yield
                    ruling = view.ruling(tool)
                    if ruling.decision.visible:
                        seen.append(tightened(tool, ruling.tightening))
                shown = known[part] = tuple(seen)
            now[part] = shown
        for part in known.keys() - now.keys():
            known.pop(part, None)
        return Listing(chain.from_iterable(now.values()))

    def _offer(self, view: View, offer: ItemCatalog) -> Steps[ItemCatalog]:
        """Decide about each item; a list that grows by one entry is not all decided about again."""
        known = self._shown.get(view.principal.agent_id, (view.book,), dict)
        if len(known) > _REMEMBERED:
            known.clear()
        seen: list[ItemRecord] = []
        for item in offer.items:
            yield
            key = item.kind, item.server, item.own_name
            if key not in known:
                known[key] = view.shows(item)
            if known[key]:
                seen.append(item)
        return (yield from offer_steps(seen))


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
