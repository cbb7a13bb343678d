"""A bounded cache of values that are valid while their source objects stay the same."""

from collections.abc import Callable, Hashable
from operator import is_
from typing import Generic, TypeVar

from aggregator.domain.bounds.lru import LruCache

V = TypeVar("V")


class SnapshotCache(Generic[V]):
    """The `most` values that were used last."""

    def __init__(self, most: int) -> None:
        self._kept: LruCache[Hashable, tuple[tuple[object, ...], V]] = LruCache(most)

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, key: Hashable, made_of: tuple[object, ...]) -> bool:
        """Tell whether the value of `key` is cached and has these very source objects."""
        known = self._kept.peek(key)
        return known is not None and _same(known[0], made_of)

    def get(self, key: Hashable, made_of: tuple[object, ...], make: Callable[[], V]) -> V:
        """Return the value of `key`; make it again if one of its source objects was replaced."""
        known = self._kept.get(key)
        if known is None or not _same(known[0], made_of):
            known = made_of, make()
            self._kept.put(key, known)
        return known[1]

    def put(self, key: Hashable, made_of: tuple[object, ...], value: V) -> None:
        """Store a value with its source objects."""
        self._kept.put(key, (made_of, value))


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return all(map(is_, one, other))
