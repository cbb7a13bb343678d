"""A bounded map that forgets the entry used longest ago."""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A map of at most `most` entries. No value is None; other threads may use it meanwhile."""

    __slots__ = ("_entries", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """Return a value, which counts as used now, or None."""
        value = self._entries.get(key)
        if value is not None:
            # As `touch`, without the call.
            try:  # noqa: SIM105 - `suppress` takes three times as long
                self._entries.move_to_end(key)
            except KeyError:  # forgotten meanwhile, in another thread
                pass
        return value

    def peek(self, key: K) -> V | None:
        """Return a value as `get` does, without counting it as used."""
        return self._entries.get(key)

    def touch(self, key: K) -> None:
        """Count an entry as used now."""
        try:  # noqa: SIM105 - `suppress` takes three times as long
            self._entries.move_to_end(key)
        except KeyError:  # forgotten meanwhile, in another thread
            pass

    def put(self, key: K, value: V) -> V | None:
        """Add or replace an entry, which counts as used now; return the value that had to go for it, if any."""
        self._entries[key] = value
        self.touch(key)
        return self.pop_oldest() if len(self._entries) > self.most else None

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value, or None."""
        return self._entries.pop(key, None)

    def oldest(self) -> V | None:
        """Return the value of the least recently used entry, or None."""
        return next(iter(self._entries.values()), None)

    def pop_oldest(self) -> V | None:
        """Remove the least recently used entry and return its value, or None."""
        try:
            return self._entries.popitem(last=False)[1]
        except KeyError:
            return None

    def items(self) -> ItemsView[K, V]:
        """Return a view of all entries, the one used longest ago first."""
        return self._entries.items()

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
