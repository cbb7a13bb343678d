"""An index of rules: find those that match a target without walking the others."""

from collections.abc import Iterable, Iterator

from aggregator.policy.patterns import Target
from aggregator.policy.rules import Rule


class RuleIndex:
    """The rules of one agent, role or of the defaults, by the beginning of their patterns.

    Full names and `server:NAME` are found by look-up; `github.*` is tried for that prefix only; a pattern that begins
    with a wildcard is tried for everything. Patterns over skills are tried for every resource.
    """

    __slots__ = ("_by_head", "_by_name", "_by_server", "_of_skills", "_open")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_name: dict[str, list[Rule]] = {}
        self._by_server: dict[str, list[Rule]] = {}
        self._by_head: dict[str, list[Rule]] = {}
        self._open: list[Rule] = []
        self._of_skills: list[Rule] = []
        for rule in rules:
            pattern = rule.pattern
            if pattern.kind == "server" and pattern.literal:
                self._by_server.setdefault(pattern.glob, []).append(rule)
            elif pattern.kind == "skill":
                self._of_skills.append(rule)
            elif pattern.kind != "server" and pattern.literal and not pattern.other_spellings:
                self._by_name.setdefault(f"{pattern.kind}:{pattern.glob}", []).append(rule)
            elif pattern.head is not None:
                self._by_head.setdefault(pattern.head, []).append(rule)
            else:
                self._open.append(rule)

    def matching(self, target: Target) -> Iterator[Rule]:
        """Yield every rule that speaks of `target`, in no particular order."""
        names = target.names
        kind = "resource" if target.kind == "skill" else target.kind
        for name in names.every:
            for rule in self._by_name.get(f"{kind}:{name}", ()):
                if rule.field != "allow" or rule.pattern.covers(names):
                    yield rule
        yield from self._by_server.get(target.server, ())
        for rules in (self._by_head.get(target.prefix, ()), self._open):
            for rule in rules:
                if rule.pattern.matches(target, names, every=rule.field == "allow"):
                    yield rule
        if self._of_skills and target.kind in ("resource", "skill"):
            skills = target.skill_names
            for rule in self._of_skills:
                if rule.pattern.speaks_of_skill(skills, every=rule.field == "allow"):
                    yield rule
