"""The frozen rulebook made from the documents: which agent may see and call what, and why.

Law: deciding is pure: no clock, no disk, no state but a cache of earlier rulings.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from aggregator.dialects.names import Schemas
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.decision import ConfirmBy, Decision
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.domain.records import ItemRecord, ToolRecord
from aggregator.domain.text.invisible import folded_name
from aggregator.flow.decide.decide_flow import NO_FLOW, ToolFlow
from aggregator.flow.decide.flow_book import FlowBook
from aggregator.policy.annotations import ANNOTATIONS, Annotation, ToolAnnotations, claimed_annotations, with_declared
from aggregator.policy.decide import DecisionFacts, Finding, MatchedRule, by_field, collect_findings, decision
from aggregator.policy.index import RuleIndex
from aggregator.policy.inherit import binding, bound_names, chain, setting
from aggregator.policy.limits import OF_RESULTS, Limits, limits_of
from aggregator.policy.patterns import Target, named_by_rules
from aggregator.policy.rules import Body, Documents, Key, Place, Rule, RuleField, Setting, body_of
from aggregator.policy.who import WhoDecision, decide_who, names_taken

# Rulings remembered by one rulebook: a bound on what many agents, or a server that renames its tools, can cost.
_REMEMBERED: Final = 100_000

# Tokens, and agents that rules `who` make, that are remembered.
_TOKENS: Final = 10_000
_NO_RULES: Final = RuleIndex(())
# Rules that grant something. For a name with invisible characters they must match it both with and without these;
# for any other rule one of the two is enough, so that such a name cannot evade it.
GIVING: Final = frozenset({"allow", "read_only", "idempotent", "retry", "pinned"})
# Why a call may be repeated that no rule speaks of.
TRUSTED_CLAIM: Final = "the trusted server's annotations"
_REPEATABLE: Final[tuple[RuleField, ...]] = ("retry", "idempotent", "read_only")
SETTINGS: Final = (
    "tenant",
    "confirm_by",
    "confirm_fallback",
    "confirm_wait",
    "denials",
    "names",
    "schemas",
    "expose",
    *(f"annotations.{trait}" for trait in ANNOTATIONS),
)

ConfirmFallback = Literal["deny", "queue"]
Expose = Literal["all", "search", "auto"]
Denials = Literal["explicit", "hidden"]


class Tightening(NamedTuple):
    """A JSON Schema that the arguments must fit besides the tool's own.

    `rule` and `source` say which rule demands it.
    """

    schema: Mapping[str, object]
    rule: str
    source: str


class AgentKey(NamedTuple):
    """A hashed API key and the agent it stands for."""

    agent_id: str
    key: Key


class Ruling(NamedTuple):
    """The decision on one tool for one agent, with its limits and conditions.

    `retry` is the reason why a call may be repeated, None for no reason. `read_only`: an operator or a trusted server
    declares that the tool only reads. `scopes`: the scopes that a token must have, as written in the rules. `flow`: the
    labels of its results, and the flow rules about its calls.
    """

    decision: Decision
    tightening: tuple[Tightening, ...]
    limits: Limits
    retry: str | None
    pinned: bool = False
    read_only: bool = False
    scopes: tuple[str, ...] = ()
    flow: ToolFlow = NO_FLOW


class SharedRules(NamedTuple):
    """The data that the agents of one rulebook have in common."""

    documents: Documents
    indexes: Mapping[str, RuleIndex]
    claims: Mapping[str, tuple[str, Place]]  # server id -> the tenant that claims it, and where
    memory: dict[tuple[object, ...], Ruling]
    flow: FlowBook
    limiting: frozenset[str]  # owners of rules that limit the size of results


class AgentRules:
    """The rules of one agent. Made by `Rulebook`."""

    def __init__(self, body: Body, shared: SharedRules, number: int = 0) -> None:
        documents = shared.documents
        self._shared = shared
        # Agents made by `who` rules may share a name and differ in their rules; no agent name contains a blank.
        self.key: Final = f"{body.name} {number}" if number else body.name
        self.agent_id: Final = body.name
        self.source: Final = str(body.place)
        self.steps: Final = chain(body, documents)
        self.roles: Final = tuple(step.body.name for step in self.steps if step.body.kind == "role")
        self.keys: Final = body.keys
        # True if a rule limits the size of results, which are then read on.
        self.limits_results: Final = any(step.body.owner in shared.limiting for step in self.steps)
        # The body of an agent that a rule `who` makes is in no file, and has no rules of its own.
        self._indexes = tuple((step, shared.indexes.get(step.body.owner, _NO_RULES)) for step in self.steps)

        settings = {name: setting(body, documents, name) for name in SETTINGS}
        self.settings: Final[Mapping[str, Setting]] = MappingProxyType({n: s for n, s in settings.items() if s})
        self.annotations: Final[Mapping[Annotation, Setting]] = MappingProxyType(
            {trait: found for trait in ANNOTATIONS if (found := settings[f"annotations.{trait}"])}
        )
        bound = {name: binding(body, documents, name) for name in bound_names(self.steps)}
        self.bindings: Final[Mapping[str, Setting]] = MappingProxyType({n: b for n, b in bound.items() if b})

        # The tenant; how a call that needs confirmation is confirmed, its outcome if the host cannot ask, and the
        # seconds that it waits in the queue (None: the default); whether a denial is explicit or answers as if the tool
        # did not exist; spelling and extent of lists (None: the frontend decides).
        self.tenant: Final[str | None] = self._value("tenant", None)
        self.confirm_by: Final[ConfirmBy] = self._value("confirm_by", "host")
        self.confirm_fallback: Final[ConfirmFallback] = self._value("confirm_fallback", "deny")
        self.confirm_wait: Final[float | None] = self._value("confirm_wait", None)
        self.denials: Final[Denials] = self._value("denials", "explicit")
        self.names: Final[Style | None] = self._value("names", None)
        self.schemas: Final[Schemas | None] = self._value("schemas", None)
        self.expose: Final[Expose | None] = self._value("expose", None)

    def __repr__(self) -> str:
        return f"<AgentRules {self.agent_id}: {' > '.join(self.roles) or 'no roles'}>"

    @property
    def claims(self) -> Mapping[str, tuple[str, Place]]:
        """The servers that tenants claim: id -> tenant, and the place of the claim."""
        return self._shared.claims

    # -- decisions

    def decide(self, tool: ToolRecord, *, trusted: bool) -> Decision:
        """Decide whether the agent may see and call `tool`; `trusted`: its upstream's annotations count."""
        return self.rule(tool, trusted=trusted).decision

    def rule(self, tool: ToolRecord, *, trusted: bool) -> Ruling:
        """Return the decision with everything that goes with it; cached."""
        annotations = claimed_annotations(tool.definition, trusted=trusted)
        key = (self.key, tool.server, tool.prefix, tool.own_name, tool.sent_as, annotations)
        memory = self._shared.memory
        known = memory.get(key)
        if known is None:
            if len(memory) >= _REMEMBERED:
                memory.clear()
            known = memory[key] = self._rule(target_of(tool), annotations)
        return known

    def decide_target(self, target: Target, claims: ToolAnnotations | None = None) -> Decision:
        """Decide whether the agent may see and use any target.

        `claims` are the annotations of its server that count, None unless it is a tool.
        """
        return decision(self.findings(target, claims), hidden=self.denials == "hidden")

    def findings(self, target: Target, claims: ToolAnnotations | None) -> tuple[Finding, ...]:
        """Return everything that speaks for or against `target`, in the order it counts: `decide` picks from it."""
        return self._findings(target, claims, by_field(self.matching(target)))

    def _findings(
        self, target: Target, annotations: ToolAnnotations | None, found: Mapping[RuleField, tuple[MatchedRule, ...]]
    ) -> tuple[Finding, ...]:
        if annotations is not None:
            annotations = with_declared(
                annotations, read_only=bool(found["read_only"]), idempotent=bool(found["idempotent"])
            )
        claim = self.claims.get(target.server)
        names = _plain_names(target) if target.kind == "tool" else ()
        return collect_findings(
            DecisionFacts(
                agent=self.agent_id,
                target=target,
                matched=found,
                tenant=self.tenant,
                claimed_by=claim[0] if claim else None,
                claim_source=str(claim[1]) if claim else None,
                bindings=tuple((name, self.bindings[name]) for name in names if name in self.bindings),
                tool_annotations=annotations,
                annotations=self.annotations,
                agent_source=self.source,
            )
        )

    def matching(self, target: Target) -> Iterator[MatchedRule]:
        """Yield every rule of the agent that speaks of `target`, the nearest first, in the order of places.

        For a tool or prompt that its server calls otherwise now, a rule that grants something counts only if one does
        for the other name too.
        """
        if (sent := target.as_sent) is None:
            yield from self._matching(target)
            return
        found, others = list(self._matching(target)), list(self._matching(sent))
        granted = {one.rule.field for one in found} & {one.rule.field for one in others}
        every = {id(one.rule): one for one in (*found, *others)}
        yield from (one for one in every.values() if one.rule.field not in GIVING or one.rule.field in granted)

    def _matching(self, target: Target) -> Iterator[MatchedRule]:
        seen = replace(target, name=name) if (name := folded_name(target.name)) != target.name else None
        for step, index in self._indexes:
            matching = list(index.matching(target))
            if seen is not None:
                also = list(index.matching(seen))
                both = {id(rule) for rule in matching} & {id(rule) for rule in also}
                every = {id(rule): rule for rule in (*matching, *also)}
                matching = [rule for at, rule in every.items() if rule.field not in GIVING or at in both]
            rules = sorted(matching, key=lambda rule: (rule.pattern.text, rule.place))
            yield from (MatchedRule(rule, step.route) for rule in rules)

    def scopes_of(self, target: Target) -> tuple[str, ...]:
        """Return the scopes that a token must have for a tool or an item, as the rules write them."""
        return _scopes(by_field(self.matching(target))["scopes"])

    # -- conditions of a call

    def flow_of(self, target: Target) -> ToolFlow:
        """Return the labels and flow rules of a resource, a prompt or another thing that no annotations speak of."""
        return self._shared.flow.flow_of(target)

    def tightening(self, tool: ToolRecord) -> tuple[Tightening, ...]:
        """Return the JSON Schemas its arguments must all fit besides the tool's own."""
        return self.rule(tool, trusted=False).tightening

    def limits(self, tool: ToolRecord) -> Limits:
        """Return every limit that a call of `tool` counts against."""
        return self.rule(tool, trusted=False).limits

    def retry(self, tool: ToolRecord, *, trusted: bool) -> str | None:
        """Return the reason why a call may be repeated after a failure; None for no reason."""
        return self.rule(tool, trusted=trusted).retry

    def binding(self, plain_name: str) -> str | None:
        """Return the id of the server whose tool a plain name means for this agent; asked before any other spelling."""
        bound = self.bindings.get(plain_name)
        return bound.value if bound is not None else None

    def _value(self, name: str, otherwise: Any) -> Any:
        found = self.settings.get(name)
        return found.value if found is not None else otherwise

    def _rule(self, target: Target, claims: ToolAnnotations) -> Ruling:
        found = by_field(self.matching(target))
        decided = decision(self._findings(target, claims, found), hidden=self.denials == "hidden")
        tightened = tuple(
            Tightening(rule.value, f"{rule} of {rule.owner}", str(rule.place)) for rule, _ in found["arguments"]
        )
        limits = limits_of(self.agent_id, found["limits"])
        read_only = claims.read_only or bool(found["read_only"])
        pinned, scopes = bool(found["pinned"]), _scopes(found["scopes"])
        flow = self._shared.flow.flow_of(target, claims)
        return Ruling(decided, tightened, limits, _may_repeat(found, claims), pinned, read_only, scopes, flow)


class Rulebook:
    """The policy of all files at one moment; swapped whole, never changed."""

    def __init__(self, documents: Documents) -> None:
        self.revision: Final = documents.revision
        self.documents: Final = documents
        bodies = [*documents.agents.values(), *documents.roles.values()]
        bodies += [documents.defaults] if documents.defaults is not None else []
        indexes = {body.owner: RuleIndex(body.rules) for body in bodies}
        # The labels and flow rules. `has_flow`: there is a flow rule; without one a gateway has nothing to keep.
        self.flow: Final = FlowBook(documents)
        self.has_flow: Final = self.flow.has_rules
        self.decay: Final = self.flow.decay
        # All that comes with one key is one conversation.
        self.one_conversation: Final = documents.conversation is not None and documents.conversation.value == "key"
        limiting = frozenset(body.owner for body in bodies if any(map(_limits_results, body.rules)))
        shared = self._shared = SharedRules(documents, indexes, _claims(documents), {}, self.flow, limiting)
        self.agents: Final[Mapping[str, AgentRules]] = MappingProxyType(
            {name: AgentRules(body, shared) for name, body in sorted(documents.agents.items())}
        )
        self._taken = names_taken(documents.who, self.agents)
        self._known_tokens: LruCache[tuple[object, ...], WhoDecision] = LruCache(_TOKENS)
        self._made: LruCache[tuple[str, int], AgentRules] = LruCache(_TOKENS)

    def __repr__(self) -> str:
        return f"<Rulebook {self.revision}: {len(self.agents)} agents, {len(self.documents.roles)} roles>"

    def who(self, token: TokenFacts, *, one_issuer: bool = True) -> WhoDecision:
        """Return the agent that a verified token stands for. `one_issuer`: the tokens of one alone are accepted."""
        key = (token.issuer, token.subject, token.client, token.groups, token.scopes, one_issuer)
        found = self._known_tokens.get(key)
        if found is None:
            found = decide_who(self.documents.who, token, self._taken, one_issuer=one_issuer)
            if found.agent_id in self.agents:
                found = found._replace(made=False)
            self._known_tokens.put(key, found)
        return found

    def for_principal(self, principal: Principal) -> AgentRules | None:
        """Return the rules of the agent behind a request, also of one that a rule `who` makes; None for an unknown one.

        A token that stands for another agent by now has no rules.
        """
        if principal.token is None:
            return self.agents.get(principal.agent_id)
        found = self.who(principal.token)
        return self.for_token(found) if found.agent_id == principal.agent_id else None

    def for_token(self, found: WhoDecision) -> AgentRules | None:
        """Return the rules of the agent that a token stands for."""
        if found.agent_id is None or not found.made:
            return self.agents.get(found.agent_id) if found.agent_id is not None else None
        rule = next(rule for rule in self.documents.who if str(rule) == found.rule)
        known = self._made.get((found.agent_id, rule.number))
        if known is None:
            known = AgentRules(body_of(rule, found.agent_id), self._shared, rule.number)
            self._made.put((found.agent_id, rule.number), known)
        return known

    @property
    def agents_and_made(self) -> dict[str, AgentRules]:
        """The agents of the files, and such as each rule `who` makes, by names like `s-{subject} (rule 2 of who)`."""
        made = {f"{rules.agent_id} (rule {rules.key.split()[1]} of who)": rules for rules in self.made_by_rules()}
        return {**self.agents, **made}

    def made_by_rules(self) -> Iterator[AgentRules]:
        """Yield, for each rule `who` that makes agents, the rules of such an agent, by the name as the rule has it."""
        for rule in self.documents.who:
            if rule.agent not in self.agents:
                yield AgentRules(body_of(rule, rule.agent), self._shared, rule.number)

    def for_agent(self, agent_id: str) -> AgentRules | None:
        """Return the rules of one agent; None for an agent that no policy file has, which may do nothing."""
        return self.agents.get(agent_id)

    def decide(self, principal: Principal, tool: ToolRecord, *, trusted: bool) -> Decision:
        """Decide for the agent of `principal`, also for one that no policy file has."""
        rules = self.for_principal(principal)
        return rules.decide(tool, trusted=trusted) if rules is not None else unknown_agent(principal.agent_id)

    @property
    def keys(self) -> tuple[AgentKey, ...]:
        """The hashed API keys of every agent."""
        return tuple(AgentKey(name, key) for name, rules in self.agents.items() for key in rules.keys)


def unknown_agent(agent_id: str) -> Decision:
    """Return the decision about anything for an agent that no policy file has."""
    shown = ascii(agent_id) if len(agent_id) <= 80 else f"{agent_id[:80]!a}..."
    return Decision("deny", "unknown agent", f"no policy file knows the agent {shown}", hidden=True)


def target_of(tool: ToolRecord) -> Target:
    """Return a tool as patterns see it: one without a prefix by the id of its server."""
    sent_as = tool.sent_as if tool.sent_as != tool.own_name else ""
    return Target("tool", tool.server, tool.prefix or tool.server, tool.own_name, sent_as=sent_as)


def target_of_item(item: ItemRecord, skills: tuple[str, ...] = ()) -> Target:
    """Return a listed item as patterns see it; `skills` are the listed skills that it is a file of."""
    kind, name = named_by_rules(item.kind, item.own_name)
    sent_as = item.sent_as if kind == "prompt" else ""
    return Target(kind, item.server, item.prefix or item.server, name, True, (), skills, sent_as)


def _plain_names(target: Target) -> Iterable[str]:
    """Return the names by which bindings may mean a tool."""
    sent = target.as_sent
    return dict.fromkeys((target.name, target.full, *((sent.name, sent.full) if sent is not None else ())))


def _limits_results(rule: Rule) -> bool:
    return rule.field == "limits" and not rule.value.keys().isdisjoint(OF_RESULTS)


def _scopes(rules: tuple[MatchedRule, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scope for rule, _ in rules for scope in rule.value))


def _may_repeat(found: Mapping[RuleField, tuple[MatchedRule, ...]], claims: ToolAnnotations) -> str | None:
    for field in _REPEATABLE:
        for rule, _ in found[field]:
            return f"{rule} of {rule.owner} ({rule.place})"
    return TRUSTED_CLAIM if claims.idempotent else None


def _claims(documents: Documents) -> Mapping[str, tuple[str, Place]]:
    return {server: (name, place) for name, servers in documents.tenants.items() for server, place in servers.items()}
