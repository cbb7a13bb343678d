"""Counts of the calls that each conversation has made through `/v1`.

Calls that were sent to an upstream count, as with the limits of the policies: one that was refused, or waits for an
approval, may be corrected and made again.
"""

from typing import Final

from aggregator.domain.bounds.lru import LruCache

KEPT: Final = 100_000
# Seconds after its last call after which a conversation counts as over.
OVER_AFTER: Final = 24 * 3600.0


class CallCount:
    """The number of calls of one conversation, and the time of the last, in seconds of a monotonic clock."""

    __slots__ = ("last", "made")

    def __init__(self) -> None:
        self.made = 0
        self.last = 0.0

    def take(self, most: int | None) -> bool:
        """Count one more call and return True, unless `most` were made."""
        if most is not None and self.made >= most:
            return False
        self.made += 1
        return True

    def give_back(self) -> None:
        """Take back one call that was counted but not sent."""
        self.made -= 1


class Conversations:
    """A bounded map of counts, by agent and conversation; the least recently used count is dropped first."""

    def __init__(self) -> None:
        self._counts: LruCache[tuple[str, str], CallCount] = LruCache(KEPT)

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, agent_id: str, conversation: str | None, now: float) -> CallCount:
        """Return the count of a conversation; None is a conversation of one request. `now` is monotonic, in seconds."""
        if conversation is None:
            return CallCount()
        key = (agent_id, conversation)
        known = self._counts.get(key)
        if known is None or known.last <= now - OVER_AFTER:
            known = CallCount()
            self._counts.put(key, known)
        known.last = now
        while (oldest := self._counts.oldest()) is not None and oldest.last <= now - OVER_AFTER:
            self._counts.pop_oldest()
        return known
