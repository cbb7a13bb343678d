"""The count of calls against the limits of the policy. A call is charged when it is forwarded, and only then.

Each replica counts its own calls and gets the counts of the others from `SharedUsage`.
"""

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from math import ceil
from types import TracebackType
from typing import Final, NamedTuple

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.call import CONVERSATION_KEY
from aggregator.domain.errors import Blame, OverLimit
from aggregator.policy.limits import Limit, Limits
from aggregator.replicas.group.shared_usage import CONVERSATION_OVER, SharedUsage
from aggregator.replicas.group.usage import Usage, UsageLevel, UsageWindow

# The most conversations to remember; the least recently used is forgotten first.
_CONVERSATIONS: Final = 100_000
_NAME_LIMIT: Final = 64
# How often to ask the other replicas whether calls in flight have ended, before a call is refused for them.
_LOOKS: Final = 3
Counter = tuple[str, ...]


class NotKnownYet(OverLimit):
    """A limit may be reached: ask the other replicas for `usage`. `full`: it is reached, as far as this one knows."""

    usage: Usage
    full: bool


class RateLimits:
    """The charged calls, by counter. Counters keep their name over a reload of the policies."""

    def __init__(self, shared: SharedUsage) -> None:
        self.shared = shared
        # All but conversations: the rules and agents bound their number.
        self._usages: dict[Counter, Usage] = {}
        self._conversations: LruCache[tuple[Counter, str], Usage] = LruCache(_CONVERSATIONS)

    async def charge(self, tool: str, limits: Limits, conversation: str | None, *, again: bool = False) -> "Charge":
        """Charge one call as `charged` does, after asking the other replicas if necessary.

        Raises:
            OverLimit: one limit is reached; then none is charged.
        """
        looks = 0
        while True:
            try:
                return self.charged(tool, limits, conversation, again=again)
            except NotKnownYet as unknown:
                looks += unknown.full
                if looks > _LOOKS:
                    raise
                await self.shared.ask(unknown.usage)

    async def check(self, tool: str, limits: Limits, conversation: str | None) -> None:
        """Check whether a call could be charged now, as `look` does, after asking the other replicas.

        Raises:
            OverLimit: one limit is reached.
        """
        looks = 0
        while True:
            try:
                self.look(tool, limits, conversation)
            except NotKnownYet as unknown:
                looks += unknown.full
                if looks > _LOOKS:
                    raise
                await self.shared.ask(unknown.usage)
            else:
                return

    def charged(self, tool: str, limits: Limits, conversation: str | None, *, again: bool = False) -> "Charge":
        """Charge one call for as long as it runs: from now until its release.

        `again`: it continues after a question, and counts already.

        Raises:
            NotKnownYet: the other replicas must answer first; none is charged.
            OverLimit: one limit is reached; then none is charged.
        """
        if not limits.counted:
            return FREE
        if again:
            limits = limits._replace(counted=tuple(limit for limit in limits.counted if limit.kind == "concurrent"))
        now, conversation = asyncio.get_running_loop().time(), _short(conversation)
        for limit in limits.counted:
            self._look(tool, limit, conversation, now)
        usages = [self._usage(limit, conversation) for limit in limits.counted]
        return self.charged_at_once(self._counted(limits, [one for one in usages if one is not None]), now)

    def room_at_once(self, limits: Limits, conversation: str | None, now: float) -> "Counted | None":
        """Return what a call could surely be charged to now; charge nothing.

        None if there is no room, or if the other replicas must answer first.
        """
        conversation, shared, usages = _short(conversation), self.shared, list[Usage]()
        for limit in limits.counted:
            if limit.kind != "per_conversation":
                usage = self._usages.get(limit.counter)
            elif conversation is not None:
                usage = self._conversations.get((limit.counter, conversation))
            else:
                return None
            if usage is None:
                if limit.most <= 0 or (usage := self._usage(limit, conversation)) is None:
                    return None
            elif not (shared.has_room(usage, limit.most, now) if shared.on else usage.own(now) < limit.most):
                return None
            usages.append(usage)
        return self._counted(limits, usages)

    def has_room(self, counted: "Counted", now: float) -> bool:
        """Return True if a call could surely be charged now to what `room_at_once` found for an earlier one."""
        # Every repeated call with limits passes here.
        shared = self.shared
        for usage, most in counted.usages:
            if not (shared.has_room(usage, most, now) if shared.on else usage.own(now) < most):
                return False
        return True

    def charged_at_once(self, counted: "Counted", now: float) -> "Charge":
        """Charge one call to usages that have just been found to have room."""
        shared = self.shared
        for usage, most in counted.usages:
            usage.add(now, most)
            if shared.on:
                shared.charged(usage, most, now)
        return counted.charge

    def _counted(self, limits: Limits, usages: Sequence[Usage]) -> "Counted":
        """Return what calls with these limits are charged to."""
        most, running, lasts = list[tuple[Usage, int]](), list[UsageLevel](), True
        for limit, usage in zip(limits.counted, usages, strict=True):
            most.append((usage, limit.most))
            if limit.kind == "per_conversation":
                lasts = False
            elif limit.kind == "concurrent" and isinstance(usage, UsageLevel):
                running.append(usage)
        return Counted(most, Charge(running, self.shared) if running else FREE, lasts)

    def look(self, tool: str, limits: Limits, conversation: str | None) -> None:
        """Check whether a call could be charged now; charge nothing.

        Raises:
            NotKnownYet: the other replicas must answer first.
            OverLimit: one limit is reached.
        """
        now, conversation = asyncio.get_running_loop().time(), _short(conversation)
        for limit in limits.counted:
            self._look(tool, limit, conversation, now)

    def left(self, limit: Limit, conversation: str | None = None) -> int | None:
        """Return how many calls a limit has left now, for all replicas, as far as this one knows.

        None if that depends on a conversation without a name.
        """
        conversation = _short(conversation)
        if limit.kind == "per_conversation" and conversation is None:
            return None
        usage = self._known(limit, conversation)
        used = usage.used(asyncio.get_running_loop().time()) if usage is not None else 0
        return max(0, limit.most - used)

    async def learn(self, limits: Limits) -> None:
        """Ask the other replicas for their usage of limits, so that `left` knows it."""
        if self.shared.on and not self.shared.away:
            asked = [self._usage(limit, None) for limit in limits.counted]
            await asyncio.gather(*(self.shared.ask(usage) for usage in asked if usage is not None))

    def _known(self, limit: Limit, conversation: str | None) -> Usage | None:
        """Return the usage of a limit; None if nothing was used, or no conversation is named."""
        if limit.kind != "per_conversation":
            return self._usages.get(limit.counter)
        return self._conversations.peek((limit.counter, conversation)) if conversation is not None else None

    def _usage(self, limit: Limit, conversation: str | None) -> Usage | None:
        """Return the usage of a limit, kept from now on; None if no conversation is named."""
        counter = limit.counter
        if limit.kind != "per_conversation":
            usage = self._usages.get(counter)
            if usage is None:
                new = self.shared.window if limit.kind == "per_minute" else self.shared.level
                usage = self._usages[counter] = new(*counter)
        elif conversation is not None:
            usage = self._conversations.get((counter, conversation))
            if usage is None:
                usage = self.shared.level(*counter, conversation, lease=CONVERSATION_OVER)
                self._conversations.put((counter, conversation), usage)
        else:
            usage = None
        return usage

    def _look(self, tool: str, limit: Limit, conversation: str | None, now: float) -> None:
        if limit.kind == "per_conversation" and conversation is None:
            said = (
                f"{tool} was not called: it is limited per conversation, and this host names none "
                f"(`_meta` key {CONVERSATION_KEY!r})."
            )
            raise OverLimit(tool, said, blame=_blame(limit), limit=limit.kind, most=limit.most)
        usage = self._known(limit, conversation)
        if usage is None:
            if limit.most > 0:
                return
            usage = UsageWindow()
        if not self.shared.on:
            if usage.own(now) < limit.most:
                return
            room: bool | None = False
        else:
            room = self.shared.has_room(usage, limit.most, now)
        if not room:
            raise self._refusal(tool, limit, usage, now, known=room is not None)

    def _refusal(self, tool: str, limit: Limit, usage: Usage, now: float, *, known: bool) -> OverLimit:
        """Return the refusal of a call. `known`: it is certain without asking the others."""
        details = {"blame": _blame(limit), "limit": limit.kind, "most": limit.most}
        full, most, here = usage.used(now) >= limit.most, limit.most, ""
        if known and not full:
            most = self.shared.share_of(limit.most)
            here = f" by this process, of {limit.most} in all, while its database is away"
        if limit.kind == "per_minute":
            wait = max(1, ceil(usage.free_at(now, most) - now))
            said = f"{tool} was not called: at most {most} such calls a minute are allowed{here}. Wait {wait} s."
            details["retry_after"] = wait
        elif limit.kind == "concurrent":
            said = f"{tool} was not called: {most} such calls are running already{here}. Try again when one has ended."
            details["retry_after"] = 1
        else:
            said = f"{tool} was not called: at most {most} such calls are allowed in one conversation{here}."
        if known:
            return OverLimit(tool, said, **details)
        unknown = NotKnownYet(tool, said, **details)
        unknown.usage, unknown.full = usage, full
        return unknown


class Charge:
    """Taken places among the concurrent calls, until they are given back: at the end of a `with`, or by a call."""

    __slots__ = ("_levels", "_shared")

    def __init__(self, levels: Sequence[UsageLevel], shared: SharedUsage | None = None) -> None:
        self._levels = levels
        self._shared = shared

    def give_back(self) -> None:
        """Give the places back."""
        shared = self._shared
        for level in self._levels:
            level.remove()
            if shared is not None and shared.on:
                shared.given_back(level)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class Counted(NamedTuple):
    """The limits that a call is charged to: each usage with its limit, and the charge that one call holds.

    lasts: later calls with the same limits are charged to the same.
    """

    usages: Sequence[tuple[Usage, int]]
    charge: Charge
    lasts: bool


# The charge of a call without limits.
FREE: Final = Charge(())


def _blame(limit: Limit) -> Blame:
    return Blame(limit.rule, limit.source)


def _short(conversation: str | None) -> str | None:
    """Return a short name, however long the host's own is."""
    if conversation is None or len(conversation) <= _NAME_LIMIT:
        return conversation
    return blake2b(conversation.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
