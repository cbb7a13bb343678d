"""Counts of the calls that each conversation has made through `/v1`.

Calls that were sent to an upstream count, as with the limits of the policies: one that was refused, or waits for an
approval, may be corrected and made again.
"""

import asyncio
from typing import Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.replicas.group.shared_usage import CONVERSATION_OVER, SharedUsage
from aggregator.replicas.group.usage import UsageLevel

KEPT: Final = 100_000
# How often to ask the other replicas for a returned call before refusing one.
_LOOKS: Final = 3


class CallCount:
    """The number of calls of one conversation, and the time of the last, in seconds of a monotonic clock.

    With several replicas it covers all of them, as far as this one knows (docs/limits.md).
    """

    __slots__ = ("_level", "_shared", "last")

    def __init__(self, level: UsageLevel, shared: SharedUsage | None) -> None:
        """Make it; without `shared` it concerns this process alone."""
        self._level = level
        self._shared = shared
        self.last = 0.0

    async def take(self, most: int | None) -> bool:
        """Count one more call and return True, unless `most` were made."""
        loop, looks = asyncio.get_running_loop(), 0
        while not (room := self.has_room(most, loop.time())):
            looks += most is not None and self._level.used(loop.time()) >= most
            if room is False or self._shared is None or looks > _LOOKS:
                return False
            await self._shared.ask(self._level)
        self.add(most, loop.time())
        return True

    def has_room(self, most: int | None, now: float) -> bool | None:
        """Return whether fewer than `most` calls were made; None: ask the other replicas first. `now` is monotonic."""
        if most is None:
            return True
        if self._shared is None or not self._shared.on:
            return self._level.calls < most
        return self._shared.has_room(self._level, most, now)

    def add(self, most: int | None, now: float) -> None:
        """Count one more call, for which there is room."""
        self._level.add(0.0, 0)
        if most is not None and self._shared is not None and self._shared.on:
            self._shared.charged(self._level, most, now)

    def give_back(self) -> None:
        """Take back one call that was counted but not sent."""
        self._level.remove()
        if self._shared is not None:
            self._shared.given_back(self._level)


class Conversations:
    """A bounded map of counts, by agent and conversation; the least recently used count is dropped first."""

    def __init__(self, shared: SharedUsage) -> None:
        self._shared = shared
        self._counts: LruCache[tuple[str, str], CallCount] = LruCache(KEPT)

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, agent_id: str, conversation: str | None, now: float) -> CallCount:
        """Return the count of a conversation; None is a conversation of one request. `now` is monotonic, in seconds."""
        if conversation is None:
            return CallCount(UsageLevel(), None)
        key = (agent_id, conversation)
        known = self._counts.get(key)
        if known is None or known.last <= now - CONVERSATION_OVER:
            level = self._shared.level(agent_id, "v1", conversation, lease=CONVERSATION_OVER)
            known = CallCount(level, self._shared)
            self._counts.put(key, known)
        known.last = now
        while (oldest := self._counts.oldest()) is not None and oldest.last <= now - CONVERSATION_OVER:
            self._counts.pop_oldest()
        return known
