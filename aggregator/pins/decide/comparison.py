"""The comparison of one server's items with its pins, in steps of bounded cost. This file decides; it awaits nothing.

Rule: an item with the version of its pin costs one look-up; its definition is not read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from aggregator.domain.bounds.slices import Steps
from aggregator.pins.decide.classes import find_changes
from aggregator.pins.decide.definition import is_same_as, pinned_item, with_version
from aggregator.pins.decide.findings import Findings, one_line, sentence_about
from aggregator.pins.decide.flags import OtherServers, flag_steps
from aggregator.pins.decide.renames import RenameSearch
from aggregator.pins.decide.values import Comparison, Flag, ItemChange, ItemKey, OnChange, PinKind, PinnedItem

Listed = tuple[PinKind, str, Any, str]
"""Kind, name, definition as the server gave it, and its version, empty without one."""


def compare(pins: Mapping[ItemKey, PinnedItem], items: Iterable[Listed], others: OtherServers) -> Steps[Comparison]:
    """Return the changes of one server's items, in the order of its list. The first of several of one name counts."""
    same: dict[ItemKey, PinnedItem] = {}
    changed: dict[ItemKey, tuple[PinnedItem | None, PinnedItem, Any]] = {}
    for kind, name, definition, version in items:
        key: ItemKey = (kind, name)
        pin = pins.get(key)
        if pin is not None and pin.version == version and version and key not in changed:
            same[key] = pin
            continue
        if key in same or key in changed:
            continue
        yield
        item = pinned_item(kind, name, definition, version)
        if pin is not None and (pin.digest == item.digest or is_same_as(kind, pin.definition, item)):
            same[key] = with_version(pin, version)
        else:
            changed[key] = pin, item, definition
    if len(same) == len(pins) and not changed:
        return Comparison((), (), tuple(same.values()))
    removed = tuple(key for key in pins if key not in same and key not in changed)
    changes = (yield from _changes(pins, same, changed, others)) if changed else ()
    return Comparison(changes, removed, tuple(same.values()))


def waits(change: ItemChange, on_change: OnChange, *, shows_new: bool = False) -> bool:
    """Return whether the current definition of an item is not shown until an operator approves it.

    Flags make a change of accepted classes wait, too.
    """
    if on_change == "warn":
        return False
    if "new" in change.classes:
        return not shows_new or bool(change.flags)
    return on_change == "hold" or bool(change.flags) or not change.classes <= on_change


def _changes(
    pins: Mapping[ItemKey, PinnedItem],
    same: Mapping[ItemKey, PinnedItem],
    changed: Mapping[ItemKey, tuple[PinnedItem | None, PinnedItem, Any]],
    others: OtherServers,
) -> Steps[tuple[ItemChange, ...]]:
    search = RenameSearch()
    new = [item for pin, item, _ in changed.values() if pin is None]
    if new and pins:
        yield from search.prepare(pins.values(), {*same, *changed}, new)
    found: list[ItemChange] = []
    for pin, item, definition in changed.values():
        yield
        flags = yield from flag_steps(item.kind, item.name, definition, others)
        yield
        found.append(item_change(pin, item, flags, search.origin(item) if pin is None else None))
    return tuple(found)


def item_change(
    pin: PinnedItem | None, item: PinnedItem, flags: frozenset[Flag], source: PinnedItem | None = None
) -> ItemChange:
    """Return the change of an item that differs from its pin. Without a pin it is new, or was `source` before."""
    if pin is not None:
        source = None
        findings, first = find_changes(item.kind, pin.definition, item.definition), ""
    elif source is not None:
        findings, first = _of_rename(source, item), f"it was `{one_line(source.name)}` before"
    else:
        findings, first = Findings({"new"}), "it is new"
    return ItemChange(
        kind=item.kind,
        name=item.name,
        classes=frozenset(findings.classes),
        before=pin or source,
        after=item,
        renamed_from=source.name if source is not None else None,
        flags=flags,
        sentence=sentence_about(findings, flags, first),
    )


def _of_rename(before: PinnedItem, after: PinnedItem) -> Findings:
    """Return what else changed of an item with a new name."""
    names = frozenset({"uri", "uriTemplate"} | ({"name"} if after.kind in ("tool", "prompt") else set()))
    findings = find_changes(after.kind, before.definition, after.definition, leave_out=names)
    findings.classes.add("renamed")
    return findings
