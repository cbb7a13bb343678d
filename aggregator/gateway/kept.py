"""What is worked out for somebody and kept while that which it was made of stays the same."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

V = TypeVar("V")


class Kept(Generic[V]):
    """The `most` that were last used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[tuple[object, ...], V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, made_of: tuple[object, ...], make: Callable[[], V]) -> V:
        """The value of `key`, made anew where one of the objects it was made of is another by now."""
        known = self._kept.get(key)
        if known is None or any(one is not other for one, other in zip(known[0], made_of, strict=True)):
            known = self._kept[key] = made_of, make()
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with suppress(KeyError):  # of many other keys in other threads meanwhile
            self._kept.move_to_end(key)
        return known[1]
