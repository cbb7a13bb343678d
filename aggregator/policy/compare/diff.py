"""Compare the decisions of two rulebooks for every agent and tool: for the log of a reload, and before an edit.

Law: bounded. Agents whose rules are equal before and after are not looked at, a rule is matched with each tool once,
and with more new patterns than `MOST_TRIED` allows, the agents that are left are counted and not compared.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.decision import ConfirmBy, Verdict
from aggregator.domain.records import ToolRecord
from aggregator.flow.compare import flow_changes
from aggregator.policy.annotations import Trusted
from aggregator.policy.compare.causes import Cause, ComparedRulebook, agent_cause, causes
from aggregator.policy.compare.decided_tools import DecidedTools, RuledTools, rule_keys
from aggregator.policy.compare.tool_sets import ToolSet, ToolSets
from aggregator.policy.rulebook import AgentRules, Rulebook
from aggregator.policy.rules import Body, WhoRule

# How many names are compared with patterns in one comparison: some seconds.
MOST_TRIED: Final = 10_000_000

# A verdict, and the number of confirmations required.
_Asked = tuple[Verdict, int]
_RANK: Final[Mapping[Verdict, int]] = {"deny": 0, "confirm": 1, "allow": 2}
_SHOWN: Final = 5


class VerdictChange(NamedTuple):
    """One agent's verdict on one tool, before and after, with the confirmations required: (1, 2)."""

    agent: str
    tool: str
    before: Verdict
    after: Verdict
    people: tuple[int, int] = (1, 1)

    @property
    def gained(self) -> bool:
        """True if more is allowed than before."""
        return _gained(self.before, self.after, self.people)

    def __str__(self) -> str:
        before, after = worded(self.before, self.people[0]), worded(self.after, self.people[1])
        return f"{self.agent} {'gained' if self.gained else 'lost'} {self.tool}: {before} -> {after}"


class ConfirmerChange(NamedTuple):
    """A change of who confirms one agent's calls: the host or an approver of the queue, before and after."""

    agent: str
    before: ConfirmBy
    after: ConfirmBy

    def __str__(self) -> str:
        return f"{self.agent} has its calls confirmed by {self.after}, not by {self.before} (confirm_by)"


class ChangeGroup(NamedTuple):
    """The changes that one cause makes from one verdict to another: agents by the set of tools that changed for them.

    `tools`: all of them together, as bits. `people`: the confirmations required, before and after.
    """

    cause: Cause
    before: Verdict
    after: Verdict
    agents: Mapping[str, ToolSet]
    tools: ToolSet
    people: tuple[int, int] = (1, 1)

    @property
    def gained(self) -> bool:
        """True if more is allowed than before."""
        return _gained(self.before, self.after, self.people)

    @property
    def size(self) -> int:
        """The number of decisions that changed: pairs of an agent and a tool."""
        return sum(tools.bit_count() for tools in self.agents.values())


class PolicyDiff(NamedTuple):
    """The changes between two rulebooks over the existing tools, grouped by cause; the largest group first.

    `confirmers`: agents of both rulebooks with another `confirm_by`. `affected`: agents whose list may look different
    now, changed argument rules included. `uncounted`: the number of agents omitted because comparing would take too
    long. `tokens`: a line for each change of the rules about access tokens; `flow`: about labels and flow rules.
    """

    groups: tuple[ChangeGroup, ...] = ()
    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()
    uncounted: int = 0
    confirmers: tuple[ConfirmerChange, ...] = ()
    sets: ToolSets | None = None
    tokens: tuple[str, ...] = ()
    flow: tuple[str, ...] = ()

    def changes(self) -> Iterator[VerdictChange]:
        """Yield every change; there may be as many as agents times tools."""
        for group in self.groups:
            for agent, tools in group.agents.items():
                for name in self.names(tools):
                    yield VerdictChange(agent, name, group.before, group.after, group.people)

    def names(self, tools: ToolSet, most: int | None = None) -> Iterator[str]:
        """Yield the names of tools of a group in order, at most so many."""
        return self.sets.names_of(tools, most) if self.sets is not None else iter(())

    def lines(self, most: int = 20) -> list[str]:
        """Return lines for a log, one for each agent that gained or lost, at most `most`."""
        made = [f"agent {name} is new" for name in self.appeared]
        made += [f"agent {name} is gone" for name in self.vanished]
        # Of each agent the tools that it gained or lost, by the note that they get.
        by_agent: dict[tuple[str, bool], dict[str, ToolSet]] = {}
        for group in self.groups:
            note = _once_confirmed(group)
            for agent, tools in group.agents.items():
                noted = by_agent.setdefault((agent, group.gained), {})
                noted[note] = noted.get(note, 0) | tools
        room = max(0, most - len(made))
        for (agent, gained), noted in sorted(by_agent.items(), key=_first)[: room + 1]:
            names = [f"{name}{note}" for note, tools in noted.items() for name in self.names(tools, _SHOWN)]
            names = sorted(names)[:_SHOWN]
            more = sum(tools.bit_count() for tools in noted.values()) - len(names)
            shown = ", ".join(names) + (f" and {more} more" if more else "")
            made.append(f"{agent} {'gained' if gained else 'lost'} {shown}")
        left_out = max(0, len(by_agent) - room - 1)
        made += [*map(str, self.confirmers), *self.tokens, *self.flow]
        if self.uncounted:
            made.append(f"{self.uncounted} more agents with changed rules were not compared")
        total = len(made) + left_out
        return made if total <= most else [*made[: most - 1], f"and {total - most + 1} more lines"]


def diff(
    old: Rulebook | None, new: Rulebook | None, tools: Iterable[ToolRecord], trusted: Trusted = None
) -> PolicyDiff:
    """Compare the decisions of two rulebooks over `tools`; without an old one every agent gains all it has."""
    return at_once(diff_steps(old, new, ToolSets(tools, trusted)))


def diff_steps(old: Rulebook | None, new: Rulebook | None, sets: ToolSets) -> Steps[PolicyDiff]:
    """Compare the decisions of two rulebooks over the tools of `sets`, in steps of at most some milliseconds.

    Without an old rulebook every agent gains all it has, without a new one it loses that.
    """
    before: Mapping[str, AgentRules] = old.agents_and_made if old is not None else {}
    after: Mapping[str, AgentRules] = new.agents_and_made if new is not None else {}
    everyone = sorted({*before, *after})
    keys = _BodyKeys()
    comparing = _Comparing(sets, old, new)
    most = sets.tried + MOST_TRIED
    affected, uncounted = [], 0
    for name in everyone:
        yield
        was, now = before.get(name), after.get(name)
        if keys.lists_differ(was, now):
            affected.append(name)
        if not keys.decisions_differ(was, now):
            continue
        if not (yield from comparing.add(name, was, now, most)):
            uncounted += 1
    flow = yield from flow_changes(old, new, sets, most)
    return PolicyDiff(
        tuple(sorted(comparing.groups(), key=_by_size)),
        tuple(name for name in everyone if name not in before),
        tuple(name for name in everyone if name not in after),
        tuple(affected),
        uncounted,
        tuple(
            ConfirmerChange(name, before[name].confirm_by, after[name].confirm_by)
            for name in everyone
            if name in before and name in after and before[name].confirm_by != after[name].confirm_by
        ),
        sets,
        tuple(token_changes(old, new)),
        flow,
    )


class _Comparing:
    """The comparison of agents over the same tools, with the groups so far."""

    def __init__(self, sets: ToolSets, old: Rulebook | None, new: Rulebook | None) -> None:
        self._sets = sets
        self._old, self._new = old, new
        self._before = RuledTools(sets)
        self._after = RuledTools(sets, self._before)
        self._groups: dict[tuple[tuple[str, ...], _Asked, _Asked], tuple[Cause, dict[str, ToolSet]]] = {}

    def add(self, name: str, was: AgentRules | None, now: AgentRules | None, most: int) -> Steps[bool]:
        """Compare one agent, rule by rule of those that are new to the comparison.

        Return False, and leave the agent out, where names were compared with patterns more often than `most`.
        """
        for ruled, rules in ((self._before, was), (self._after, now)):
            for step in rules.steps if rules is not None else ():
                for _ in ruled.body_steps(step.body):
                    yield
                    if self._sets.tried > most:
                        return False
        old = self._before.decide(was) if was is not None else None
        new = self._after.decide(now) if now is not None else None
        verdicts = [_verdicts(decided, self._sets.everything) for decided in (old, new)]
        for before, had in verdicts[0].items():
            for after, has in verdicts[1].items():
                changed = had & has
                if before != after and changed:
                    for cause, tools in self._causes(old, new, before[0], after[0], changed):
                        _, agents = self._groups.setdefault((cause.key, before, after), (cause, {}))
                        agents[name] = agents.get(name, 0) | tools
        return True

    def groups(self) -> Iterator[ChangeGroup]:
        """Yield the groups of compared changes."""
        for (_, before, after), (cause, agents) in self._groups.items():
            together = 0
            for tools in agents.values():
                together |= tools
            yield ChangeGroup(cause, before[0], after[0], agents, together, (before[1], after[1]))

    def _causes(
        self, old: DecidedTools | None, new: DecidedTools | None, before: Verdict, after: Verdict, changed: ToolSet
    ) -> Iterable[tuple[Cause, ToolSet]]:
        books = self._old, self._new
        if old is not None and new is not None and books[0] is not None and books[1] is not None:
            return causes(ComparedRulebook(books[0], old), ComparedRulebook(books[1], new), before, after, changed)
        if new is not None:
            return [(agent_cause(new.rules, "added"), changed)]
        return [(agent_cause(old.rules, "removed"), changed)] if old is not None else []


class _BodyKeys:
    """Values that are equal for agents with equal decisions, or equal lists, wherever their rules stand."""

    def __init__(self) -> None:
        self._of_body: dict[int, tuple[Body, object, object]] = {}

    def decisions_differ(self, was: AgentRules | None, now: AgentRules | None) -> bool:
        """Return whether two agents may be decided about otherwise."""
        if was is None or now is None:
            return was is not now
        return _settings(was) != _settings(now) or self._bodies(was, 1) != self._bodies(now, 1)

    def lists_differ(self, was: AgentRules | None, now: AgentRules | None) -> bool:
        """Return whether the lists of two agents may differ."""
        if was is None or now is None or self.decisions_differ(was, now):
            return was is not now
        return (was.names, was.expose) != (now.names, now.expose) or self._bodies(was, 2) != self._bodies(now, 2)

    def _bodies(self, rules: AgentRules, at: int) -> list[object]:
        found: list[object] = []
        for step in rules.steps:
            body = step.body
            known = self._of_body.get(id(body))
            if known is None:
                known = self._of_body[id(body)] = body, rule_keys(body), _list_key(body)
            found.append((body.owner, known[at]))
        return found


def worded(verdict: Verdict, people: int) -> str:
    """Return a verdict, with the number of confirmations if several are required."""
    return f"{verdict} by {people} people" if people > 1 else verdict


def _gained(before: Verdict, after: Verdict, people: tuple[int, int]) -> bool:
    return (_RANK[after], -people[1]) > (_RANK[before], -people[0])


def _once_confirmed(group: ChangeGroup) -> str:
    if group.after != "confirm":
        return ""
    return f" (once confirmed{f' by {group.people[1]} people' if group.people[1] > 1 else ''})"


def _first(entry: tuple[tuple[str, bool], object]) -> tuple[str, bool]:
    return entry[0]


def _verdicts(decided: DecidedTools | None, everything: ToolSet) -> dict[_Asked, ToolSet]:
    """Return the tools by verdict and number of confirmations."""
    if decided is None:
        return {("deny", 1): everything}
    found: dict[_Asked, ToolSet] = {("deny", 1): decided.denied}
    one = decided.confirmed
    for number, tools in decided.people.items():
        found["confirm", number] = tools
        one &= ~tools
    return {**found, ("confirm", 1): one, ("allow", 1): everything & ~decided.denied & ~decided.confirmed}


def _settings(rules: AgentRules) -> object:
    return (
        {trait: bound.value for trait, bound in rules.annotations.items()},
        {name: bound.value for name, bound in rules.bindings.items()},
        {server for server, (tenant, _) in rules.claims.items() if tenant != rules.tenant},
    )


def _list_key(body: Body) -> object:
    """Return a value that is equal for bodies with the same effect on how tools are listed."""
    return [
        (rule.field, rule.pattern.text, json.dumps(rule.value, sort_keys=True) if rule.field == "arguments" else None)
        for rule in body.rules
        if rule.field in ("arguments", "pinned")
    ]


def _by_size(group: ChangeGroup) -> tuple[int, str, str, str]:
    return -group.size, str(group.cause), group.before, group.after


def token_changes(old: Rulebook | None, new: Rulebook | None) -> Iterator[str]:
    """Yield a line for each rule about tokens that only one of the two rulebooks has."""
    before, after = _who(old), _who(new)
    for text, rule in after.items():
        if text not in before:
            yield f"{rule} is new ({rule.place}): a token of {text}"
    for text, rule in before.items():
        if text not in after:
            yield f"{rule} is gone: a token of {text}"
    kept = [text for text in after if text in before]
    if kept != [text for text in before if text in after]:
        yield "the rules who stand in another order"
    had, has = _scopes(old), _scopes(new)
    for key in sorted(had.keys() | has.keys()):
        was, now = had.get(key, ()), has.get(key, ())
        if was != now:
            yield f'scopes "{key[1]}" of {key[0]}: {" ".join(was) or "none"} -> {" ".join(now) or "none"}'


def _who(book: Rulebook | None) -> dict[str, WhoRule]:
    return {_text(rule): rule for rule in book.documents.who} if book is not None else {}


def _text(rule: WhoRule) -> str:
    """Return a rule as one text, without its place."""
    wanted = {
        "issuer": rule.issuer,
        "subject": rule.subject,
        "client": rule.client,
        "groups": " or ".join(rule.groups),
        "scopes": " ".join(rule.scopes),
    }
    tokens = ", ".join(f"{name} {value}" for name, value in wanted.items() if value) or "anyone"
    given = [f"tenant {rule.tenant}"] if rule.tenant is not None else []
    given += [f"roles {', '.join(rule.roles)}"] if rule.roles else []
    return f"{tokens} stands for {rule.agent}" + (f" with {' and '.join(given)}" if given else "")


def _scopes(book: Rulebook | None) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the scopes that rules want, by owner and pattern."""
    if book is None:
        return {}
    documents = book.documents
    bodies = [*documents.agents.values(), *documents.roles.values()]
    bodies += [documents.defaults] if documents.defaults is not None else []
    return {
        (body.owner, rule.pattern.text): tuple(rule.value)
        for body in bodies
        for rule in body.rules
        if rule.field == "scopes"
    }
