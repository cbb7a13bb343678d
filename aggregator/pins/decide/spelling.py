"""Approved names that a server spells otherwise: `get-issue` as `get_issue`. This file decides; it awaits nothing.

Law: a name counts only if it is short printable ASCII, and the only one of its spelling among the pinned names, and
among the listed ones. So a new spelling has no word that was not approved. The parts between `.` and the like stay the
same, since the first part may name a server behind another aggregator.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from aggregator.domain.names import CANONICAL_LIMIT, keep_same_parts, loosened
from aggregator.pins.decide.values import ItemChange, ItemKey, PinKind, PinnedItem, Pins

# The kinds of items with names: a URI in another spelling is that of another resource.
_NAMED: Final[frozenset[PinKind]] = frozenset({"tool", "prompt"})


class Spellings:
    """The names of tools and prompts that are pinned and those that the server lists, by their letters and digits.

    is_taken: whether the configuration takes a tool of a name.
    """

    def __init__(self, pinned: Iterable[ItemKey], listed: Iterable[ItemKey], is_taken: Callable[[str], bool]) -> None:
        self._pinned, self._listed = _by_spelling(pinned), _by_spelling(listed)
        self._is_taken = is_taken

    def pin(self, change: ItemChange, pins: Pins) -> PinnedItem | None:
        """Return the pin of a tool or prompt that the server now spells as a new item; None for any other change."""
        approved = self._approved(change.kind, change.name) if change.kind in _NAMED else None
        if approved is None or approved != change.renamed_from:
            return None
        if change.kind == "tool" and not self._is_taken(approved):
            return None
        return pins.get((change.kind, approved))

    def _approved(self, kind: PinKind, listed: str) -> str | None:
        """Return the approved name of which a listed one is another spelling; None for several, or for the same."""
        spelling = _spelling(listed)
        names = self._pinned.get((kind, spelling), set())
        if not spelling or len(names) != 1 or self._listed.get((kind, spelling)) != {listed}:
            return None
        (name,) = names
        return name if name != listed and keep_same_parts(name, listed) else None


def _by_spelling(items: Iterable[ItemKey]) -> dict[ItemKey, set[str]]:
    found: dict[ItemKey, set[str]] = defaultdict(set)
    for kind, name in items:
        if kind in _NAMED:
            found[kind, _spelling(name)].add(name)
    return found


def _spelling(name: str) -> str:
    """Return a name without case and separators; empty for one with other characters, which may only look alike."""
    return loosened(name) if len(name) <= CANONICAL_LIMIT and name.isascii() and name.isprintable() else ""


def said_of_respelled(approved: str, now: str) -> str:
    """Return that a tool or prompt is served under its approved name, and how its server calls it now."""
    return f"`{approved}` is served; the server now calls it `{now}`"
