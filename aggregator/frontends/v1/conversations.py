"""How many calls each conversation has made here.

What counts is what was sent to an upstream, as with the limits of the policies: a call that was refused, or waits for
a person, may be put right and made again. A loop of refused calls costs nobody but the caller.
"""

from typing import Final

from aggregator.domain.lru import LruCache

KEPT: Final = 100_000
# Seconds after its last call that a conversation is taken for over.
OVER_AFTER: Final = 24 * 3600.0


class CallCount:
    """The calls of one conversation."""

    __slots__ = ("last", "made")

    def __init__(self) -> None:
        self.made = 0
        self.last = 0.0

    def take(self, most: int | None) -> bool:
        """Count one more call, unless there were `most`."""
        if most is not None and self.made >= most:
            return False
        self.made += 1
        return True

    def give_back(self) -> None:
        """A call that was counted was not sent."""
        self.made -= 1


class Conversations:
    """By agent and name; the one not heard of for longest is forgotten first."""

    def __init__(self) -> None:
        self._counts: LruCache[tuple[str, str], CallCount] = LruCache(KEPT)

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, agent_id: str, conversation: str | None, now: float) -> CallCount:
        """The count of a conversation; one without a name is this request alone. `now` is monotonic, in seconds."""
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
