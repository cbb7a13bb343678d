"""The tools of one catalog as bits of a number, and the set of those that a pattern matches."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from aggregator.domain.records import ToolRecord
from aggregator.domain.text.invisible import folded_name
from aggregator.policy.annotations import (
    ANNOTATIONS,
    Annotation,
    ToolAnnotations,
    Trusted,
    claimed_annotations,
    is_trusted,
)
from aggregator.policy.patterns import Pattern, Target
from aggregator.policy.rulebook import GIVING, target_of
from aggregator.policy.rules import Rule

ToolSet = int
"""A set of tools: bit `n` stands for the tool at place `n` of `ToolSets.names`."""

_WILDCARD: Final = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
# Patterns whose sets are kept.
_KEPT: Final = 20_000


class _JudgedTool(NamedTuple):
    """All of a tool that decisions depend on. No record is kept, so that no catalog outlives its replacement."""

    target: Target
    claims: ToolAnnotations


class ToolSets:
    """The tools of one catalog. `names` are their full names, in order; `tried` counts names compared with patterns."""

    def __init__(self, tools: Iterable[ToolRecord], trusted: Trusted = None) -> None:
        self._judged = _judged(tools, trusted)
        ordered = sorted(self._judged, key=_name)
        self.names: Final = tuple(str(one.target) for one in ordered)
        self.tried = 0
        self._targets = [one.target for one in ordered]
        self._full = [target.full for target in self._targets]
        # No pattern holds a line break, so none is found across the end of a name.
        self._joined = "\n".join(self._full)
        self._starts = [0, *accumulate(len(name) + 1 for name in self._full)]
        self._by_server = _sets((target.server, at) for at, target in enumerate(self._targets))
        self._by_name = _sets((target.name, at) for at, target in enumerate(self._targets))
        self._by_full = _sets((target.full, at) for at, target in enumerate(self._targets))
        self._places: dict[str, list[int]] = {}
        for at, target in enumerate(self._targets):
            self._places.setdefault(target.prefix, []).append(at)
        # Tools whose names contain invisible characters, by their visible name.
        self._folded = {
            at: folded for at, target in enumerate(self._targets) if (folded := folded_name(target.name)) != target.name
        }
        self._claims = _claims(ordered)
        self._saying_open_world = sum(1 << at for at, one in enumerate(ordered) if one.claims.says_open_world)
        self._matching: dict[tuple[str, bool], ToolSet] = {}

    def __repr__(self) -> str:
        return f"<ToolSets {len(self.names)} tools, {len(self._matching)} patterns>"

    def fits(self, tools: Iterable[ToolRecord], trusted: Trusted) -> bool:
        """Return whether these are the sets of `tools`, with the same annotations that count."""
        return _judged(tools, trusted) == self._judged

    @property
    def everything(self) -> ToolSet:
        """All tools."""
        return (1 << len(self.names)) - 1

    def of_tool(self, name: str) -> ToolSet:
        """Return the tool with that full name, as the records of calls have it; no tool if there is none."""
        return self._by_full.get(name, 0)

    def of_server(self, server: str) -> ToolSet:
        """Return the tools of a server."""
        return self._by_server.get(server, 0)

    def of_plain_name(self, name: str) -> tuple[ToolSet, ToolSet]:
        """Return the tools with that own name, and those with that full name."""
        return self._by_name.get(name, 0), self._by_full.get(name, 0)

    def claiming(self, trait: Annotation) -> ToolSet:
        """Return the tools that have a trait, by the annotations that count."""
        return self._claims[trait]

    @property
    def saying_open_world(self) -> ToolSet:
        """The tools whose trusted servers say that they reach the open world."""
        return self._saying_open_world

    def matching(self, rule: Rule) -> ToolSet:
        """Return the tools that a rule speaks of, as `AgentRules.matching` finds them."""
        key = rule.pattern.text, rule.field in GIVING
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) >= _KEPT:
                self._matching.clear()
            found = self._matching[key] = self._match(rule.pattern, rule.field in GIVING)
        return found

    def names_of(self, tools: ToolSet, most: int | None = None) -> Iterator[str]:
        """Yield the full names of tools in order, at most so many."""
        left = len(self.names) if most is None else most
        while tools and left:
            lowest = tools & -tools
            yield self.names[lowest.bit_length() - 1]
            tools ^= lowest
            left -= 1

    def _match(self, pattern: Pattern, giving: bool) -> ToolSet:
        if pattern.kind == "server":
            self.tried += len(self._by_server)
            return sum(tools for server, tools in self._by_server.items() if pattern.fits(server))
        if pattern.kind != "tool":
            return 0
        found = self._match_names(pattern)
        for at, folded in self._folded.items():
            bit = 1 << at
            target = self._targets[at]
            seen = self._match_one(pattern, Target("tool", target.server, target.prefix, folded))
            if seen and not giving:
                found |= bit
            elif giving and not seen:
                found &= ~bit
        return found

    def _match_names(self, pattern: Pattern) -> ToolSet:
        if pattern.literal:
            return self._by_full.get(pattern.glob, 0)
        places = self._places.get(pattern.head, ()) if pattern.head is not None else self._holding(pattern.glob)
        bits = bytearray(len(self._full) // 8 + 1)
        self.tried += len(places)
        for at in places:
            if pattern.fits(self._full[at]):
                bits[at >> 3] |= 1 << (at & 7)
        return int.from_bytes(bits, "little")

    def _holding(self, glob: str) -> Sequence[int]:
        """Return the places of the names that hold the longest text between the wildcards of a pattern."""
        text = max(_WILDCARD.split(glob), key=len)
        if not text:
            return range(len(self._full))
        self.tried += len(self._full) // 20
        found: list[int] = []
        at = self._joined.find(text)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            found.append(place)
            at = self._joined.find(text, self._starts[place + 1])
        return found

    def _match_one(self, pattern: Pattern, target: Target) -> bool:
        self.tried += 1
        return pattern.head in (None, target.prefix) and pattern.fits(target.full)


class KeptToolSets:
    """The tool sets of the catalog that was used last, so that an edited rule is matched and no other again."""

    def __init__(self) -> None:
        self._sets = ToolSets(())

    def of(self, tools: Iterable[ToolRecord], trusted: Trusted) -> ToolSets:
        """Return the sets of a catalog: those that are kept if it is the same one."""
        sets = self._sets
        if not sets.fits(tools, trusted):
            sets = self._sets = ToolSets(tools, trusted)
        return sets


def _judged(tools: Iterable[ToolRecord], trusted: Trusted) -> tuple[_JudgedTool, ...]:
    known: dict[str, bool] = {}
    found = []
    for tool in tools:
        if tool.server not in known:
            known[tool.server] = is_trusted(trusted, tool.server)
        claims = claimed_annotations(tool.definition, trusted=known[tool.server])
        found.append(_JudgedTool(target_of(tool), claims))
    return tuple(found)


def _name(tool: _JudgedTool) -> str:
    return str(tool.target)


def _sets(named: Iterable[tuple[str, int]]) -> dict[str, ToolSet]:
    found: dict[str, ToolSet] = {}
    for name, at in named:
        found[name] = found.get(name, 0) | 1 << at
    return found


def _claims(tools: list[_JudgedTool]) -> dict[Annotation, ToolSet]:
    found: dict[Annotation, ToolSet] = dict.fromkeys(ANNOTATIONS, 0)
    for at, tool in enumerate(tools):
        for trait in ANNOTATIONS:
            if getattr(tool.claims, trait):
                found[trait] |= 1 << at
    return found
