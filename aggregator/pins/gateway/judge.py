"""Judge a list of one server by its pins: held items and new ones. This file decides; it awaits nothing.

Law: an unchanged item costs one comparison of two short texts; definitions are read only if these differ.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from aggregator.catalog.validate import definition_digest
from aggregator.domain.bounds.remembered import LONGEST_DEFINITION, LONGEST_NAME, MOST_ITEMS
from aggregator.domain.bounds.slices import Steps
from aggregator.pins.decide.comparison import compare, waits
from aggregator.pins.decide.definition import pin_digest, pinned_item
from aggregator.pins.decide.flags import NO_OTHERS, OtherServers, flag_steps
from aggregator.pins.decide.serving import approved_definition
from aggregator.pins.decide.spelling import Spellings
from aggregator.pins.decide.values import Comparison, ItemChange, ItemKey, PinKind, PinnedItem
from aggregator.pins.gateway.state import (
    HeldItem,
    JudgedChange,
    JudgedList,
    ListedItem,
    PinRules,
    ServedItem,
    ServerPins,
    part_of,
)

_NOT_READ: Final = "what was approved cannot be read now"
_NOT_APPROVED: Final = "it was not approved yet"
_NOT_COMPARED: Final = "it changed"
# What cannot be remembered could change later without being noticed.
_TOO_LONG: Final = "it is too long to be remembered"
# The explanations of held changes for hosts, by class: a sentence that quotes would contain new text of the server.
_CHANGED: Final[Mapping[str, str]] = {
    "renamed": "it has another name",
    "description": "its description changed",
    "wider": "it takes more than before",
    "narrower": "it takes less than before",
    "output": "its results changed",
    "steering": "it asks for values that were free before",
    "safer_annotations": "its annotations changed",
    "other_annotations": "its annotations changed",
}
# Why the approved definition of a tool or prompt is not served in place of a changed one.
_MAY_FAIL: Final = ", and approved calls may fail"
_TOO_MANY: Final = f"the server has had more than the {MOST_ITEMS:,} definitions that are remembered of one"


class _ListAndPins(NamedTuple):
    """One list to judge; the fields are the arguments of `judge_steps`."""

    server: str
    kind: PinKind
    listed: Sequence[ListedItem]
    known: ServerPins
    rules: PinRules
    others: Callable[[], Steps[OtherServers]]
    left_out: frozenset[str]
    is_taken: Callable[[str], bool]

    def spellings(self) -> Spellings:
        """Return the spellings of all names that are pinned or listed."""
        listed = (*(one.name for one in self.listed), *self.left_out)
        pinned = self.known.pins.keys() | self.known.adopted.keys()
        return Spellings(pinned, ((self.kind, name) for name in listed), self.is_taken)


def _any_name(name: str) -> bool:
    return True


def judge_steps(
    server: str,
    kind: PinKind,
    listed: Sequence[ListedItem],
    known: ServerPins,
    rules: PinRules,
    others: Callable[[], Steps[OtherServers]],
    left_out: frozenset[str] = frozenset(),
    is_taken: Callable[[str], bool] = _any_name,
) -> Steps[JudgedList]:
    """Judge one list, one item in a step. `others` returns the items of other servers, for look-alikes.

    left_out: names that the server lists and that are not among `listed`, since they cannot or may not be used.
    is_taken: whether the configuration takes an item of a name.
    """
    if not known.readable:
        return unprotected(server, kind, listed, rules, _NOT_READ)
    judged = yield from _judge_readable(_ListAndPins(server, kind, listed, known, rules, others, left_out, is_taken))
    return judged if not known.fault or rules.on_change == "warn" else _only_pinned(judged, listed, known)


def unprotected(server: str, kind: PinKind, listed: Sequence[ListedItem], rules: PinRules, why: str) -> JudgedList:
    """Return a list with every item held, since its pins cannot be read or compared. `warn` shows all, unless the
    server has to be approved first.
    """
    if not rules.needs_pins:
        return JudgedList(server, kind)
    return JudgedList(
        server, kind, {one.name: HeldItem(server, kind, one.name, why, unprotected=True) for one in listed}
    )


def _only_pinned(judged: JudgedList, listed: Sequence[ListedItem], known: ServerPins) -> JudgedList:
    """Return a list that shows only items which equal their pins, since no more can be pinned."""
    server, kind, why = judged.server, judged.kind, known.fault
    names = [item.name for item in judged.baseline or ()]
    names += [one.change.name for one in judged.changes if not one.served]
    names += [name for name in (*(one.name for one in listed), *judged.served) if (kind, name) in known.unwritten]
    held = {name: HeldItem(server, kind, name, why, unprotected=True) for name in names}
    return replace(judged, held={**held, **judged.held})


def _judge_readable(asked: _ListAndPins) -> Steps[JudgedList]:
    kind, listed, known, rules, others, left_out = asked[1:7]
    pins = {key: pin for key, pin in known.pins.items() if key[0] == kind}
    if known.locked and accepts_new(rules):
        pins = {**{key: pin for key, pin in known.adopted.items() if key[0] == kind}, **pins}
    if not (pins or rules.asks or known.locked or kind in known.taken):
        return (yield from _first_sight(asked))
    if not known.texts:
        provisional = yield from _provisional(asked, pins)
        if provisional is not None:
            return provisional
    items = [(kind, one.name, one.definition, one.version) for one in listed]
    # What the server lists is neither gone nor renamed, even if it is not used.
    there = [pin for key, pin in pins.items() if key[1] in left_out]
    pins = {key: pin for key, pin in pins.items() if key[1] not in left_out}
    nothing_new = all((pin := pins.get((kind, one.name))) is not None and pin.version == one.version for one in listed)
    found = yield from compare(pins, items, NO_OTHERS if nothing_new else (yield from others()))
    judged = yield from _judged(asked, found, pins)
    noted_as_gone = tuple(pin for pin in there if known.seen.get(pin.key) == "")
    return replace(judged, same=(*judged.same, *noted_as_gone)) if noted_as_gone else judged


def _provisional(asked: _ListAndPins, pins: Mapping[ItemKey, PinnedItem]) -> Steps[JudgedList | None]:
    """Return the result in force until the pinned definitions are read; None if they are not needed."""
    server, kind, listed, known, rules, *_ = asked
    differing: list[str] = []
    held: dict[str, HeldItem] = {}
    for one in listed:
        pin = pins.get((kind, one.name))
        if pin is not None and pin.version and pin.version == one.version:
            continue
        yield
        if pin is None or pin.digest != pinned_item(kind, one.name, one.definition).digest:
            differing.append(one.name)
    if not differing:
        return None
    for name in differing:
        if (kind, name) in pins and rules.on_change != "warn":
            held[name] = HeldItem(server, kind, name, _NOT_COMPARED, known.approved.get((kind, name)))
        elif (kind, name) not in pins and known.fault and rules.on_change != "warn":
            held[name] = HeldItem(server, kind, name, known.fault, unprotected=True)
        elif (kind, name) not in pins and not accepts_new(rules):
            held[name] = HeldItem(server, kind, name, _NOT_APPROVED)
    return JudgedList(server, kind, held, provisional=True)


def why_for_hosts(change: ItemChange) -> str:
    """Return why a changed item is held, in words that the server cannot influence."""
    if "new" in change.classes:
        return _NOT_APPROVED
    said = list(dict.fromkeys(said for one, said in _CHANGED.items() if one in change.classes)) or [_NOT_COMPARED]
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))


def accepts_new(rules: PinRules) -> bool:
    """Return whether a new item is shown without an approval."""
    return not rules.asks and rules.shows_new


def _first_sight(asked: _ListAndPins) -> Steps[JudgedList]:
    server, kind, listed, known, rules, others, *_ = asked
    baseline: list[PinnedItem] = []
    held: dict[str, HeldItem] = {}
    flagged: dict[str, tuple[str, ...]] = {}
    other_tools = (yield from others()) if listed else NO_OTHERS
    left = _left(known)
    for one in listed:
        yield
        item = pinned_item(kind, one.name, one.definition, one.version)
        why = _not_remembered(item, left - len(baseline), rules)
        if why:
            held[one.name] = HeldItem(server, kind, one.name, why)
            continue
        baseline.append(item)
        flags = yield from flag_steps(kind, one.name, one.definition, other_tools)
        if flags:
            flagged[one.name] = tuple(sorted(flags))
    return JudgedList(server, kind, held, baseline=tuple(baseline), flagged=flagged)


def _left(known: ServerPins) -> int:
    """Return how many items more of a server are remembered."""
    return MOST_ITEMS - len(known.pins.keys() | known.adopted.keys() | known.seen.keys())


def _not_remembered(item: PinnedItem, left: int, rules: PinRules) -> str:
    """Return why a new item cannot be pinned; an empty text if it can."""
    if rules.on_change == "warn":
        return ""
    if len(item.definition) > LONGEST_DEFINITION or len(item.name) > LONGEST_NAME:
        return _TOO_LONG
    return _TOO_MANY if left <= 0 else ""


def _version(pin: PinnedItem, served: Any) -> str:
    """Return the schema version of what is served: the approved one, unless a part is left out."""
    whole = pin.version and pin_digest(pin.kind, served) == pin.digest
    return pin.version if whole else definition_digest(served)


def _judged(asked: _ListAndPins, found: Comparison, pins: Mapping[ItemKey, PinnedItem]) -> Steps[JudgedList]:
    server, kind, listed, known, rules, *_ = asked
    held: dict[str, HeldItem] = {}
    rest: list[PinnedItem] | None = None
    if part_of(kind) in known.taken and kind not in known.taken and not (rules.asks or known.locked):
        # What a first list lacked, which came in part, is no news.
        rest = []
    served: dict[str, ServedItem] = {}
    changes: list[JudgedChange] = []
    left = _left(known)
    given = {one.name: one.definition for one in reversed(listed)} if found.changes else {}
    spellings = asked.spellings() if found.changes and found.removed and rest is None else None
    for change in found.changes:
        yield
        new = change.key not in pins
        holds = waits(change, rules.on_change, shows_new=rules.shows_new) or (rules.asks and new)
        pin = _pin_to_serve(asked, change, pins, spellings, holds=holds)
        item = _as_approved(asked, change, pin, given[change.name], holds=holds) if pin is not None else None
        if pin is not None and item is not None:
            served[pin.name] = item
            if new:
                held[change.name] = replace(_held(asked, change, new=True), served=True)
            takes_less = item.takes is not None
            changes.append(JudgedChange(change, holds, adopted=False, served=True, takes_less=takes_less))
            continue
        if new and rest is not None:
            holds = False
        if new and not holds:
            too_much = _not_remembered(change.after, left, rules)
            if too_much:
                held[change.name] = HeldItem(server, kind, change.name, too_much)
                continue
            left -= change.key not in known.seen
        if new and rest is not None:
            rest.append(change.after)
            continue
        if holds:
            held[change.name] = _held(asked, change, new=new)
        changes.append(JudgedChange(change, holds, new and not holds and rules.on_change != "warn"))
    gone = [key for key in found.removed if key[1] not in served]
    # What is served under its approved name is not gone, whatever was noted before.
    back = tuple(pins[key] for key in found.removed if key[1] in served and known.seen.get(key) == "")
    # Those that were noted as gone are noted without a digest.
    removed = tuple(key[1] for key in gone if known.seen.get(key) != "")
    return JudgedList(
        server,
        kind,
        held,
        tuple(rest) if rest is not None else None,
        {},
        tuple(changes),
        removed,
        (*_to_note(found, known), *back),
        served=served,
        forgotten=_forgotten(asked, pins),
    )


def _pin_to_serve(
    asked: _ListAndPins,
    change: ItemChange,
    pins: Mapping[ItemKey, PinnedItem],
    spellings: Spellings | None,
    *,
    holds: bool,
) -> PinnedItem | None:
    """Return the pin to serve in place of a changed or respelled item, if calls by it go on; None for none."""
    if asked.rules.on_change == "warn":
        return None
    if change.key in pins:
        # Of two definitions with one meaning, the approved one is shown.
        return pins[change.key] if holds or change.classes == {"cosmetic"} else None
    return spellings.pin(change, pins) if holds and spellings is not None else None


def _as_approved(
    asked: _ListAndPins, change: ItemChange, pin: PinnedItem, given: Any, *, holds: bool
) -> ServedItem | None:
    """Return the approved definition to serve in place of a changed one; None if calls by it would fail."""
    approved = approved_definition(asked.kind, pin.definition, given)
    if approved is None:
        return None
    why = None
    sent_as = change.name if change.name != pin.name else ""
    if holds:
        since, reason = asked.known.approved.get(pin.key), why_for_hosts(change)
        takes_less = approved.takes is not None
        why = HeldItem(asked.server, asked.kind, pin.name, reason, since, takes_less=takes_less, sent_as=sent_as)
    return ServedItem(approved.definition, _version(pin, approved.definition), why, approved.takes, sent_as)


def _held(asked: _ListAndPins, change: ItemChange, *, new: bool) -> HeldItem:
    """Return the reason why a changed or new item is held."""
    before = change.before.key if change.before is not None else change.key
    return HeldItem(
        asked.server,
        asked.kind,
        change.name,
        why_for_hosts(change) + (_MAY_FAIL if not new and asked.kind in ("tool", "prompt") else ""),
        asked.known.approved.get(before),
        new="new" in change.classes and asked.kind in asked.known.taken,
        before=change.renamed_from or "",
    )


def _to_note(found: Comparison, known: ServerPins) -> tuple[PinnedItem, ...]:
    """Return the unchanged items whose pins lack their version, or whose presence is not noted."""
    # A pin of the lock file has no version, and a list with one changes nothing there.
    return tuple(
        pin
        for pin in found.same
        if pin.key in known.seen or (not known.locked and pin.version != known.pins[pin.key].version)
    )


def _forgotten(asked: _ListAndPins, pins: Mapping[ItemKey, PinnedItem]) -> tuple[str, ...]:
    """Return the names of noted items that the server lists no more and that have no pin."""
    kind, known = asked.kind, asked.known
    there = {one.name for one in asked.listed} | asked.left_out
    return tuple(
        key[1]
        for key in known.seen
        if key[0] == kind and key[1] not in there and key not in pins and key not in known.pins
    )
