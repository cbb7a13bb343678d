"""Explain a decision: every rule that matched, the one that decided, and what would change it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from aggregator.config.durations import format_duration
from aggregator.config.files.report import did_you_mean
from aggregator.domain.decision import Decision, confirmers
from aggregator.domain.records import ToolRecord
from aggregator.policy.annotations import WORST, ToolAnnotations, Trusted, claimed_annotations, is_trusted
from aggregator.policy.decide import Finding, decisive_finding
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import AgentRules, Rulebook, Ruling, target_of, unknown_agent
from aggregator.policy.who import WhoDecision


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision with its reasons.

    `findings` are in the order they count; `changes` must all be made to change the decision.
    """

    agent: str
    target: Target
    decision: Decision
    findings: tuple[Finding, ...]
    decisive: Finding | None
    changes: tuple[str, ...]
    conditions: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the explanation as lines for a terminal."""
        yield f"{self.agent}, {self.target}: {self.decision.verdict}{' (hidden)' if self.decision.hidden else ''}"
        at = f" ({self.decision.source})" if self.decision.source else ""
        yield f"  because {self.decision.reason}{at}"
        if self.findings:
            yield "what was found, in the order it counts:"
        for finding in self.findings:
            mark = "  <- decides" if finding is self.decisive else ""
            place = f"  {finding.source}" if finding.source else ""
            yield f"  {finding.effect:<7} {finding.reason}{place}{mark}"
        if self.changes:
            yield f"to change it{', all of' if len(self.changes) > 1 else ''}:"
        yield from (f"  {change}" for change in self.changes)
        if self.conditions:
            yield "when it is called:"
        yield from (f"  {condition}" for condition in self.conditions)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def data(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        decided = self.decision
        return {
            "agent": self.agent,
            "target": str(self.target),
            "kind": self.target.kind,
            "verdict": decided.verdict,
            "hidden": decided.hidden,
            "rule": decided.rule,
            "reason": decided.reason,
            "source": decided.source,
            "findings": [
                {
                    "effect": finding.effect,
                    "rule": finding.rule,
                    "reason": finding.reason,
                    "source": finding.source,
                    "undo": finding.undo or None,
                    "decides": finding is self.decisive,
                }
                for finding in self.findings
            ],
            "changes": list(self.changes),
            "conditions": list(self.conditions),
        }


def explain(
    rulebook: Rulebook,
    agent_id: str,
    thing: ToolRecord | Target,
    *,
    trusted: bool = False,
    found: WhoDecision | None = None,
) -> Explanation:
    """Explain the decision on one tool, resource or prompt; `found`: for the agent that a token stands for."""
    target = thing if isinstance(thing, Target) else target_of(thing)
    rules = rulebook.for_agent(agent_id) if found is None else rulebook.for_token(found)
    if rules is None:
        change = did_you_mean(agent_id, rulebook.agents) or f"Add {agent_id!a} under `agents:`."
        return Explanation(agent_id, target, unknown_agent(agent_id), (), None, (change,), ())
    claims = _claims(thing, trusted)
    findings = rules.findings(target, claims)
    decided = rules.decide_target(target, claims)
    ruling = rules.rule(thing, trusted=trusted) if isinstance(thing, ToolRecord) and decided.visible else None
    conditions = tuple(_conditions(rules, ruling, decided))
    changes = tuple(_changes(agent_id, findings, target, decided))
    return Explanation(agent_id, target, decided, findings, decisive_finding(findings), changes, conditions)


def agents_allowed(
    rulebook: Rulebook, thing: ToolRecord | Target, *, trusted: bool = False
) -> list[tuple[str, Decision]]:
    """Return the agents that see a tool, resource or prompt, with the decision of each."""
    target = thing if isinstance(thing, Target) else target_of(thing)
    claims = _claims(thing, trusted)
    decided = ((name, rules.decide_target(target, claims)) for name, rules in rulebook.agents.items())
    return [(name, decision) for name, decision in decided if decision.visible]


def tools_allowed(
    rulebook: Rulebook,
    agent_id: str,
    tools: Iterable[ToolRecord],
    trusted: Trusted = None,
    found: WhoDecision | None = None,
) -> list[tuple[ToolRecord, Decision]]:
    """Return the tools that an agent sees, with the decision on each; `found`: of the agent a token stands for."""
    rules = rulebook.for_agent(agent_id) if found is None else rulebook.for_token(found)
    if rules is None:
        return []
    decided = ((tool, rules.decide(tool, trusted=is_trusted(trusted, tool.server))) for tool in tools)
    return [(tool, decision) for tool, decision in decided if decision.visible]


def _claims(thing: ToolRecord | Target, trusted: bool) -> ToolAnnotations | None:
    if isinstance(thing, ToolRecord):
        return claimed_annotations(thing.definition, trusted=trusted)
    return WORST if thing.kind == "tool" else None


def _changes(agent: str, findings: Iterable[Finding], target: Target, decided: Decision) -> Iterator[str]:
    if decided.verdict == "allow":
        yield f'add "{target.pattern}" to `deny` of agent {agent}, which counts more than any `allow`'
        return
    yield from (finding.undo for finding in findings if finding.effect == decided.verdict)


def _conditions(rules: AgentRules, ruling: Ruling | None, decided: Decision) -> Iterator[str]:
    if decided.verdict == "confirm":
        if decided.people > 1:
            people = f"{decided.people} different people"
            yield f"{people} must approve it with `aggregator approvals`; the host is not asked"
        elif rules.confirm_by == "queue":
            yield f"an approver must agree (`aggregator approvals`): confirm_by is queue{_at(rules, 'confirm_by')}"
        else:
            yield f"the host asks, and its answer counts: confirm_by is host{_at(rules, 'confirm_by')}"
            yield f"where nobody can be asked: confirm_fallback is {rules.confirm_fallback}"
        if rules.confirm_wait is not None and "queue" in (
            confirmers(decided, rules.confirm_by),
            rules.confirm_fallback,
        ):
            wait = format_duration(rules.confirm_wait) if rules.confirm_wait else "not at all"
            yield f"its call waits for the answer {wait}: confirm_wait{_at(rules, 'confirm_wait')}"
    if ruling is None:
        return
    for tightening in ruling.tightening:
        yield f"its arguments must also fit a schema: {tightening.rule} ({tightening.source})"
    if ruling.scopes:
        yield f"an access token needs the scopes {', '.join(ruling.scopes)}; API keys and stdio need none"
    for limit in ruling.limits.counted:
        yield f"{limit.rule} ({limit.source})"
    for bound in (ruling.limits.result, ruling.limits.tokens):
        if bound is not None:
            yield f"{bound.rule} ({bound.source})"
    if ruling.retry is not None:
        yield f"it may be repeated after a failure: {ruling.retry}"


def _at(rules: AgentRules, name: str) -> str:
    found = rules.settings.get(name)
    return f" ({found.place})" if found is not None else ""
