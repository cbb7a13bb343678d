"""The road of a decision: everything that speaks for or against, in the order it counts.

Law: `judge` finds, `pick` decides, and explanations show what `judge` found: there is no second road.
The first denial counts; without one, the first wish for confirmation; without one, the first that allows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from aggregator.domain.decision import Decision
from aggregator.policy.annotations import TRAITS, ToolTraits, Trait
from aggregator.policy.patterns import Target
from aggregator.policy.rules import RULE_FIELDS, Rule, RuleField, Setting

Effect = Literal["deny", "confirm", "allow", "note"]

_TRAIT_WORDS: Final[Mapping[Trait, str]] = {
    "destructive": "may destroy something",
    "open_world": "reaches the open world",
    "read_only": "only reads",
    "idempotent": "may be repeated harmlessly",
}


class MatchedRule(NamedTuple):
    """A rule that speaks of the target, and the road from the agent to it."""

    rule: Rule
    route: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that speaks for or against; `undo` says how an admin would take it away."""

    effect: Effect
    rule: str
    reason: str
    undo: str
    source: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """What `judge` needs to know of an agent and a target. `traits` is None for what has no annotations.

    `claimed_by` is the tenant that claims the target's server, `bindings` are those whose plain name is the target's.
    """

    agent: str
    target: Target
    found: Mapping[RuleField, tuple[MatchedRule, ...]]
    tenant: str | None
    claimed_by: str | None
    claim_source: str | None
    bindings: tuple[tuple[str, Setting], ...]
    traits: ToolTraits | None
    annotations: Mapping[Trait, Setting]
    agent_source: str | None


def sort_out(found: Iterable[MatchedRule]) -> dict[RuleField, tuple[MatchedRule, ...]]:
    """The rules by field, each in the order it came."""
    sorted_out: dict[RuleField, list[MatchedRule]] = {field: [] for field in RULE_FIELDS}
    for one in found:
        sorted_out[one.rule.field].append(one)
    return {field: tuple(rules) for field, rules in sorted_out.items()}


def judge(facts: DecisionFacts) -> tuple[Finding, ...]:
    """Everything that speaks for or against, the one that counts most first within its kind."""
    denied = [_by_rule(one, "deny", "denies") for one in facts.found["deny"]]
    granted = [_by_rule(one, "allow", "allows") for one in facts.found["allow"]]
    asked = [_by_rule(one, "confirm", "wants a person to confirm") for one in facts.found["confirm"]]
    tempered = list(_by_annotations(facts))
    return (
        *_by_tenant(facts),
        *_by_binding(facts),
        *denied,
        *(granted or [_by_default(facts)]),
        *(finding for finding in tempered if finding.effect == "deny"),
        *asked,
        *(finding for finding in tempered if finding.effect != "deny"),
    )


def pick(findings: Iterable[Finding]) -> Finding:
    """The finding that decides."""
    for_effect: dict[Effect, Finding] = {}
    for finding in findings:
        for_effect.setdefault(finding.effect, finding)
    return for_effect.get("deny") or for_effect.get("confirm") or for_effect["allow"]


def decision(findings: Iterable[Finding], *, hidden: bool) -> Decision:
    """The verdict; `hidden` says whether this agent's denials are hidden."""
    decisive = pick(findings)
    assert decisive.effect != "note"
    return Decision(
        verdict=decisive.effect,
        rule=decisive.rule,
        reason=decisive.reason,
        source=decisive.source,
        hidden=decisive.effect == "deny" and (hidden or decisive.hidden),
    )


def _by_rule(one: MatchedRule, effect: Effect, verb: str) -> Finding:
    rule = one.rule
    how = "" if " > " not in one.route else f" ({one.route})"
    return Finding(
        effect,
        str(rule),
        f'{rule.owner} {verb} "{rule.pattern}"{how}',
        f'take "{rule.pattern}" out of `{rule.field}` of {rule.owner} ({rule.place})',
        str(rule.place),
    )


def _by_default(facts: DecisionFacts) -> Finding:
    return Finding(
        "deny",
        "default",
        f"nothing allows {facts.target} to agent {facts.agent}",
        f'add "{facts.target.pattern}" to `allow` of agent {facts.agent} or of one of its roles ({facts.agent_source})',
        facts.agent_source,
    )


def _by_tenant(facts: DecisionFacts) -> Iterable[Finding]:
    if facts.claimed_by is None or facts.claimed_by == facts.tenant:
        return
    own = f"tenant {facts.tenant}" if facts.tenant is not None else "no tenant"
    yield Finding(
        "deny",
        f"tenant {facts.claimed_by}",
        f"server {facts.target.server} belongs to tenant {facts.claimed_by}, agent {facts.agent} to {own}",
        f"take {facts.target.server} out of `servers` of tenant {facts.claimed_by} ({facts.claim_source}), "
        f"or give agent {facts.agent} `tenant: {facts.claimed_by}`",
        facts.claim_source,
        hidden=True,
    )


def _by_binding(facts: DecisionFacts) -> Iterable[Finding]:
    target = facts.target
    named_in_full = any(one.rule.pattern.literal and one.rule.pattern.kind == "tool" for one in facts.found["allow"])
    for plain_name, bound in facts.bindings:
        rule = f"binding {plain_name}: {bound.value}"
        if bound.value == target.server:
            if plain_name == target.name:
                yield Finding("note", rule, f"{plain_name} means this tool", "", str(bound.place))
            continue
        if plain_name != target.full and named_in_full:
            reason = f"{plain_name} means the tool of {bound.value}, and this one is allowed by its full name"
            yield Finding("note", rule, reason, "", str(bound.place))
            continue
        undo = f"take the binding out of {bound.owner} ({bound.place})"
        if plain_name != target.full:
            undo += f', or allow "{target}" by its full name'
        reason = f"{bound.owner} binds {plain_name} to server {bound.value}, and this is server {target.server}"
        yield Finding("deny", rule, reason, undo, str(bound.place))


def _by_annotations(facts: DecisionFacts) -> Iterable[Finding]:
    if facts.traits is None:
        return
    for trait in TRAITS:
        bound = facts.annotations.get(trait)
        if bound is None or not getattr(facts.traits, trait) or bound.value == "allow":
            continue
        effect: Effect = "deny" if bound.value == "deny" else "confirm"
        yield Finding(
            effect,
            f"annotations.{trait}: {bound.value}",
            f"{bound.owner} has `{trait}: {bound.value}`, and as far as is known this tool {_TRAIT_WORDS[trait]}",
            _undo_trait(trait, facts.target.pattern, bound),
            str(bound.place),
        )


def _undo_trait(trait: Trait, name: str, bound: Setting) -> str:
    undo = f"change `annotations.{trait}` of {bound.owner} ({bound.place})"
    return f'{undo}, or add "{name}" to `read_only` if it only reads' if trait == "destructive" else undo
