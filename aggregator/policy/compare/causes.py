"""The cause of each change of an agent's decisions: the line that was added or removed, or the role it came by.

Rule 1: a line counts as the same wherever it stands in its file. Rule 2: a change that needs several lines is put down
to the one that counts most.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from aggregator.domain.decision import Verdict
from aggregator.policy.compare.decided_tools import DecidedTools, Origin
from aggregator.policy.compare.tool_sets import ToolSet
from aggregator.policy.rulebook import AgentRules, Rulebook
from aggregator.policy.rules import Place, RuleField

Edit = Literal["added", "removed"]
_DECLARING: Final[tuple[RuleField, ...]] = ("read_only", "idempotent")


class Cause(NamedTuple):
    """A line that causes a change. `place` is its place in the new files if `added`, in the old ones if `removed`."""

    text: str
    owner: str | None
    edit: Edit
    place: Place | None

    @property
    def key(self) -> tuple[str, ...]:
        """The cause without its place, so that one that stands at many agents counts as one."""
        return self.text, self.owner or "", self.edit

    def __str__(self) -> str:
        of = f" of {self.owner}" if self.owner else ""
        at = f" ({self.place})" if self.place is not None else ""
        return f"{self.text}{of}, {self.edit}{at}"


class ComparedRulebook(NamedTuple):
    """One of the two rulebooks, and its decisions for the agent."""

    book: Rulebook
    decided: DecidedTools


def agent_cause(rules: AgentRules, edit: Edit) -> Cause:
    """Return the cause of every change of an agent that is only in one of the rulebooks."""
    body = rules.steps[0].body
    return Cause("agents that are new" if edit == "added" else "agents that are gone", None, edit, body.place)


def causes(
    before: ComparedRulebook, after: ComparedRulebook, was: Verdict, now: Verdict, changed: ToolSet
) -> Iterator[tuple[Cause, ToolSet]]:
    """Yield the causes of one agent's change from `was` to `now`, each with its part of the tools `changed`."""
    for cause, tools in _candidates(before, after, was, now):
        if part := changed & tools:
            yield cause, part
            changed &= ~part
        if not changed:
            return
    body = after.decided.rules.steps[0].body
    yield Cause("several rules", body.owner, "added", body.place), changed


def _candidates(
    before: ComparedRulebook, after: ComparedRulebook, was: Verdict, now: Verdict
) -> Iterator[tuple[Cause, ToolSet]]:
    old, new = before.decided, after.decided
    if now == "deny":
        yield from _settings(old.denials, new.denials, before, after, "added", _not_annotations)
        yield from _rules("deny", before, after, "added")
        yield from ((cause, tools & ~new.allowed) for cause, tools in _rules("allow", before, after, "removed"))
        yield from _settings(old.denials, new.denials, before, after, "added", _annotations)
    elif was == "deny":
        yield from _settings(old.denials, new.denials, before, after, "removed", _not_annotations)
        yield from _rules("deny", before, after, "removed")
        yield from ((cause, tools & ~old.allowed) for cause, tools in _rules("allow", before, after, "added"))
        yield from _settings(old.denials, new.denials, before, after, "removed", _annotations)
    elif was == now:
        yield from _rules("confirm_people", before, after, "added")
        yield from _rules("confirm_people", before, after, "removed")
    elif now == "confirm":
        yield from _rules("confirm", before, after, "added")
        yield from _rules("confirm_people", before, after, "added")
        yield from _settings(old.confirmations, new.confirmations, before, after, "added", _annotations)
    else:
        yield from _rules("confirm", before, after, "removed")
        yield from _rules("confirm_people", before, after, "removed")
        yield from _settings(old.confirmations, new.confirmations, before, after, "removed", _annotations)
    for name in _DECLARING:
        yield from _rules(name, before, after, "added")
        yield from _rules(name, before, after, "removed")
    # What names a tool in full, or no longer does, also counts against a binding.
    yield from _rules("allow", before, after, "added" if was == "deny" else "removed")


def _rules(
    name: RuleField, before: ComparedRulebook, after: ComparedRulebook, edit: Edit
) -> Iterator[tuple[Cause, ToolSet]]:
    """Yield the rules that the agent has on one side only: with `added`, after."""
    here, there = (after, before) if edit == "added" else (before, after)
    for owner, body in here.decided.bodies.items():
        other = there.decided.bodies.get(owner)
        if other is body:
            continue
        known = other.origins[name] if other is not None else {}
        for key, origin in body.origins[name].items():
            if key not in known:
                yield _rule_cause(origin, owner, here, there, edit), origin.tools


def _rule_cause(origin: Origin, owner: str, here: ComparedRulebook, there: ComparedRulebook, edit: Edit) -> Cause:
    """Return the rule as the cause, or the line that gives the agent its role if both rulebooks have the rule."""
    if owner in there.decided.bodies or not _has_rule(there.book, owner, origin):
        return Cause(origin.text, origin.owner, edit, origin.place)
    route = next(step.route for step in here.decided.rules.steps if step.body.owner == owner).split(" > ")
    bodies = {step.body.owner: step.body for step in here.decided.rules.steps}
    for giver, role in pairwise(route):
        if role not in there.decided.bodies and role.startswith("role "):
            name = role.removeprefix("role ")
            return Cause(f"roles: {name}", _kind(giver), edit, bodies[giver].roles.get(name))
    return Cause(origin.text, origin.owner, edit, origin.place)


def _kind(owner: str) -> str:
    """Return the kind of owner of a line that gives a role: the lines of agents count as one cause."""
    return "agents" if owner.startswith("agent ") else owner


def _has_rule(book: Rulebook, owner: str, origin: Origin) -> bool:
    if origin.rule is None:
        return False
    kind, _, name = owner.partition(" ")
    body = book.documents.roles.get(name) if kind == "role" else None
    wanted = origin.rule.field, origin.rule.pattern.text
    return body is not None and any((rule.field, rule.pattern.text) == wanted for rule in body.rules)


def _settings(
    old: Mapping[tuple[str, ...], Origin],
    new: Mapping[tuple[str, ...], Origin],
    before: ComparedRulebook,
    after: ComparedRulebook,
    edit: Edit,
    wanted: Callable[[tuple[str, ...]], bool],
) -> Iterator[tuple[Cause, ToolSet]]:
    here, there = (new, old) if edit == "added" else (old, new)
    for key, origin in here.items():
        if not wanted(key):
            continue
        same = there.get(key)
        if same is None or same.text != origin.text:
            yield _setting_cause(key, origin, before, after, edit), origin.tools & ~(same.tools if same else 0)


def _setting_cause(
    key: tuple[str, ...], origin: Origin, before: ComparedRulebook, after: ComparedRulebook, edit: Edit
) -> Cause:
    """Return the line of a setting; for a tenant's server, the agent's `tenant` if the tenant has it in both."""
    if key[0] != "tenant":
        return Cause(origin.text, origin.owner, edit, origin.place)
    claims = [side.rules.claims.get(key[1]) for side in (before.decided, after.decided)]
    if claims[0] is None or claims[1] is None or claims[0][0] != claims[1][0]:
        return Cause(origin.text, None, edit, origin.place)
    # The agent gained or lost the tenant: the setting is in the other rulebook of the change.
    setting = (before if edit == "added" else after).decided.rules.settings.get("tenant")
    other: Edit = "removed" if edit == "added" else "added"
    return Cause(f"tenant: {claims[0][0]}", "agents", other, setting.place if setting is not None else None)


def _annotations(key: tuple[str, ...]) -> bool:
    return key[0] == "annotations"


def _not_annotations(key: tuple[str, ...]) -> bool:
    return key[0] != "annotations"
