"""Pins, changes and settings as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from aggregator.config.server_parts import ChangeClass

PinKind = Literal["tool", "prompt", "template", "skill", "instructions"]
Flag = Literal["hidden_characters", "look_alike", "shadowing"]

OnChange = Literal["hold", "warn"] | frozenset[ChangeClass]
"""`hold` holds every change, `warn` none; a set has the classes of changes that are accepted."""

ItemKey = tuple[PinKind, str]
"""The kind and the name of an item: the URI of a skill, the URI template of a template; empty for instructions."""

PIN_KINDS: Final[tuple[PinKind, ...]] = get_args(PinKind)
CHANGE_CLASSES: Final[tuple[ChangeClass, ...]] = get_args(ChangeClass)
FLAGS: Final[tuple[Flag, ...]] = get_args(Flag)
# Shown without an approval by default.
ACCEPTED: Final[frozenset[ChangeClass]] = frozenset({"cosmetic"})


@dataclass(frozen=True, slots=True)
class PinnedItem:
    """One definition of an item. `definition` is its canonical JSON, and `digest` the digest of that text.

    `version` is the schema version that the list had with it, empty if there is none: equal versions are equal
    definitions, without further computation.
    """

    kind: PinKind
    name: str
    digest: str
    version: str
    definition: str

    @property
    def key(self) -> ItemKey:
        """Return kind and name."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A difference between the pin of an item and its current definition.

    `before` is the pin, under its old name if the item was renamed; None for a new item. `sentence` describes the
    change to an operator, without the name of the item: "its description changed".
    """

    kind: PinKind
    name: str
    classes: frozenset[ChangeClass]
    before: PinnedItem | None
    after: PinnedItem
    renamed_from: str | None
    flags: frozenset[Flag]
    sentence: str

    @property
    def key(self) -> ItemKey:
        """Return kind and name."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class Comparison:
    """The items of one server beside its pins.

    `same` has the pins that hold, with the version of this list; `removed` has the pins of unlisted items.
    """

    changes: tuple[ItemChange, ...]
    removed: tuple[ItemKey, ...]
    same: tuple[PinnedItem, ...]


Pins = Mapping[ItemKey, PinnedItem]


def exact_word(kind: str, name: str) -> str:
    """Return the word of commands that means this item alone: `prompt:NAME`; for instructions their kind."""
    return kind if kind == "instructions" else f"{kind}:{name}"


def item_word(kind: str, name: str) -> str:
    """Return the shortest word by which commands may name an item: `NAME`, unless a server chose it to mean another."""
    exact = exact_word(kind, name)
    if kind == "skill" and name.startswith("skill://"):
        return name
    others = name == "instructions" or name.startswith(tuple(f"{one}:" for one in PIN_KINDS))
    return exact if kind == "instructions" or others else name
