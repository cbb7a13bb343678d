"""The view of each agent: the catalog through the rulebook in force. Listed, found and callable are the same set."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from aggregator.catalog.catalog import Catalog, ServerTools
from aggregator.catalog.listing import Listing
from aggregator.catalog.resources import ItemCatalog, item_catalog_steps
from aggregator.config.server_config import ServerConfig
from aggregator.config.settings import Expose
from aggregator.dialects.names import Schemas
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.decision import ConfirmBy, Decision
from aggregator.domain.missing import InsufficientScope
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ItemKind, ItemRecord, ToolRecord
from aggregator.domain.schema_walk import positions
from aggregator.flow.decide.decide_flow import NO_FLOW, ToolFlow
from aggregator.gateway.views.cache import SnapshotCache
from aggregator.policy.annotations import claimed_annotations
from aggregator.policy.limits import Limits
from aggregator.policy.live import LivePolicies
from aggregator.policy.open_mode import OPEN, open_ruling
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import Rulebook, Ruling, Tightening, target_of_item, unknown_agent
from aggregator.policy.who import lacking, together
from aggregator.skills.uris import skill_name
from aggregator.wire.codec import encode

# Agents whose lists are cached.
_KEPT: Final = 256
# Decisions about items that are remembered for one agent, those about removed items included.
_REMEMBERED: Final = 50_000
# Up to so many tools or items are decided about without slices.
_AT_ONCE: Final = 200
# All of an item that rules see, its server's prefix too: a reload may change that.
_ItemKey = tuple[ItemKind, str, str, str, tuple[str, ...], str]


class ConfirmRule(NamedTuple):
    """The settings of confirmation: who confirms, and the fallback for hosts that cannot ask.

    `wait` is the number of seconds that a call waits in the queue; None for the default.
    """

    by: ConfirmBy = "host"
    fallback: Literal["deny", "queue"] = "deny"
    wait: float | None = None


class View:
    """One agent under one rulebook, taken once per request, so that no request mixes two rulebooks."""

    def __init__(self, principal: Principal, rulebook: Rulebook | None, trusted: Mapping[str, bool]) -> None:
        self.principal = principal
        self.rulebook = rulebook
        self._rules = rulebook.for_principal(principal) if rulebook is not None else None
        self.trusted = trusted
        # A call asks for it when it looks for its tool, and again when it has found it.
        self._ruled: tuple[ToolRecord, Ruling] | None = None

    @property
    def key(self) -> str:
        """The rules of the agent as a text: different for different rules, even if agents share a name."""
        return self._rules.key if self._rules is not None else f"{self.principal.agent_id} without rules"

    @property
    def open(self) -> bool:
        """True if there are no rules, so that everything is allowed."""
        return self.rulebook is None

    @property
    def has_flow(self) -> bool:
        """True if there are flow rules, so that it counts what each conversation reads."""
        return self.rulebook is not None and self.rulebook.has_flow

    @property
    def limits_results(self) -> bool:
        """True if a rule of this agent limits the size of results."""
        return self._rules is not None and self._rules.limits_results

    @property
    def confirming(self) -> ConfirmRule:
        """The confirmation settings for calls of this agent."""
        rules = self._rules
        if rules is None:
            return ConfirmRule()
        return ConfirmRule(rules.confirm_by, rules.confirm_fallback, rules.confirm_wait)

    def style(self, frontend: Style) -> Style:
        """Return the spelling of names in this agent's lists; `frontend` has its default."""
        return self._rules.names or frontend if self._rules is not None else frontend

    def dialect(self, host: Schemas) -> Schemas:
        """Return the dialect of this agent's lists; `host` has its default."""
        return self._rules.schemas or host if self._rules is not None else host

    def lists_all(self, *, of_host: bool) -> bool:
        """Return whether lists may have more tools than a model API takes: not if a policy names the dialect."""
        return of_host and (self._rules is None or self._rules.schemas is None)

    def binding(self, name: str) -> str | None:
        """Return the id of the server whose tool a plain name means for this agent."""
        return self._rules.binding(name) if self._rules is not None else None

    def ruling(self, tool: ToolRecord) -> Ruling:
        """Return everything that is decided about one tool."""
        if self.rulebook is None:
            return open_ruling(tool, trusted=self.trusted.get(tool.server, False))
        if self._rules is None:
            return Ruling(unknown_agent(self.principal.agent_id), (), Limits(), None)
        if self._ruled is not None and self._ruled[0] is tool:
            return self._ruled[1]
        ruling = self._rules.rule(tool, trusted=self.trusted.get(tool.server, False))
        self._ruled = tool, ruling
        return ruling

    def may_stand_in(self, tool: ToolRecord) -> bool:
        """Tell whether a tool may answer in place of another: it needs no confirmation and no scopes."""
        ruling = self.ruling(tool)
        return ruling.decision.verdict == "allow" and has_scopes(self.principal, ruling.scopes)

    def require_scopes(self, name: str, wanted: tuple[str, ...], meant: ToolRecord | None = None) -> None:
        """Check that the token of the agent, if it came with one, has the scopes that rules require for a tool or an
        item.

        Raises:
            InsufficientScope: it lacks some; the error names all required scopes.
        """
        token = self.principal.token
        missing = lacking(wanted, token.scopes) if token is not None else ()
        if token is not None and missing:
            said = f"{name} needs a token with the scope {' '.join(missing)}."
            raise InsufficientScope(name, said, together(token.scopes, missing), meant=meant)

    def item_scopes(self, target: Target) -> tuple[str, ...]:
        """Return the scopes that rules require for a resource, a prompt or a skill, if the agent came with a token."""
        if self._rules is None or self.principal.token is None:
            return ()
        return self._rules.scopes_of(target)

    def item_flow(self, target: Target) -> ToolFlow:
        """Return the flow labels of a resource, a prompt or a skill, and the flow rules about it."""
        return self._rules.flow_of(target) if self._rules is not None else NO_FLOW

    def file_labels(self, skill: ItemRecord, uri: str) -> frozenset[str]:
        """Return the flow labels of a file of a listed skill, by its server's own URI."""
        if self._rules is None:
            return frozenset()
        name, prefix = skill_name(skill.own_name), skill.prefix or skill.server
        skills = (name,) if name is not None else ()
        return self._rules.flow_of(Target("resource", skill.server, prefix, uri, skills=skills)).labels

    def is_visible(self, tool: ToolRecord) -> bool:
        """Return whether the tool is visible to this agent."""
        return self.ruling(tool).decision.visible

    def may_read_on(self, catalog: Catalog, server: str, own_name: str) -> bool:
        """Return whether this agent may read on in a result that it got of a tool: unless it is denied by now."""
        tool = catalog.of_server(server, own_name)
        return tool is None or self.is_visible(tool)

    def decide(self, target: Target) -> Decision:
        """Return the decision about a resource, a prompt or a skill."""
        if self.rulebook is None:
            return OPEN.decision
        if self._rules is None:
            return unknown_agent(self.principal.agent_id)
        return self._rules.decide_target(target)

    def shows(self, item: ItemRecord, skills: tuple[str, ...] = ()) -> bool:
        """Return whether an item is visible; a template counts as the URI it looks like. `skills` are those that it is
        a file of.
        """
        return self.open or self.decide(target_of_item(item, skills)).visible

    def might_use(self, server: ServerConfig, own_name: str = "?") -> bool:
        """Return whether a server without a known catalog may be named to this agent: it could call a tool of that
        name.
        """
        return self.decide_name(server, own_name).visible

    def might_use_entry(self, name: str) -> bool:
        """Return whether an entry of the configuration that cannot be used may be named to this agent."""
        return self.ruling(ToolRecord(name, name, "?", {}, {}, 0.0)).decision.visible

    def decide_name(self, server: ServerConfig, own_name: str) -> Decision:
        """Return the decision about a tool of that name, whether or not there is one."""
        return self.ruling(ToolRecord(server.id, server.prefix, own_name, {}, {}, server.timeout)).decision

    def read_only(self, tool: ToolRecord) -> bool:
        """Return whether a tool only reads, by the word of the operator or of a trusted server."""
        if self.rulebook is None:
            return claimed_annotations(tool.definition, trusted=self.trusted.get(tool.server, False)).read_only
        return self.ruling(tool).read_only

    def expose(self, frontend: Expose) -> Expose:
        """Return how much is listed for this agent, given the setting of the frontend."""
        return self._rules.expose or frontend if self._rules is not None else frontend


def has_scopes(principal: Principal, wanted: tuple[str, ...]) -> bool:
    """Tell whether an agent has the scopes that rules require; an agent without a token needs none."""
    return principal.token is None or not lacking(wanted, principal.token.scopes)


class Views:
    """The views of all agents, with their lists cached while neither the catalog nor the rulebook changes.

    `trusted` maps server ids to whether they are trusted; it is replaced as a whole, together with the catalog.
    """

    def __init__(self, live: LivePolicies | None, trusted: Mapping[str, bool]) -> None:
        self._live = live
        self.trusted = trusted
        self._listings: SnapshotCache[Listing] = SnapshotCache(_KEPT)
        self._item_catalogs: SnapshotCache[ItemCatalog] = SnapshotCache(_KEPT)
        self._shown: SnapshotCache[dict[_ItemKey, bool]] = SnapshotCache(_KEPT)
        self._parts: SnapshotCache[dict[ServerTools, tuple[ToolRecord, ...]]] = SnapshotCache(_KEPT)

    @property
    def rulebook(self) -> Rulebook | None:
        """The rules in force; None if there are none and everything is allowed."""
        return self._live.rulebook if self._live is not None else None

    def is_trusted(self, server: str) -> bool:
        """Return whether a server is trusted, by its id."""
        return self.trusted.get(server, False)

    def of(self, principal: Principal) -> View:
        """Return the current view of a principal."""
        return View(principal, self.rulebook, self.trusted)

    def listing(self, view: View, catalog: Catalog) -> Listing:
        """Return the tools that an agent may call, in its listed form."""
        if view.open:
            return catalog.listed
        made_of = catalog, view.rulebook
        return self._listings.get(view.key, made_of, lambda: at_once(self._listing(view, catalog)))

    def resources(self, view: View, items: ItemCatalog) -> ItemCatalog:
        """Return the resources, templates, prompts and skills that an agent may have."""
        if view.open:
            return items
        made_of = items, view.rulebook
        return self._item_catalogs.get(view.key, made_of, lambda: at_once(self._item_steps(view, items)))

    def is_ready(self, view: View, catalog: Catalog, items: ItemCatalog) -> bool:
        """Return whether `listing` and `items` are cached or short for this agent."""
        known = len(catalog) <= _AT_ONCE or self._listings.has(view.key, (catalog, view.rulebook))
        return view.open or (known and self.resources_ready(view, items))

    def resources_ready(self, view: View, items: ItemCatalog) -> bool:
        """Return whether `items` is cached or short for this agent."""
        known = len(items.items) <= _AT_ONCE or self._item_catalogs.has(view.key, (items, view.rulebook))
        return view.open or known

    async def prepare_listing(self, view: View, catalog: Catalog, slices: Slices) -> Listing:
        """Return the result of `listing`, worked out in slices."""
        agent, made_of = view.key, (catalog, view.rulebook)
        if not view.open and not self._listings.has(agent, made_of):
            self._listings.put(agent, made_of, await slices.run(self._listing(view, catalog)))
        return self.listing(view, catalog)

    async def prepare_resources(self, view: View, items: ItemCatalog, slices: Slices) -> ItemCatalog:
        """Return the result of `items`, worked out in slices."""
        agent, made_of = view.key, (items, view.rulebook)
        if not view.open and not self._item_catalogs.has(agent, made_of):
            self._item_catalogs.put(agent, made_of, await slices.run(self._item_steps(view, items)))
        return self.resources(view, items)

    def _listing(self, view: View, catalog: Catalog) -> Steps[Listing]:
        """Decide about each tool; decisions about servers that did not change are reused."""
        known = self._parts.get(view.key, (view.rulebook, view.trusted), dict)
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

    def _item_steps(self, view: View, items: ItemCatalog) -> Steps[ItemCatalog]:
        """Decide about each item; earlier decisions under the same rulebook are reused."""
        known = self._shown.get(view.key, (view.rulebook,), dict)
        if len(known) > _REMEMBERED:
            known.clear()
        seen: list[ItemRecord] = []
        for item in items.items:
            yield
            skills = items.skill_names(item.server, item.own_name) if item.kind in ("resource", "template") else ()
            key = item.kind, item.server, item.prefix, item.own_name, skills, item.sent_as
            if key not in known:
                known[key] = view.shows(item, skills)
            if known[key]:
                seen.append(item)
        return (yield from item_catalog_steps(seen))


def tightened(tool: ToolRecord, rules: tuple[Tightening, ...]) -> ToolRecord:
    """Return the tool with the schema in force for this agent: its own and the policy's, in `allOf`."""
    schema: Mapping[str, Any] = tool.definition["inputSchema"]
    own = schema.get("allOf", [])
    if not rules or not isinstance(own, list):
        return tool
    held_to = [*own, *(_standing_alone(rule.schema) for rule in rules)]
    definition = {**tool.definition, "inputSchema": {**schema, "allOf": held_to}}
    return replace(tool, definition=definition, rendered={})


def _standing_alone(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a policy's schema for use inside another: its own `$id` keeps its references local."""
    if "$id" in schema or not any("$ref" in node or "$dynamicRef" in node for _, node in positions(schema)):
        return schema
    return {"$id": f"urn:aggregator:rule:{blake2b(encode(schema), digest_size=8).hexdigest()}", **schema}
