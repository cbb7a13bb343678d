"""Compare the decisions of two rulebooks, agent by agent: for the log of a reload.

Law: bounded. Agents whose rules are equal before and after are not looked at, agents with equal rules only once, and of
the tools only those that a changed rule speaks of.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from aggregator.domain.decision import ConfirmBy, Verdict
from aggregator.domain.records import ToolRecord
from aggregator.policy.index import RuleIndex
from aggregator.policy.rulebook import AgentRules, Rulebook, target_of
from aggregator.policy.rules import Rule

MOST_DECISIONS: Final = 40_000

_DECIDING: Final = frozenset({"allow", "deny", "confirm", "read_only", "idempotent"})
_RANK: Final[Mapping[Verdict, int]] = {"deny": 0, "confirm": 1, "allow": 2}


class IsTrusted(Protocol):
    """Tell whether the configuration trusts a server, by its id."""

    def __call__(self, server: str, /) -> bool: ...


Trusted = IsTrusted | Mapping[str, bool] | None


class VerdictChange(NamedTuple):
    """One agent's verdict on one tool, before and after."""

    agent: str
    tool: str
    before: Verdict
    after: Verdict

    @property
    def gained(self) -> bool:
        """True if more is allowed than before."""
        return _RANK[self.after] > _RANK[self.before]

    def __str__(self) -> str:
        return f"{self.agent} {'gained' if self.gained else 'lost'} {self.tool}: {self.before} -> {self.after}"


class ConfirmerChange(NamedTuple):
    """A change of who confirms one agent's calls: the host or an approver of the queue, before and after."""

    agent: str
    before: ConfirmBy
    after: ConfirmBy

    def __str__(self) -> str:
        return f"{self.agent} has its calls confirmed by {self.after}, not by {self.before} (confirm_by)"


class PolicyDiff(NamedTuple):
    """The changes between two rulebooks, over the tools there are.

    `confirmers`: agents of both rulebooks with another `confirm_by`. `affected`: agents whose list may look different
    now, changed argument rules included. `uncounted`: how many agents were left out because comparing would take too
    long.
    """

    changes: tuple[VerdictChange, ...] = ()
    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()
    uncounted: int = 0
    confirmers: tuple[ConfirmerChange, ...] = ()

    def lines(self, most: int = 20) -> list[str]:
        """Return lines for a log, one for each agent that gained or lost, at most `most`."""
        made = [f"agent {name} is new" for name in self.appeared]
        made += [f"agent {name} is gone" for name in self.vanished]
        by_agent: dict[tuple[str, bool], list[str]] = {}
        for change in self.changes:
            note = " (once confirmed)" if change.after == "confirm" else ""
            by_agent.setdefault((change.agent, change.gained), []).append(f"{change.tool}{note}")
        for (agent, gained), tools in sorted(by_agent.items()):
            shown = ", ".join(tools[:5]) + (f" and {len(tools) - 5} more" if len(tools) > 5 else "")
            made.append(f"{agent} {'gained' if gained else 'lost'} {shown}")
        made += map(str, self.confirmers)
        if self.uncounted:
            made.append(f"{self.uncounted} more agents with changed rules were not compared")
        return made if len(made) <= most else [*made[: most - 1], f"and {len(made) - most + 1} more lines"]


def diff(old: Rulebook | None, new: Rulebook, tools: Iterable[ToolRecord], trusted: Trusted = None) -> PolicyDiff:
    """Compare the decisions of two rulebooks over `tools`; without an old one every agent gains all it has."""
    known = tuple(tools)
    before: Mapping[str, AgentRules] = old.agents if old is not None else {}
    everyone = sorted({*before, *new.agents})
    groups: dict[tuple[object, object], list[str]] = {}
    for name in everyone:
        pair = (_decision_key(before.get(name)), _decision_key(new.agents.get(name)))
        if pair[0] != pair[1]:
            groups.setdefault(pair, []).append(name)
    changes: list[VerdictChange] = []
    comparing = _Comparing(known, trusted)
    uncounted = 0
    for names in groups.values():
        if comparing.left <= 0:
            uncounted += len(names)
            continue
        compared = list(comparing.compare(before.get(names[0]), new.agents.get(names[0])))
        changes += [VerdictChange(name, tool, was, now) for name in names for tool, was, now in compared]
    return PolicyDiff(
        tuple(sorted(changes)),
        tuple(name for name in everyone if name not in before),
        tuple(name for name in everyone if name not in new.agents),
        tuple(name for name in everyone if _list_key(before.get(name)) != _list_key(new.agents.get(name))),
        uncounted,
        tuple(
            ConfirmerChange(name, before[name].confirm_by, new.agents[name].confirm_by)
            for name in everyone
            if name in before and name in new.agents and before[name].confirm_by != new.agents[name].confirm_by
        ),
    )


def is_trusted(trusted: Trusted, server: str) -> bool:
    """Tell whether a server's annotations count; they do not unless `trusted` says so."""
    if trusted is None:
        return False
    answer: object = trusted(server) if callable(trusted) else trusted.get(server, False)
    return answer is True


def _decision_key(rules: AgentRules | None) -> object:
    """Return a key that is equal for agents with equal decisions; places and the agent's own name do not count."""
    if rules is None:
        return None
    return frozenset((r.field, r.pattern.text) for r in _rules(rules) if r.field in _DECIDING), _settings(rules)


def _settings(rules: AgentRules) -> object:
    return (
        frozenset((trait, bound.value) for trait, bound in rules.annotations.items()),
        frozenset((name, bound.value) for name, bound in rules.bindings.items()),
        frozenset(server for server, (tenant, _) in rules.claims.items() if tenant != rules.tenant),
    )


def _list_key(rules: AgentRules | None) -> object:
    """Return a key that is equal for agents whose lists look alike."""
    if rules is None:
        return None
    tightened = (rule for rule in _rules(rules) if rule.field == "arguments")
    schemas = frozenset((rule.pattern.text, json.dumps(rule.value, sort_keys=True)) for rule in tightened)
    pinned = frozenset(rule.pattern.text for rule in _rules(rules) if rule.field == "pinned")
    return _decision_key(rules), schemas, rules.names, rules.expose, pinned


def _rules(rules: AgentRules) -> Iterator[Rule]:
    for step in rules.steps:
        yield from step.body.rules


class _Comparing:
    """The comparison of agents over the same tools. `left`: how many more decisions may be spent."""

    def __init__(self, tools: tuple[ToolRecord, ...], trusted: Trusted) -> None:
        self._tools = tools
        self._trusted = trusted
        self._touched: dict[frozenset[object], list[ToolRecord]] = {}
        self.left = MOST_DECISIONS

    def compare(self, before: AgentRules | None, after: AgentRules | None) -> Iterator[tuple[str, Verdict, Verdict]]:
        """Yield the tools with another verdict, with the old one and the new one."""
        tools = self._tools_of(_differing(before, after))
        self.left -= 2 * len(tools)
        for tool in tools:
            known = is_trusted(self._trusted, tool.server)
            was: Verdict = before.decide(tool, trusted=known).verdict if before is not None else "deny"
            now: Verdict = after.decide(tool, trusted=known).verdict if after is not None else "deny"
            if was != now:
                yield str(target_of(tool)), was, now

    def _tools_of(self, rules: Mapping[object, Rule]) -> list[ToolRecord]:
        """Return the tools that any of the rules speaks of: no other can be decided otherwise."""
        key = frozenset(rules)
        if key not in self._touched:
            self.left -= len(self._tools) // 8
            index = RuleIndex(rules.values())
            self._touched[key] = [tool for tool in self._tools if any(index.matching(target_of(tool)))]
        return self._touched[key]


def _differing(before: AgentRules | None, after: AgentRules | None) -> Mapping[object, Rule]:
    """Return the rules that may change a decision.

    These are the rules on one side only, or all that allow where settings differ too.
    """
    sides: list[dict[object, Rule]] = [
        {(rule.field, rule.pattern.text): rule for rule in _rules(side) if rule.field in _DECIDING} if side else {}
        for side in (before, after)
    ]
    both = sides[0] | sides[1]
    if before is not None and after is not None and _settings(before) == _settings(after):
        return {key: rule for key, rule in both.items() if key not in sides[0] or key not in sides[1]}
    return {key: rule for key, rule in both.items() if rule.field == "allow"}
