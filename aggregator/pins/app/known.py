"""Pins as the gateway needs them, made of rows and of the lock file. This file decides; it awaits nothing."""

from collections.abc import Iterable, Mapping
from typing import Final, cast, get_args

from aggregator.pins.decide.values import ItemKey, PinKind, PinnedItem
from aggregator.pins.gateway.state import JudgedList, ServerPins
from aggregator.storage.records import ADDED_LATER, SERVED, TAKES_LESS, ItemText, PinRow, SeenItem

REMOVED: Final = "removed"
_KINDS: Final = frozenset(get_args(PinKind))


def server_pins(
    rows: Iterable[PinRow],
    taken: frozenset[str],
    locked: Mapping[ItemKey, PinnedItem] | None,
    *,
    texts: bool,
    fault: str = "",
) -> ServerPins:
    """Return the pins of one server.

    locked: the pins of the lock file, which replace the rows; None if it has none of the server. texts: whether the
    rows have their definitions. fault: the reason why no more items can be pinned of the server, or empty.
    """
    pins: dict[ItemKey, PinnedItem] = {}
    versions: dict[ItemKey, tuple[str, str]] = {}
    approved: dict[ItemKey, float] = {}
    seen: dict[ItemKey, str] = {}
    for row in rows:
        if row.kind not in _KINDS:
            continue
        key = cast(PinKind, row.kind), row.name
        if row.digest is not None:
            pins[key] = PinnedItem(key[0], row.name, row.digest, row.version or "", row.definition or "")
            versions[key] = row.digest, row.version or ""
            if row.approved is not None:
                approved[key] = row.approved
        if row.seen_digest is not None or REMOVED in row.classes:
            seen[key] = row.seen_digest or ""
    if locked is None:
        return ServerPins(pins, taken, approved, seen, texts=texts, fault=fault)
    adopted = {key: pin for key, pin in pins.items() if key not in locked}
    # A pin of the file has no version; a row with the same digest supplies it.
    known = {key: _versioned(pin, versions.get(key)) for key, pin in locked.items()}
    approved = {key: at for key, at in approved.items() if key in adopted or versions[key][0] == known[key].digest}
    texts = texts or not adopted
    return ServerPins(known, taken, approved, seen, locked=True, adopted=adopted, texts=texts, fault=fault)


def _versioned(pin: PinnedItem, row: tuple[str, str] | None) -> PinnedItem:
    if row is None or row[0] != pin.digest or not row[1]:
        return pin
    return PinnedItem(pin.kind, pin.name, pin.digest, row[1], pin.definition)


def text_of(item: PinnedItem, flags: Iterable[str] = ()) -> ItemText:
    """Return an item in its stored form."""
    return ItemText(item.kind, item.name, item.digest, item.version, item.definition, tuple(flags))


def seen_of(judged: JudgedList, *, later: bool = False) -> list[SeenItem]:
    """Return the sightings to store about the items of a list: changed, removed, and equal to the pin again.

    later: the list was read before over the same connection, so that the server added what is new while it ran.
    """
    found = [
        SeenItem(
            judged.kind,
            one.change.name,
            one.change.after.digest,
            one.change.after.version,
            one.change.after.definition,
            (
                *sorted(one.change.classes),
                *((SERVED,) if one.served else ()),
                *((TAKES_LESS,) if one.takes_less else ()),
                *((ADDED_LATER,) if later and "new" in one.change.classes else ()),
            ),
            one.change.renamed_from,
            tuple(sorted(one.change.flags)),
            one.waits,
        )
        for one in judged.changes
        if not one.adopted
    ]
    found += [SeenItem(judged.kind, name, None, classes=(REMOVED,)) for name in judged.removed]
    found += [SeenItem(judged.kind, name, None) for name in judged.forgotten]
    found += [SeenItem(judged.kind, pin.name, pin.digest, pin.version) for pin in judged.same]
    return found


def signature(judged: JudgedList) -> object:
    """Return a value that is equal for two lists about which the same is to be written."""
    changes = frozenset(
        (one.change.name, one.change.after.digest, one.waits, one.served, one.adopted) for one in judged.changes
    )
    baseline = None if judged.baseline is None else frozenset((pin.name, pin.digest) for pin in judged.baseline)
    same = frozenset((pin.name, pin.digest, pin.version) for pin in judged.same)
    adopting = frozenset((pin.name, pin.digest) for pin in judged.adopting)
    gone = frozenset(judged.removed), frozenset(judged.forgotten)
    return changes, baseline, gone, same, adopting, judged.provisional, judged.part
