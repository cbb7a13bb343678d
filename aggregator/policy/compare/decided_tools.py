"""The decisions of one agent on all tools at once, with each rule and setting that they come from.

Law: each decision here equals that of `decide` for the tool, in the same order of importance.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aggregator.policy.annotations import ANNOTATIONS, Annotation
from aggregator.policy.compare.tool_sets import ToolSet, ToolSets
from aggregator.policy.rulebook import AgentRules
from aggregator.policy.rules import Body, Place, Rule, RuleField

DECIDING: Final[tuple[RuleField, ...]] = ("deny", "allow", "confirm", "confirm_people", "read_only", "idempotent")


class Origin(NamedTuple):
    """A rule or setting of an agent that decides about `tools`. `owner` has it, None for a tenant's."""

    text: str
    owner: str | None
    place: Place
    tools: ToolSet
    rule: Rule | None = None


# The key is the content of an origin without its place, so that moved lines stay equal.
Origins = Mapping[tuple[str, ...], Origin]


@dataclass(frozen=True, slots=True)
class BodyTools:
    """The rules of one body with the tools they match: `origins` by field, and in `tools` all of a field together.

    `named`: the tools that an `allow` names in full.
    """

    origins: Mapping[RuleField, Origins]
    tools: Mapping[RuleField, ToolSet]
    named: ToolSet


@dataclass(slots=True)
class DecidedTools:
    """The tools denied to one agent, and those that need confirmation; all others are allowed.

    `people`: tools that several confirmers have to agree to, by their number. `allowed`: tools that an `allow` matches,
    denied or not. `denials` and `confirmations` are the settings that decide, besides the rules of the bodies.
    """

    rules: AgentRules
    bodies: dict[str, BodyTools]
    denied: ToolSet = 0
    confirmed: ToolSet = 0
    people: dict[int, ToolSet] = field(default_factory=dict)
    allowed: ToolSet = 0
    denials: dict[tuple[str, ...], Origin] = field(default_factory=dict)
    confirmations: dict[tuple[str, ...], Origin] = field(default_factory=dict)

    def origins(self, name: RuleField) -> Iterator[tuple[tuple[str, ...], Origin]]:
        """Yield the rules of one field, the nearest body first."""
        for body in self.bodies.values():
            yield from body.origins[name].items()


class RuledTools:
    """The rules of one rulebook with the tools they match; each body is worked out once.

    `like`: the ruled tools of the other rulebook; a body with equal rules is reused, as the same object.
    """

    def __init__(self, sets: ToolSets, like: "RuledTools | None" = None) -> None:
        self._sets = sets
        self._like = like
        self._bodies: dict[str, BodyTools] = {}
        self._known: dict[str, Body] = {}

    def body_steps(self, body: Body) -> Iterator[None]:
        """Work out the tools of a body, rule by rule; a new pattern takes time."""
        if body.owner in self._bodies:
            return
        other = self._like._known.get(body.owner) if self._like is not None else None
        if self._like is not None and other is not None and rule_keys(other) == rule_keys(body):
            self._known[body.owner] = body
            self._bodies[body.owner] = self._like._bodies[body.owner]
            return
        origins: dict[RuleField, dict[tuple[str, ...], Origin]] = {name: {} for name in DECIDING}
        tools: dict[RuleField, ToolSet] = dict.fromkeys(DECIDING, 0)
        named = 0
        for rule in body.rules:
            if rule.field not in tools:
                continue
            matched = self._sets.matching(rule)
            key = (rule.owner, *_rule_key(rule))
            origins[rule.field][key] = Origin(str(rule), rule.owner, rule.place, matched, rule)
            tools[rule.field] |= matched
            if rule.field == "allow" and rule.pattern.literal and rule.pattern.kind == "tool":
                named |= matched
            yield
        self._known[body.owner] = body
        self._bodies[body.owner] = BodyTools(origins, tools, named)

    def decide(self, rules: AgentRules) -> DecidedTools:
        """Return the decisions for an agent whose bodies are worked out."""
        found = DecidedTools(rules, {step.body.owner: self._bodies[step.body.owner] for step in rules.steps})
        together: dict[RuleField, ToolSet] = dict.fromkeys(DECIDING, 0)
        named = 0
        for body in found.bodies.values():
            named |= body.named
            for name, tools in body.tools.items():
                together[name] |= tools
        self._add_tenants(found)
        self._add_bindings(found, named)
        traits = self._traits(together)
        for trait, bound in rules.annotations.items():
            if bound.value == "allow":
                continue
            origin = Origin(f"annotations.{trait}: {bound.value}", bound.owner, bound.place, traits[trait])
            target = found.denials if bound.value == "deny" else found.confirmations
            target["annotations", trait] = origin
        found.allowed = together["allow"]
        found.denied = together["deny"] | (self._sets.everything & ~found.allowed)
        for origin in found.denials.values():
            found.denied |= origin.tools
        found.confirmed = together["confirm"] | together["confirm_people"]
        for origin in found.confirmations.values():
            found.confirmed |= origin.tools
        found.confirmed &= ~found.denied
        self._add_people(found)
        return found

    @staticmethod
    def _add_people(found: DecidedTools) -> None:
        """Record the number of confirmations: the largest number for a tool counts."""
        numbers: dict[int, ToolSet] = {}
        for _, origin in found.origins("confirm_people"):
            if origin.rule is not None and origin.rule.value > 1:
                numbers[origin.rule.value] = numbers.get(origin.rule.value, 0) | origin.tools
        left = found.confirmed
        for number in sorted(numbers, reverse=True):
            if tools := numbers[number] & left:
                found.people[number] = tools
                left &= ~tools

    def _add_tenants(self, found: DecidedTools) -> None:
        rules = found.rules
        for server, (tenant, place) in rules.claims.items():
            tools = self._sets.of_server(server)
            if tools and tenant != rules.tenant:
                text = f"tenant {tenant} has server {server}"
                found.denials["tenant", server] = Origin(text, None, place, tools)

    def _add_bindings(self, found: DecidedTools, named: ToolSet) -> None:
        for plain_name, bound in found.rules.bindings.items():
            own, full = self._sets.of_plain_name(plain_name)
            # A tool that is allowed by its full name stays, unless the bound name is its full name.
            denied = ((own & ~named) | full) & ~self._sets.of_server(bound.value)
            text = f"binding {plain_name}: {bound.value}"
            found.denials["binding", plain_name, bound.value] = Origin(text, bound.owner, bound.place, denied)

    def _traits(self, declared: Mapping[RuleField, ToolSet]) -> Mapping[Annotation, ToolSet]:
        """Return the tools with each trait, by their servers and by the operator's declarations."""
        claimed = {trait: self._sets.claiming(trait) for trait in ANNOTATIONS}
        read_only = declared["read_only"]
        return {
            "destructive": claimed["destructive"] & ~read_only,
            "open_world": claimed["open_world"],
            "read_only": claimed["read_only"] | read_only,
            "idempotent": claimed["idempotent"] | read_only | declared["idempotent"],
        }


def rule_keys(body: Body) -> tuple[tuple[str, ...], ...]:
    """Return a key that is equal for bodies with the same deciding rules, regardless of place."""
    return tuple(_rule_key(rule) for rule in body.rules if rule.field in DECIDING)


def _rule_key(rule: Rule) -> tuple[str, ...]:
    people = (str(rule.value),) if rule.field == "confirm_people" else ()
    return rule.field, rule.pattern.text, *people
