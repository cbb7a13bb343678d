"""A bounded cache of values that are valid while the objects they were made of are the same."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

V = TypeVar("V")


class SnapshotCache(Generic[V]):
    """The `most` values that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[tuple[object, ...], V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, key: Hashable, made_of: tuple[object, ...]) -> bool:
        """Return whether the value of `key` is cached and was made of these very objects."""
        known = self._kept.get(key)
        return known is not None and _same(known[0], made_of)

    def get(self, key: Hashable, made_of: tuple[object, ...], make: Callable[[], V]) -> V:
        """Return the value of `key`; make it anew if one of the objects it was made of is another one now."""
        known = self._kept.get(key)
        if known is None or not _same(known[0], made_of):
            known = self._kept[key] = made_of, make()
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with suppress(KeyError):  # evicted meanwhile by other threads
            self._kept.move_to_end(key)
        return known[1]

    def put(self, key: Hashable, made_of: tuple[object, ...], value: V) -> None:
        """Store a value that was made of these objects."""
        self._kept.pop(key, None)
        self.get(key, made_of, lambda: value)


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return all(mine is others for mine, others in zip(one, other, strict=True))
