"""The texts about pins for the log, the audit and notices.

Law: each new digest is reported once, and never with the text of a definition.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from aggregator.pins.decide.upgrade import OpenCounts, between
from aggregator.pins.decide.values import PinKind
from aggregator.pins.gateway.state import JudgedList
from aggregator.storage.records import MARKERS, SERVED, TAKES_LESS, SeenItem

log = logging.getLogger(__name__)

# Changes of one list that are reported one by one, and names in one text.
_EVENTS: Final = 50
_NAMED: Final = 10
_NOUNS: Final[Mapping[PinKind, tuple[str, str]]] = {
    "tool": ("tool", "tools"),
    "prompt": ("prompt", "prompts"),
    "template": ("resource template", "resource templates"),
    "skill": ("skill", "skills"),
    "instructions": ("text of instructions", "texts of instructions"),
}


class PinEvents(Protocol):
    """The audit and the notices of pins."""

    def pins_event(self, server: str, said: str, details: Mapping[str, Any]) -> None:
        """Record what happened to the pins of a server."""

    def definitions_held(self, server: str, names: Sequence[str], why: str) -> None:
        """Notify operators that definitions of a server wait for an approval."""


class PinNews:
    """The one place that reports about pins."""

    def __init__(self, events: PinEvents) -> None:
        self._events = events
        # By server: what waits and was not reported yet, with the sentences.
        self._open: dict[str, list[tuple[SeenItem, str]]] = {}

    def baseline(self, judged: JudgedList, count: int, before: int = 0) -> None:
        """Report that items were pinned at first sight; `count` of them by this process.

        before: items that are pinned for another entry of the configuration with the same name.
        """
        server, kind = judged.server, judged.kind
        if not count:
            return
        said = f"{server}: {_count(count, kind)} pinned as first seen"
        details: dict[str, Any] = {"what": "baseline", "kind": kind, "items": count}
        if before:
            said += f"; its entry in the configuration was changed, and {before} pins count for the entry before"
            details["before"] = before
        if judged.flagged:
            flagged = {name: list(flags) for name, flags in list(judged.flagged.items())[:_EVENTS]}
            details |= {"flagged": flagged, "more": len(judged.flagged) - len(flagged)}
            log.warning("%s; suspicious: %s", said, _names(list(judged.flagged)))
        else:
            log.info("%s", said)
        self._events.pins_event(server, said, details)

    def withheld(self, server: str, problem: str) -> None:
        """Report that pins of a server cannot be read or written, so that its items without a pin are held."""
        said = f"{server}: {problem}; its items without a pin are held"
        self._events.pins_event(server, said, {"what": "withheld", "problem": problem})
        self._events.definitions_held(server, [], problem)

    def adopted(self, judged: JudgedList, names: Sequence[str]) -> None:
        """Tell that new items were pinned, since the settings accept them."""
        if not names:
            return
        server, kind = judged.server, judged.kind
        said = f"{server}: {_count(len(names), kind)} new and pinned, as `on_change` accepts: {_names(names)}"
        log.info("%s", said)
        details = {"what": "new", "kind": kind, "items": list(names[:_EVENTS]), "held": False}
        self._events.pins_event(server, said, details)

    def changed(self, judged: JudgedList, new: Sequence[SeenItem]) -> None:
        """Report the items that differ from the approved ones, or are gone."""
        server, kind = judged.server, judged.kind
        gone = [one.name for one in new if one.digest is None]
        if gone:
            said = f"{server}: {_count(len(gone), kind)} not there any more: {_names(gone)}"
            log.info("%s", said)
            self._events.pins_event(server, said, {"what": "removed", "kind": kind, "items": gone[:_EVENTS]})
        changes = {one.change.name: one.change for one in judged.changes}
        told = [one for one in new if one.digest is not None and one.name in changes]
        for one in told[:_EVENTS]:
            change = changes[one.name]
            what = "renamed" if one.renamed_from is not None else ("new" if change.before is None else "changed")
            served = SERVED in one.classes
            said = f"{server}: {_state(kind, one, served=served)}: {change.sentence}"
            said += "; what was approved is served" if served else ""
            said += ", and calls that the server no longer takes are refused" if TAKES_LESS in one.classes else ""
            # `upgraded` warns of all that waits, in one line.
            log.log(logging.WARNING if one.flags else logging.INFO, "%s", said)
            details = {
                "what": what,
                "kind": kind,
                "item": one.name,
                "classes": [name for name in one.classes if name not in MARKERS],
                "flags": list(one.flags),
                "held": one.held and not served,
                "served": "approved" if served else "current" if not one.held else "nothing",
                "digest": one.digest,
                **({"pinned": change.before.digest} if change.before is not None else {}),
                **({"renamed_from": one.renamed_from} if one.renamed_from is not None else {}),
            }
            self._events.pins_event(server, said, details)
        if len(told) > _EVENTS:
            said = f"{server}: {len(told) - _EVENTS} more {_NOUNS[kind][1]} changed"
            self._events.pins_event(server, said, {"what": "changed", "kind": kind, "more": len(told) - _EVENTS})
        self._open.setdefault(server, []).extend((one, changes[one.name].sentence) for one in told if one.held)

    def upgraded(self, server: str, before: str, version: str) -> None:
        """Report once, after the lists of a server were written, how many of its definitions wait for an approval.

        before, version: the server's version when all was approved, and its current one; empty without one.
        """
        found = self._open.pop(server, [])
        if not found:
            return
        counts = OpenCounts.of(one.classes for one, _ in found)
        versions = between(before, version)
        said = counts.words()
        names = [one.name or one.kind for one, _ in found]
        about = f"{server} {versions}".rstrip()
        log.warning(
            "%s: %s (%s); approve with `aggregator pins approve %s`", about, said, _names(sorted(names)), server
        )
        why = found[0][1] if len(found) == 1 else f"{versions}: {said}" if versions else said
        self._events.definitions_held(server, names, why)


def _state(kind: PinKind, one: SeenItem, *, served: bool) -> str:
    """Return an item and its state."""
    item = f"{kind} {one.name!r:.80}" if one.name else f"text of {kind}"
    if served and one.renamed_from is not None:
        return f"{kind} {one.renamed_from!r:.80} is served, and the server now calls it {one.name!r:.80}"
    return f"{item} {('changed and waits' if served else 'is held') if one.held else 'changed'}"


def _count(number: int, kind: PinKind) -> str:
    one, many = _NOUNS[kind]
    return f"{number} {one} is" if number == 1 else f"{number} {many} are"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"{name!r:.80}" for name in names[:_NAMED]) + more
