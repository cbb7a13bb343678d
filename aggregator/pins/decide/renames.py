"""Renames: which pinned item a new item was before. This file decides; it awaits nothing.

A new item is a pinned one under another name if all but its name is equal, or if it is near one that is not listed any
more. Words and properties count by how rare they are in the server, so that what all its tools say tells nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log, sqrt
from typing import Any, Final

from aggregator.domain.bounds.slices import Steps
from aggregator.domain.schema_walk import positions
from aggregator.pins.decide.definition import canonical_text, text_digest
from aggregator.pins.decide.findings import texts
from aggregator.pins.decide.values import ItemKey, PinKind, PinnedItem
from aggregator.wire.codec import decode

# Members by which an item is identified or called: the rest is its body. A title goes with the name.
_NAMES: Final = frozenset({"name", "title", "uri", "uriTemplate"})
# Features of one item, and items that one feature leads to: a commoner one finds nothing that rarer ones do not.
_FEATURES: Final = 800
_LED_TO: Final = 64
# Items looked at closely for one new item.
_NEAREST: Final = 8
# Similarity from which a new item is near another: of 1, for equal bodies. `benchmarks pins` measures both errors.
_NEAR: Final = 0.45
# The same for two names of which one is the other with a word more.
_NEAR_AND_NAMED: Final = 0.15
# Features without which a body says too little: many tools have nothing but a name.
_TELLING: Final = 4
# New items of one list beyond which only names and equal bodies are compared, and items that are gone of which more
# is; other items that are read for how rare words are. A rename only words what waits.
_CLOSELY: Final = 200
_COUNTED: Final = 1_000
# Characters of a definition beyond which only equal bodies are found.
_LARGEST: Final = 96 * 1024
# Characters of one text that are read.
_LONGEST_TEXT: Final = 8 * 1024

_WORD: Final = re.compile(r"[^\W_]{2,}")
_SEPARATOR: Final = re.compile(r"[\W_]+")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

Features = frozenset[str]


class RenameSearch:
    """The pinned items of one server, by body and by features. `listed` are the items that it lists now."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[PinKind, str], list[PinnedItem]] = defaultdict(list)
        self._features: dict[ItemKey, Features] = {}
        self._led_to: dict[str, list[PinnedItem]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._listed: set[ItemKey] = set()
        self._closely = True
        # Items that are not listed any more, by kind and letters of the name, and by kind and words of it.
        self._by_letters: dict[tuple[PinKind, str], list[PinnedItem]] = defaultdict(list)
        self._by_words: dict[tuple[PinKind, tuple[str, ...]], list[PinnedItem]] = defaultdict(list)

    def prepare(self, pins: Iterable[PinnedItem], listed: set[ItemKey], new: Sequence[PinnedItem]) -> Steps[None]:
        """Take the pins and the new items of a server, one in a step."""
        self._listed, self._closely = listed, len(new) <= _CLOSELY
        gone = 0
        for number, pin in enumerate(pins):
            yield
            value = _read(pin.definition)
            self._bodies[pin.kind, _body(pin.kind, value)].append(pin)
            if pin.key not in listed:
                gone += 1
                self._by_letters[pin.kind, _letters(pin.name)].append(pin)
            if not self._closely or (number >= _COUNTED and (pin.key in listed or gone > _CLOSELY)):
                continue
            features = self._features[pin.key] = _features(pin, value)
            self._counts.update(features)
            if pin.key not in listed:
                for words in _shortened(pin.name):
                    self._by_words[pin.kind, words].append(pin)
                for feature in features:
                    led_to = self._led_to[feature]
                    if len(led_to) < _LED_TO:
                        led_to.append(pin)
        for item in new if self._closely else ():
            yield
            self._counts.update(_features(item, _read(item.definition)))

    def origin(self, item: PinnedItem) -> PinnedItem | None:
        """Return the pinned item that a new item was before; None for an item that is new."""
        value = _read(item.definition)
        features = _features(item, value)
        spelled = self._by_letters.get((item.kind, _letters(item.name)), ())
        if len(spelled) == 1:
            # `read-file` is `read_file` whatever else it says.
            return spelled[0]
        if len(features) < _TELLING:
            # So short a body fits many tools.
            return None
        equal = self._bodies.get((item.kind, _body(item.kind, value)), ())
        for pin in equal:
            if pin.key not in self._listed:
                return pin
        if equal:
            # What several tools say beside each other tells nothing of one more.
            return equal[0] if len(equal) == 1 else None
        if not self._closely:
            return None
        return self._nearest(item, features) or self._named(item, features)

    def _named(self, item: PinnedItem, features: Features) -> PinnedItem | None:
        """Return the one item with a word less or more at an end of its name, if it is somewhat near."""
        found = {pin.key: pin for words in _shortened(item.name) for pin in self._by_words.get((item.kind, words), ())}
        if len(found) != 1:
            return None
        (pin,) = found.values()
        return pin if self._similarity(features, self._features[pin.key]) >= _NEAR_AND_NAMED else None

    def _nearest(self, item: PinnedItem, features: Features) -> PinnedItem | None:
        shared: Counter[ItemKey] = Counter()
        pins: dict[ItemKey, PinnedItem] = {}
        for feature in features:
            for pin in self._led_to.get(feature, ()):
                if pin.kind == item.kind:
                    shared[pin.key] += 1
                    pins[pin.key] = pin
        best: tuple[float, PinnedItem] | None = None
        for key, _ in shared.most_common(_NEAREST):
            near = self._similarity(features, self._features[key])
            if near >= _NEAR and (best is None or near > best[0]):
                best = near, pins[key]
        return best[1] if best is not None else None

    def _similarity(self, one: Features, other: Features) -> float:
        """Return the weight of what two items share beside the mean weight of each; between 0 and 1."""
        each = [sum(self._weight(feature) for feature in features) for features in (one, other, one & other)]
        return each[2] / sqrt(each[0] * each[1]) if each[0] and each[1] else 0.0

    def _weight(self, feature: str) -> float:
        # An item that was renamed counts twice, and is no less telling for it.
        return (1 + log(max(1, self._counts[feature] - 1))) ** -2


def _letters(name: str) -> str:
    """Return a name in small letters without what separates its words."""
    return _SEPARATOR.sub("", name).casefold() or name


def _shortened(name: str) -> set[tuple[str, ...]]:
    """Return the words of a name, and these without the first one and without the last one."""
    words = tuple(_SEPARATOR.sub(" ", _HUMP.sub(" ", name)).casefold().split())
    return {words, *((words[1:], words[:-1]) if len(words) > 1 else ())}


def _read(text: str) -> Any:
    try:
        return decode(text.encode(), float("inf"))
    except ValueError:
        return text


def _body(kind: PinKind, value: Any) -> str:
    if isinstance(value, Mapping):
        value = {name: item for name, item in value.items() if name not in _NAMES}
    return text_digest(canonical_text(kind, value))


def _features(item: PinnedItem, value: Any) -> Features:
    """Return words, pairs of words, and properties with their types, without the words of the name."""
    if len(item.definition) > _LARGEST:
        return frozenset()
    found: dict[str, None] = {}
    if isinstance(value, Mapping):
        for name in ("inputSchema", "outputSchema"):
            for path, node in positions(value.get(name)):
                if path:
                    found[f"{name}.{'.'.join(path)}"] = None
                    found[f"{name}.{'.'.join(path)}:{node.get('type')!s:.40}"] = None
        value = {name: inner for name, inner in value.items() if name not in _NAMES}
    for text in _in_order(value):
        words = _WORD.findall(text[:_LONGEST_TEXT].casefold())
        found.update((word, None) for word in words)
        found.update((f"{one} {next_one}", None) for one, next_one in pairwise(words))
        if len(found) >= _FEATURES:
            break
    return frozenset(list(found)[:_FEATURES])


def _in_order(value: Any) -> Iterable[str]:
    """Return the description before everything else: it says most, and others may be cut."""
    if isinstance(value, Mapping) and isinstance(value.get("description"), str):
        yield value["description"]
    yield from texts(value)
