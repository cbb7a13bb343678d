"""Explain a decision: every rule that matched, the one that decided, and what would change it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aggregator.config.durations import format_duration
from aggregator.config.files.report import did_you_mean
from aggregator.domain.decision import Decision, confirmers
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.flow.decide.decide_flow import (
    SUPPOSED_NOW,
    EarlierRead,
    FlowState,
    ToolFlow,
    decide_flow,
    supposed_state,
)
from aggregator.policy.annotations import WORST, ToolAnnotations, Trusted, claimed_annotations, is_trusted
from aggregator.policy.decide import Finding, decisive_finding
from aggregator.policy.full_names import find_by_full_name
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import AgentRules, Rulebook, Ruling, target_of, unknown_agent
from aggregator.policy.rules import BUILT_IN_LABELS, FlowRule
from aggregator.policy.who import WhoDecision

_ALLOWED: Final = Decision("allow", "", "")


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision with its reasons.

    `findings` are in the order they count; `changes` must all be made to change the decision. `earlier`: the assumed
    earlier reads in the conversation.
    """

    agent: str
    target: Target
    decision: Decision
    findings: tuple[Finding, ...]
    decisive: Finding | None
    changes: tuple[str, ...]
    conditions: tuple[str, ...]
    earlier: tuple[EarlierRead, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the explanation as lines for a terminal."""
        yield f"{self.agent}, {self.target}: {self.decision.verdict}{' (hidden)' if self.decision.hidden else ''}"
        if self.earlier:
            yield f"  after {', '.join(map(str, self.earlier))}"
        source = self.decision.source
        at = f" ({source})" if source and source not in self.decision.reason else ""
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
            "after": [{"name": one.name, "labels": sorted(one.labels)} for one in self.earlier],
        }


def explain(
    rulebook: Rulebook,
    agent_id: str,
    thing: ToolRecord | Target,
    *,
    trusted: bool = False,
    found: WhoDecision | None = None,
    earlier: Sequence[EarlierRead] = (),
) -> Explanation:
    """Explain the decision on one tool, resource or prompt.

    found: the agent of a token. earlier: the earlier reads in the conversation.
    """
    target = thing if isinstance(thing, Target) else target_of(thing)
    rules = rulebook.for_agent(agent_id) if found is None else rulebook.for_token(found)
    if rules is None:
        change = did_you_mean(agent_id, rulebook.agents) or f"Add {agent_id!a} under `agents:`."
        return Explanation(agent_id, target, unknown_agent(agent_id), (), None, (change,), (), tuple(earlier))
    claims = _claims(thing, trusted)
    findings = rules.findings(target, claims)
    before = rules.decide_target(target, claims)
    decisive = decisive_finding(findings)
    flow, state = rulebook.flow.flow_of(target, claims), supposed_state(earlier)
    decided = _after(before, flow, state)
    if decided is not before:
        by_flow = tuple(_flow_findings(rulebook, flow, target, state))
        decisive = by_flow[0]
        findings = (*by_flow, *findings) if decided.verdict == "deny" else (*findings, *by_flow)
    ruling = rules.rule(thing, trusted=trusted) if isinstance(thing, ToolRecord) and decided.visible else None
    conditions = tuple(_conditions(rules, ruling, decided))
    if decided.visible:
        conditions += tuple(_flow_conditions(rulebook, flow, target))
    changes = tuple(_changes(agent_id, findings, target, decided))
    return Explanation(agent_id, target, decided, findings, decisive, changes, conditions, tuple(earlier))


def earlier_reads(
    texts: Iterable[str],
    rulebook: Rulebook,
    servers: Mapping[str, str],
    tools: Iterable[ToolRecord] = (),
    trusted: Trusted = None,
) -> tuple[EarlierRead, ...]:
    """Return what full names and labels stand for, as read before a call; see `find_by_full_name`.

    Raises:
        OperatorError: a text is neither a label that the rules know nor a full name.
    """
    known = tuple(tools)
    labels = dict.fromkeys((*BUILT_IN_LABELS, *rulebook.documents.labels))
    found = []
    for text in texts:
        if text in labels:
            found.append(EarlierRead(f"something {text}", frozenset({text}), text))
            continue
        if "." not in text:
            meant = did_you_mean(text, labels) or f"The labels are {', '.join(labels)}."
            raise OperatorError(f"{text!a} is neither a label nor a full name such as server.tool. {meant}")
        thing = find_by_full_name(text, servers, known)
        target = thing if isinstance(thing, Target) else target_of(thing)
        brought = rulebook.flow.labels_of(target, _claims(thing, is_trusted(trusted, target.server)))
        found.append(EarlierRead(str(target), brought, text))
    return tuple(found)


def agents_allowed(
    rulebook: Rulebook, thing: ToolRecord | Target, *, trusted: bool = False, earlier: Sequence[EarlierRead] = ()
) -> list[tuple[str, Decision]]:
    """Return the agents that see a tool, resource or prompt, with the decision of each."""
    target = thing if isinstance(thing, Target) else target_of(thing)
    claims = _claims(thing, trusted)
    flow, state = rulebook.flow.flow_of(target, claims), supposed_state(earlier)
    decided = (
        (name, _after(rules.decide_target(target, claims), flow, state)) for name, rules in rulebook.agents.items()
    )
    return [(name, decision) for name, decision in decided if decision.visible]


def tools_allowed(
    rulebook: Rulebook,
    agent_id: str,
    tools: Iterable[ToolRecord],
    trusted: Trusted = None,
    found: WhoDecision | None = None,
    earlier: Sequence[EarlierRead] = (),
) -> list[tuple[ToolRecord, Decision]]:
    """Return the tools that an agent may call, with the decision on each; `found`: of the agent a token stands for."""
    rules = rulebook.for_agent(agent_id) if found is None else rulebook.for_token(found)
    if rules is None:
        return []
    state = supposed_state(earlier)
    ruled = ((tool, rules.rule(tool, trusted=is_trusted(trusted, tool.server))) for tool in tools)
    decided = ((tool, _after(ruling.decision, ruling.flow, state)) for tool, ruling in ruled)
    return [(tool, decision) for tool, decision in decided if decision.visible]


def _after(before: Decision, flow: ToolFlow, state: FlowState) -> Decision:
    return decide_flow(before, flow, state, SUPPOSED_NOW) if flow.rules else before


def _flow_findings(rulebook: Rulebook, flow: ToolFlow, target: Target, state: FlowState) -> Iterator[Finding]:
    """Yield what each flow rule that holds says, the one that decides first."""
    for rule in flow.rules:
        if state.keys() >= rule.after:
            said = decide_flow(_ALLOWED, flow._replace(rules=(rule,)), state, SUPPOSED_NOW)
            yield Finding(rule.then, said.rule, said.reason, _undo_flow(rulebook, flow, rule, target), said.source)


def _undo_flow(rulebook: Rulebook, flow: ToolFlow, rule: FlowRule, target: Target) -> str:
    """Return how an operator would take a flow rule off a tool, resource or prompt."""
    given = [one for one in rulebook.flow.matching(target) if one.value in rule.calls]
    undo = f"take the flow rule out ({rule.place})"
    if given:
        patterns = " and ".join(f'"{one.pattern}" out of label {one.value} ({one.place})' for one in given)
        return f"{undo}, or take {patterns}"
    labels = " and ".join(sorted(rule.calls & flow.labels))
    return f"{undo}, or give it a label of your own: then the annotations of its server do not make it {labels}"


def _flow_conditions(rulebook: Rulebook, flow: ToolFlow, target: Target) -> Iterator[str]:
    given = rulebook.flow.matching(target)
    for label in sorted(flow.labels):
        by = [f'"{one.pattern}" ({one.place})' for one in given if one.value == label]
        yield f"it has the label {label}: {', '.join(by) or 'by the annotations of its trusted server'}"
    for rule in flow.rules:
        outcome = "a person is asked" if rule.then == "confirm" else "it is refused"
        yield f"after {' and '.join(sorted(rule.after))}: {outcome} ({rule.place})"


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
