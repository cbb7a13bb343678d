"""Decide about one target: collect everything that speaks for or against, in the order it counts, and pick from it.

Law: `collect_findings` finds, `decisive_finding` decides, and explanations show what `collect_findings` found: there is
no second path to a decision. The first denial counts; without one, the first wish for confirmation; without one, the
first that allows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from aggregator.domain.decision import Decision
from aggregator.policy.annotations import ANNOTATIONS, Annotation, ToolAnnotations
from aggregator.policy.patterns import Target
from aggregator.policy.rules import RULE_FIELDS, Rule, RuleField, Setting

Effect = Literal["deny", "confirm", "allow", "note"]

_ANNOTATION_WORDS: Final[Mapping[Annotation, str]] = {
    "destructive": "may destroy something",
    "open_world": "reaches the open world",
    "read_only": "only reads",
    "idempotent": "may be repeated harmlessly",
}


class MatchedRule(NamedTuple):
    """A rule that speaks of the target, and the line of inheritance from the agent to it."""

    rule: Rule
    route: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason for or against; `undo` tells an operator how to remove it. `people`: confirmations required."""

    effect: Effect
    rule: str
    reason: str
    undo: str
    source: str | None = None
    hidden: bool = False
    people: int = 1


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """The facts about an agent and a target that a decision depends on.

    `claimed_by` is the tenant that claims the target's server, `bindings` are those whose plain name is the target's.
    `tool_annotations` are the annotations that count, None for a target without any.
    """

    agent: str
    target: Target
    matched: Mapping[RuleField, tuple[MatchedRule, ...]]
    tenant: str | None
    claimed_by: str | None
    claim_source: str | None
    bindings: tuple[tuple[str, Setting], ...]
    tool_annotations: ToolAnnotations | None
    annotations: Mapping[Annotation, Setting]
    agent_source: str | None


def by_field(found: Iterable[MatchedRule]) -> dict[RuleField, tuple[MatchedRule, ...]]:
    """Return the rules by field, each in the order it came."""
    sorted_out: dict[RuleField, list[MatchedRule]] = {field: [] for field in RULE_FIELDS}
    for one in found:
        sorted_out[one.rule.field].append(one)
    return {field: tuple(rules) for field, rules in sorted_out.items()}


def collect_findings(facts: DecisionFacts) -> tuple[Finding, ...]:
    """Return everything that speaks for or against, within each kind the finding that counts most first."""
    denied = [_by_rule(one, "deny", "denies") for one in facts.matched["deny"]]
    granted = [_by_rule(one, "allow", "allows") for one in facts.matched["allow"]]
    several = sorted(facts.matched["confirm_people"], key=lambda one: -one.rule.value)
    confirmed = [_by_people(one) for one in several]
    confirmed += [_by_rule(one, "confirm", "wants a person to confirm") for one in facts.matched["confirm"]]
    tempered = list(_by_annotations(facts))
    return (
        *_by_tenant(facts),
        *_by_binding(facts),
        *denied,
        *(granted or [_by_default(facts)]),
        *(finding for finding in tempered if finding.effect == "deny"),
        *confirmed,
        *(finding for finding in tempered if finding.effect != "deny"),
    )


def decisive_finding(findings: Iterable[Finding]) -> Finding:
    """Return the finding that decides."""
    for_effect: dict[Effect, Finding] = {}
    for finding in findings:
        for_effect.setdefault(finding.effect, finding)
    return for_effect.get("deny") or for_effect.get("confirm") or for_effect["allow"]


def decision(findings: Iterable[Finding], *, hidden: bool) -> Decision:
    """Return the decision; `hidden` says whether this agent's denials are hidden."""
    found = tuple(findings)
    decisive = decisive_finding(found)
    assert decisive.effect != "note"
    return Decision(
        verdict=decisive.effect,
        rule=decisive.rule,
        reason=decisive.reason,
        source=decisive.source,
        hidden=decisive.effect == "deny" and (hidden or decisive.hidden),
        people=max(finding.people for finding in found) if decisive.effect == "confirm" else 1,
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


def _by_people(one: MatchedRule) -> Finding:
    people: int = one.rule.value
    wants = "wants a person to confirm" if people == 1 else f"wants {people} people to confirm"
    return replace(_by_rule(one, "confirm", wants), people=people)


def _by_default(facts: DecisionFacts) -> Finding:
    target, sent = facts.target, facts.target.as_sent
    named = f"{target}, which its server calls {sent.name} now," if sent is not None else str(target)
    wanted = f'"{target.pattern}" and "{sent.pattern}"' if sent is not None else f'"{target.pattern}"'
    return Finding(
        "deny",
        "default",
        f"nothing allows {named} to agent {facts.agent}",
        f"add {wanted} to `allow` of agent {facts.agent} or of one of its roles ({facts.agent_source})",
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
    named_in_full = any(one.rule.pattern.literal and one.rule.pattern.kind == "tool" for one in facts.matched["allow"])
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
    if facts.tool_annotations is None:
        return
    for trait in ANNOTATIONS:
        bound = facts.annotations.get(trait)
        if bound is None or not getattr(facts.tool_annotations, trait) or bound.value == "allow":
            continue
        effect: Effect = "deny" if bound.value == "deny" else "confirm"
        yield Finding(
            effect,
            f"annotations.{trait}: {bound.value}",
            f"{bound.owner} has `{trait}: {bound.value}`, and as far as is known this tool {_ANNOTATION_WORDS[trait]}",
            _undo_annotation(trait, facts.target.pattern, bound),
            str(bound.place),
        )


def _undo_annotation(trait: Annotation, name: str, bound: Setting) -> str:
    undo = f"change `annotations.{trait}` of {bound.owner} ({bound.place})"
    return f'{undo}, or add "{name}" to `read_only` if it only reads' if trait == "destructive" else undo
