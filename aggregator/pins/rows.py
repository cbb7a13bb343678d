"""The rows of pinned items: made, compared with what a server has now, and read. Values in, values out; no I/O."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import RowMapping

from aggregator.domain.bounds.remembered import LONGEST_DEFINITION, LONGEST_NAME
from aggregator.storage.records import ADDED_LATER, ItemText, PinRow, SeenItem

NOTHING_SEEN: Final[Mapping[str, Any]] = {
    "seen_digest": None,
    "seen_version": None,
    "seen_definition": None,
    "seen": None,
    "classes": None,
    "renamed_from": None,
    "held": 0,
}
# The columns that `changed_columns` compares.
COMPARED: Final = (
    "item",
    "digest",
    "version",
    "seen_digest",
    "seen_version",
    "seen",
    "classes",
    "renamed_from",
    "flags",
    "held",
)


def stays(one: SeenItem, before: Mapping[str, Any], now: float, read_at: float, *, said: bool) -> bool:
    """Return whether the stored definition of an item stays, since another process has seen it later."""
    if one.digest is not None and one.digest == before["digest"] and said:
        return True
    if before["seen_digest"] in (None, one.digest):
        return False
    is_later = before["seen"] is not None and read_at < before["seen"] <= now
    return said or (is_later and one.digest in (None, before["digest"]))


def changed_columns(one: SeenItem, before: Mapping[str, Any] | None, now: float) -> dict[str, Any] | None:
    """Return the changed columns of a row; None if it is up to date."""
    flags = _joined(one.flags)
    if one.digest is None or (before is not None and one.digest == before["digest"]):
        if before is None:
            return None
        gone = one.digest is None and before["digest"] is not None
        values = {**NOTHING_SEEN, "flags": flags, "classes": _joined(one.classes) if gone else None}
        if one.digest is not None and one.version:
            values["version"] = one.version
        return values if any(name in before and before[name] != value for name, value in values.items()) else None
    if not fits(one):
        return None
    classes = one.classes
    if (
        before is not None
        and before["seen_digest"] == one.digest
        and ADDED_LATER in (before["classes"] or "").split(",")
    ):
        # A restart does not change how it came.
        classes = (*(name for name in classes if name != ADDED_LATER), ADDED_LATER)
    values = {
        "seen_digest": one.digest,
        "seen_version": one.version,
        "classes": _joined(classes),
        "renamed_from": one.renamed_from,
        "flags": flags,
        "held": int(one.held),
    }
    if before is not None and all(before[name] == value for name, value in values.items()):
        return None
    again = before is not None and before["seen_digest"] == one.digest
    return values if again else {**values, "seen_definition": one.text, "seen": now}


def digests(row: Mapping[str, Any] | None) -> tuple[str | None, ...]:
    """Return the pinned digest and the seen one of a row; nothing without a row."""
    return () if row is None else (row["digest"], row["seen_digest"])


def pinned_row(server: str, entry: str, item: ItemText, by: str, now: float) -> dict[str, Any]:
    """Return the row of an item that is pinned now."""
    return {
        "server": server,
        "entry": entry,
        "item": item_key(entry, item.kind, item.name),
        "kind": item.kind,
        "name": item.name,
        "digest": item.digest,
        "version": item.version,
        "definition": item.text,
        "approved": now,
        "approved_by": by[:128],
        "flags": _joined(item.flags),
        "held": 0,
    }


def without_repetitions(items: Iterable[ItemText]) -> list[ItemText]:
    """Return the first of the items of each name."""
    return list({(item.kind, item.name): item for item in reversed(list(items))}.values())[::-1]


def fits(item: ItemText | SeenItem) -> bool:
    """Return whether an item is short enough to be stored."""
    return len(item.text) <= LONGEST_DEFINITION and len(item.name) <= LONGEST_NAME


def item_key(entry: str, kind: str, name: str) -> str:
    """Return the key of an item under an entry: a digest, since names may be long."""
    before = f"{entry}\0" if entry else ""
    return sha256(f"{before}{kind}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()


def _joined(names: Iterable[str]) -> str | None:
    return ",".join(names) or None


def pin_row(row: RowMapping) -> PinRow:
    """Return a row of the table as a record."""
    values = {name: value for name, value in row.items() if name not in ("item", "entry")}
    for name in ("classes", "flags"):
        values[name] = tuple(values[name].split(",")) if values[name] else ()
    values["held"] = bool(values["held"])
    return PinRow(**values)
