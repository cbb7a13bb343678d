"""The pins of one server as this process knows them, and their effect on one of its lists, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from aggregator.pins.decide.values import ItemChange, ItemKey, OnChange, PinKind, PinnedItem
from aggregator.storage.records import PART


def part_of(kind: PinKind) -> str:
    """Return the name of a baseline of this kind whose first list was incomplete."""
    return f"{kind}{PART}"


@dataclass(frozen=True, slots=True, eq=False)
class UnwrittenPins:
    """The items of one kind that took effect and are not stored as pins yet. They count as pins at once: the next list
    is compared with them, whether or not they could be written.

    baseline: the first list, by name; None if a baseline was taken before. part: the rest of the first list is still to
    come. flagged: items of the baseline that have
    flags, by name. adopted: new items that the settings accept, by name.
    """

    baseline: Mapping[str, PinnedItem] | None = None
    flagged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adopted: Mapping[str, PinnedItem] = field(default_factory=dict)
    part: bool = False

    @property
    def items(self) -> Mapping[str, PinnedItem]:
        """All of them by name."""
        return {**(self.baseline or {}), **self.adopted}


@dataclass(frozen=True, slots=True, eq=False)
class ServerPins:
    """The pins of one server at one moment, immutable.

    pins: the approved definitions, by kind and name. taken: the kinds with a baseline, which may be an empty list, and
    `part_of` those whose first list came in part: the next one completes it.
    approved: when each item was approved, in seconds since 1970. seen: the digests noted in place of pinned items,
    empty for removed items. locked: the pins come from the lock file, and there is no first sight. adopted: with
    `locked`, the items that the settings accepted since then. readable: False if the pins could not be read. texts:
    False until a list needs the definitions of the pins. fault: the reason why no more items of this server can be
    pinned, empty if they can. Items without a pin are then held. unwritten: the entries of `pins` that are not stored
    yet.
    """

    pins: Mapping[ItemKey, PinnedItem] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    approved: Mapping[ItemKey, float] = field(default_factory=dict)
    seen: Mapping[ItemKey, str] = field(default_factory=dict)
    locked: bool = False
    adopted: Mapping[ItemKey, PinnedItem] = field(default_factory=dict)
    readable: bool = True
    texts: bool = True
    fault: str = ""
    unwritten: frozenset[ItemKey] = frozenset()

    def with_sight(self, kind: PinKind, sight: UnwrittenPins) -> "ServerPins":
        """Return the pins with what took effect of one kind."""
        seen: dict[ItemKey, PinnedItem] = {(kind, name): item for name, item in sight.items.items()}
        taken = self.taken if sight.baseline is None else self.taken | {part_of(kind) if sight.part else kind}
        # Items that the lock file lacks are new each time; only `adopted` has those that the settings accepted.
        adopted = {**seen, **self.adopted} if self.locked else self.adopted
        pins = self.pins if self.locked else {**seen, **self.pins}
        return replace(
            self, pins=pins, taken=taken, adopted=adopted, unwritten=frozenset(seen.keys() - self.pins.keys())
        )


UNREAD = ServerPins(readable=False)


class PinRules(NamedTuple):
    """The settings of one server: whether its first sight has to be approved, which changes are shown at once, and
    whether new items are.
    """

    asks: bool
    on_change: OnChange
    shows_new: bool = False

    @property
    def needs_pins(self) -> bool:
        """True if nothing is shown while the pins cannot be read."""
        return self.asks or self.on_change != "warn"


class ListedItem(NamedTuple):
    """One item of a list, with the schema version of its definition, which is as the server gave it."""

    name: str
    version: str
    definition: Any


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item that is neither listed nor callable. `why` explains it to hosts, without its name and without any text of
    its server: "its description changed".

    `approved` is the time of the approval of another definition, or None. `unprotected`: it is held because its pin
    cannot be read, compared or written now. `new`: the server added it after its first list. `before`: the name under
    which it was approved; empty if it is the same. `served`: the approved definition is served under that name.
    `takes_less`: it is served as approved, and the server does not take all of that any more. `sent_as`: it is served
    as approved, and the server calls it by this name now; empty if that is the same.
    """

    server: str
    kind: PinKind
    name: str
    why: str
    approved: float | None = None
    unprotected: bool = False
    new: bool = False
    before: str = ""
    takes_less: bool = False
    served: bool = False
    sent_as: str = ""


@dataclass(frozen=True, slots=True)
class ServedItem:
    """The approved definition of an item that the server has changed, which is shown in place of the current one.

    `version` is its schema version. `waits`: the reasons for which the current one waits for an approval, as in
    `HeldItem`; None if there is no difference to approve. `takes`: what the server takes now, if that is less, as in
    `Approved`. `sent_as`: the name that the server gives it now; empty if that is the approved one.
    """

    definition: Any
    version: str
    waits: HeldItem | None
    takes: Any = None
    sent_as: str = ""


class JudgedChange(NamedTuple):
    """A change with its consequence. `waits`: the current definition waits for an approval; `served`: the approved one
    is shown until then, and the item is not held. `adopted`: the settings accept the item, which had no pin.
    `takes_less`: the server does not take all of what is served.
    """

    change: ItemChange
    waits: bool
    adopted: bool
    served: bool = False
    takes_less: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class JudgedList:
    """One list of a server, with the effect of the pins on it.

    held: the items that are not shown, by name. served: the approved definitions that are shown in place of changed
    ones, by approved name. baseline: the items to pin if this is the first list of its kind in force, else None.
    adopting: new items that are to be pinned, since the settings accept them. flagged: items of the baseline that have
    flags, by name. changes: the differences from the pins. removed: pinned items that the list lacks. same: unchanged
    items that were noted as changed, or have another version now. provisional: changes are not compared yet, since the
    pinned definitions are still unread. sight: the other basis of comparison besides the pins. part: the baseline came
    in part. forgotten: items that were never approved, and that the list lacks now.
    """

    server: str
    kind: PinKind
    held: Mapping[str, HeldItem] = field(default_factory=dict)
    baseline: tuple[PinnedItem, ...] | None = None
    flagged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changes: tuple[JudgedChange, ...] = ()
    removed: tuple[str, ...] = ()
    same: tuple[PinnedItem, ...] = ()
    provisional: bool = False
    adopting: tuple[PinnedItem, ...] = ()
    sight: UnwrittenPins | None = None
    served: Mapping[str, ServedItem] = field(default_factory=dict)
    part: bool = False
    forgotten: tuple[str, ...] = ()

    @property
    def baseline_kind(self) -> str:
        """The name of its baseline."""
        return part_of(self.kind) if self.part else self.kind

    @property
    def has_news(self) -> bool:
        """True if there is something to write, or to read first."""
        news = (self.baseline is not None, self.changes, self.removed, self.same, self.adopting, self.provisional)
        return any(news) or bool(self.forgotten)
