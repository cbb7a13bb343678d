"""What is worked out for somebody and kept while that which it was made of stays the same."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

V = TypeVar("V")


class SnapshotCache(Generic[V]):
    """The `most` that were last used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[tuple[object, ...], V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, key: Hashable, made_of: tuple[object, ...]) -> bool:
        """Return whether the value of `key` is kept, made of these very objects."""
        known = self._kept.get(key)
        return known is not None and _same(known[0], made_of)

    def get(self, key: Hashable, made_of: tuple[object, ...], make: Callable[[], V]) -> V:
        """The value of `key`, made anew where one of the objects it was made of is another by now."""
        known = self._kept.get(key)
        if known is None or not _same(known[0], made_of):
            known = self._kept[key] = made_of, make()
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with suppress(KeyError):  # of many other keys in other threads meanwhile
            self._kept.move_to_end(key)
        return known[1]

    def put(self, key: Hashable, made_of: tuple[object, ...], value: V) -> None:
        """Keep a value that was made of these objects."""
        self._kept.pop(key, None)
        self.get(key, made_of, lambda: value)


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return all(mine is others for mine, others in zip(one, other, strict=True))
