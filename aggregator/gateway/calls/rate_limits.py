"""Counting calls against the limits of the policy. Charged when a call is forwarded, and only then."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from math import ceil
from types import TracebackType
from typing import Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.call import CONVERSATION_KEY
from aggregator.domain.errors import Blame, OverLimit
from aggregator.policy.limits import Limit, Limits

MINUTE: Final = 60.0
# Conversations are remembered up to here; the one used longest ago is forgotten first.
_CONVERSATIONS: Final = 100_000
_NAME_LIMIT: Final = 64
# The charge of a call without limits: it need not be entered.
FREE: Final = nullcontext()

Counter = tuple[str, ...]


class RateLimits:
    """The calls that were charged, by counter. Counters keep their name over a reload of the policies."""

    def __init__(self) -> None:
        self._minutes: dict[Counter, deque[float]] = {}
        self._running: dict[Counter, int] = {}
        self._conversations: LruCache[tuple[Counter, str], int] = LruCache(_CONVERSATIONS)

    def charged(
        self, tool: str, limits: Limits, conversation: str | None, *, again: bool = False
    ) -> AbstractContextManager[None]:
        """Charge one call for as long as it runs, from now to the end of `with` what is returned.

        `again`: it goes on after a question, and was counted before.

        Raises:
            OverLimit: one limit is reached; then none is charged.
        """
        if not limits.counted:
            return FREE
        if again:
            limits = limits._replace(counted=tuple(limit for limit in limits.counted if limit.kind == "concurrent"))
        now, conversation = asyncio.get_running_loop().time(), _short(conversation)
        for limit in limits.counted:
            self._look(tool, limit, conversation, now)
        running = []
        for limit in limits.counted:
            if limit.kind == "per_minute":
                self._minutes.setdefault(limit.counter, deque()).append(now)
            elif limit.kind == "concurrent":
                self._running[limit.counter] = self._running.get(limit.counter, 0) + 1
                running.append(limit.counter)
            elif conversation is not None:
                self._count(limit.counter, conversation)
        return _Charge(self._running, running) if running else FREE

    def look(self, tool: str, limits: Limits, conversation: str | None) -> None:
        """Check whether a call could be charged now; nothing is.

        Raises:
            OverLimit: one limit is reached.
        """
        now, conversation = asyncio.get_running_loop().time(), _short(conversation)
        for limit in limits.counted:
            self._look(tool, limit, conversation, now)

    def left(self, limit: Limit, conversation: str | None = None) -> int | None:
        """Return how many calls a limit has left now; None where that depends on a conversation that is not named."""
        if limit.kind == "per_minute":
            since = asyncio.get_running_loop().time() - MINUTE
            used = sum(1 for at in self._minutes.get(limit.counter, ()) if at > since)
        elif limit.kind == "concurrent":
            used = self._running.get(limit.counter, 0)
        elif conversation is None:
            return None
        else:
            used = self._conversations.peek((limit.counter, _short(conversation) or "")) or 0
        return max(0, limit.most - used)

    def _look(self, tool: str, limit: Limit, conversation: str | None, now: float) -> None:
        if limit.kind == "per_minute":
            charged = self._minutes.get(limit.counter, deque())
            while charged and charged[0] <= now - MINUTE:
                charged.popleft()
            if len(charged) >= limit.most:
                # As many have to grow old as are too many: the limit may have been lowered meanwhile.
                wait = ceil(charged[len(charged) - limit.most] + MINUTE - now) if limit.most else int(MINUTE)
                said = f"{tool} was not called: at most {limit.most} such calls a minute are allowed. Wait {wait} s."
                raise OverLimit(
                    tool,
                    said,
                    blame=_blame(limit),
                    limit=limit.kind,
                    most=limit.most,
                    retry_after=wait,
                )
        elif limit.kind == "concurrent":
            if self._running.get(limit.counter, 0) >= limit.most:
                said = (
                    f"{tool} was not called: {limit.most} such calls are running already. Try again when one has ended."
                )
                raise OverLimit(tool, said, blame=_blame(limit), limit=limit.kind, most=limit.most, retry_after=1)
        elif conversation is None:
            said = (
                f"{tool} was not called: it is limited per conversation, and this host names none "
                f"(`_meta` key {CONVERSATION_KEY!r})."
            )
            raise OverLimit(tool, said, blame=_blame(limit), limit=limit.kind, most=limit.most)
        elif (self._conversations.peek((limit.counter, conversation)) or 0) >= limit.most:
            said = f"{tool} was not called: at most {limit.most} such calls are allowed in one conversation."
            raise OverLimit(tool, said, blame=_blame(limit), limit=limit.kind, most=limit.most)

    def _count(self, counter: Counter, conversation: str) -> None:
        key = (counter, conversation)
        self._conversations.put(key, (self._conversations.peek(key) or 0) + 1)


class _Charge:
    """Places among the concurrent calls, taken already; given back at the end of `with`."""

    __slots__ = ("_counters", "_running")

    def __init__(self, running: dict[Counter, int], counters: Sequence[Counter]) -> None:
        self._running = running
        self._counters = counters

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for counter in self._counters:
            left = self._running[counter] - 1
            if left:
                self._running[counter] = left
            else:
                del self._running[counter]


def _blame(limit: Limit) -> Blame:
    return Blame(limit.rule, limit.source)


def _short(conversation: str | None) -> str | None:
    """Return a name that takes little room, however long the host's own is."""
    if conversation is None or len(conversation) <= _NAME_LIMIT:
        return conversation
    return blake2b(conversation.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
