"""Decide about a call by the earlier reads in the conversation.

This file decides. Law: the decision is never laxer than the one it begins with, and another label in the state never
makes it laxer.
"""

import math
from collections.abc import Iterable, Mapping, Set
from typing import Final, NamedTuple

from aggregator.domain.decision import Decision
from aggregator.domain.text.invisible import escaped
from aggregator.policy.rules import FlowRule

# Below this many seconds, a time is shown as a moment ago.
_MOMENT: Final = 10
_UNITS: Final = ((86_400, "a day", "days"), (3_600, "an hour", "hours"), (60, "a minute", "minutes"))
# Characters of a name that a reason has.
_SHOWN: Final = 120


# The time of reads and of the call after them: shown as a moment ago.
SUPPOSED_NOW = 0.0


class ToolFlow(NamedTuple):
    """The flow of one tool, resource or prompt under one rulebook.

    `labels`: what its results bring into a conversation. `rules`: those that speak of calls of it, the strictest first;
    none for most tools, and then there is nothing to decide. `name`: its own, for reasons.
    """

    labels: frozenset[str] = frozenset()
    rules: tuple[FlowRule, ...] = ()
    name: str = ""


class LabelSource(NamedTuple):
    """The call that brought a label last: its tool, when it was answered (seconds since 1970), and its trace."""

    tool: str
    at: float
    trace_id: str | None = None


FlowState = Mapping[str, LabelSource]
NO_FLOW: Final = ToolFlow()


def decide_flow(base: Decision, flow: ToolFlow, state: FlowState, now: float) -> Decision:
    """Return the decision on a call in a conversation with these labels: `base`, or a stricter one.

    The reason of a stricter one names the reads, their times, and the rule with its place. `now`: seconds since 1970.
    """
    rule = rule_in_force(flow, state.keys())
    if rule is None or base.verdict == "deny":
        return base
    reason = f"{_read(rule, state, now)}, and after that {_shown(flow.name)} {_OUTCOMES[rule.then]} ({rule})"
    if rule.then == "deny" or base.verdict == "allow":
        return Decision(rule.then, f"flow: {rule.condition}", reason, str(rule.place))
    both = f"{base.rule}; flow: {rule.condition}"
    return Decision("confirm", both, f"{reason}; besides, {base.reason}", str(rule.place), people=base.people)


def rule_in_force(flow: ToolFlow, labels: Set[str]) -> FlowRule | None:
    """Return the strictest flow rule about a call that holds after reads with these labels, or None."""
    if labels:
        for rule in flow.rules:
            if labels >= rule.after:
                return rule
    return None


def labels_told(labels: Iterable[str]) -> str | None:
    """Return labels in the form of a record; None if there are none."""
    return " ".join(sorted(labels)) or None


def how_long_ago(seconds: float) -> str:
    """Return a length of time in the past in words. One that is not over yet, by another clock, is a moment ago."""
    if not seconds >= _MOMENT:
        return "a moment ago"
    if math.isinf(seconds):
        return "long ago"
    for size, one, several in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{one} ago" if count == 1 else f"{count} {several} ago"
    return f"{int(seconds)} seconds ago"


_OUTCOMES: Final = {"confirm": "is asked about", "deny": "is not allowed"}


def _read(rule: FlowRule, state: FlowState, now: float) -> str:
    """Describe the reads and their times for each label of a rule; calls that brought several labels are named once."""
    brought: dict[LabelSource, list[str]] = {}
    for label in sorted(rule.after):
        brought.setdefault(state[label], []).append(label)
    told = []
    for source, labels in sorted(brought.items(), key=lambda one: (one[0].at, one[1])):
        what = _shown(source.tool) + (f" ({', '.join(labels)})" if len(brought) > 1 else "")
        told.append(f"{what} was read {how_long_ago(now - source.at)}")
    return " and ".join(told)


def _shown(name: str) -> str:
    return escaped(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")


class EarlierRead(NamedTuple):
    """A read that came before, with the labels that it brought.

    `name`: its display name. `given`: its full name, or a label.
    """

    name: str
    labels: frozenset[str]
    given: str

    def __str__(self) -> str:
        if "." not in self.name:  # a label
            return self.name
        return f"{self.name} ({', '.join(sorted(self.labels)) or 'no label'})"


def supposed_state(earlier: Iterable[EarlierRead]) -> FlowState:
    """Return the labels of a conversation in which all of this was read, a moment ago."""
    return {label: LabelSource(one.name, SUPPOSED_NOW) for one in earlier for label in sorted(one.labels)}
