"""Who gained and who lost what between two rulebooks: for the log of a reload.

Law: bounded. Agents whose rules are the same before and after are not looked at, agents with equal rules only once.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from aggregator.domain.decision import Verdict
from aggregator.domain.records import ToolRecord
from aggregator.policy.rulebook import AgentRules, Rulebook
from aggregator.policy.rules import Rule

MOST_DECISIONS: Final = 200_000

Trusted = Callable[[str], bool] | Mapping[str, bool] | None
_DECIDING: Final = frozenset({"allow", "deny", "confirm", "read_only", "idempotent"})
_RANK: Final[Mapping[Verdict, int]] = {"deny": 0, "confirm": 1, "allow": 2}


class Change(NamedTuple):
    """One agent's verdict on one tool, before and after."""

    agent: str
    tool: str
    before: Verdict
    after: Verdict

    @property
    def gained(self) -> bool:
        """Whether more is allowed than before."""
        return _RANK[self.after] > _RANK[self.before]

    def __str__(self) -> str:
        return f"{self.agent} {'gained' if self.gained else 'lost'} {self.tool}: {self.before} -> {self.after}"


class Diff(NamedTuple):
    """What changed over the tools there are.

    `concerned`: agents whose list may look different now, changed argument rules included. `uncounted`: how many
    agents were left out because comparing would take too long.
    """

    changes: tuple[Change, ...] = ()
    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    concerned: tuple[str, ...] = ()
    uncounted: int = 0

    def lines(self, most: int = 20) -> list[str]:
        """For a log: one line per agent that gained or lost, at most `most`."""
        made = [f"agent {name} is new" for name in self.appeared]
        made += [f"agent {name} is gone" for name in self.vanished]
        by_agent: dict[tuple[str, bool], list[str]] = {}
        for change in self.changes:
            note = " (once confirmed)" if change.after == "confirm" else ""
            by_agent.setdefault((change.agent, change.gained), []).append(f"{change.tool}{note}")
        for (agent, gained), tools in sorted(by_agent.items()):
            shown = ", ".join(tools[:5]) + (f" and {len(tools) - 5} more" if len(tools) > 5 else "")
            made.append(f"{agent} {'gained' if gained else 'lost'} {shown}")
        if self.uncounted:
            made.append(f"{self.uncounted} more agents with changed rules were not compared")
        return made if len(made) <= most else [*made[: most - 1], f"and {len(made) - most + 1} more lines"]


def diff(old: Rulebook | None, new: Rulebook, tools: Iterable[ToolRecord], trusted: Trusted = None) -> Diff:
    """What the agents of either rulebook gained and lost over `tools`; without an old one nobody had anything."""
    known = tuple(tools)
    before: Mapping[str, AgentRules] = old.agents if old is not None else {}
    everyone = sorted({*before, *new.agents})
    groups: dict[tuple[object, object], list[str]] = {}
    for name in everyone:
        pair = (_deciding(before.get(name)), _deciding(new.agents.get(name)))
        if pair[0] != pair[1]:
            groups.setdefault(pair, []).append(name)
    changes: list[Change] = []
    left, uncounted = MOST_DECISIONS, 0
    for names in groups.values():
        left -= 2 * len(known)
        if left < 0:
            uncounted += len(names)
            continue
        compared = list(_compare(before.get(names[0]), new.agents.get(names[0]), known, trusted))
        changes += [Change(name, tool, was, now) for name in names for tool, was, now in compared]
    return Diff(
        tuple(sorted(changes)),
        tuple(name for name in everyone if name not in before),
        tuple(name for name in everyone if name not in new.agents),
        tuple(name for name in everyone if _listing(before.get(name)) != _listing(new.agents.get(name))),
        uncounted,
    )


def is_trusted(trusted: Trusted, server: str) -> bool:
    """Whether a server's annotations count; without a word about it they do not."""
    if trusted is None:
        return False
    answer: object = trusted(server) if callable(trusted) else trusted.get(server, False)
    return answer is True


def _deciding(rules: AgentRules | None) -> object:
    """Equal for agents about whom everything is decided alike; places and the agent's own name do not count."""
    if rules is None:
        return None
    return (
        frozenset((rule.field, rule.pattern.text) for rule in _rules(rules) if rule.field in _DECIDING),
        frozenset((trait, bound.value) for trait, bound in rules.annotations.items()),
        frozenset((name, bound.value) for name, bound in rules.bindings.items()),
        frozenset(server for server, (tenant, _) in rules.claims.items() if tenant != rules.tenant),
    )


def _listing(rules: AgentRules | None) -> object:
    """Equal for agents whose lists look alike."""
    if rules is None:
        return None
    tightened = (rule for rule in _rules(rules) if rule.field == "arguments")
    schemas = frozenset((rule.pattern.text, json.dumps(rule.value, sort_keys=True)) for rule in tightened)
    return _deciding(rules), schemas, rules.names


def _rules(rules: AgentRules) -> Iterator[Rule]:
    for step in rules.steps:
        yield from step.body.rules


def _compare(
    before: AgentRules | None, after: AgentRules | None, tools: Iterable[ToolRecord], trusted: Trusted
) -> Iterator[tuple[str, Verdict, Verdict]]:
    for tool in tools:
        known = is_trusted(trusted, tool.server)
        was: Verdict = before.decide(tool, trusted=known).verdict if before is not None else "deny"
        now: Verdict = after.decide(tool, trusted=known).verdict if after is not None else "deny"
        if was != now:
            yield tool.name, was, now
