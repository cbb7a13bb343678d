"""What goes on for callers that were let in, and how it ends once they would not be let in any more.

Law: whatever goes on for a caller after it was admitted is entered here, and left when it is over: each request, and
what outlives requests (sessions, calls that wait for their host).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aggregator.domain.principal import Principal

log = logging.getLogger(__name__)

# A key is looked at so often; together with `identity.keyring.FOLLOW_EVERY` that stays well below a second.
REVIEW_EVERY: Final = 0.25
# Doors that let in by a key or by where a request comes from. Whoever starts a process is let in until it ends.
REVIEWED_DOORS: Final = frozenset({"http", "sse", "v1"})

Caller = tuple[str, str | None]


class RevocableTask:
    """One thing that goes on. `over` is set before `end` is called."""

    __slots__ = ("end", "over", "principal", "those")

    def __init__(self, principal: Principal, end: Callable[[], object], those: "dict[RevocableTask, None]") -> None:
        self.principal = principal
        self.those = those
        self.end = end
        self.over = False


class AdmittedTasks:
    """All of them, by caller, so that a review costs one look-up for each caller."""

    def __init__(self) -> None:
        self._by_caller: dict[Caller, dict[RevocableTask, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_caller.values()))

    def enter(self, principal: Principal, end: Callable[[], object]) -> RevocableTask:
        """Something begins to go on, which `end` ends."""
        caller = principal.agent_id, principal.key_id
        those = self._by_caller.get(caller)
        if those is None:
            those = self._by_caller[caller] = {}
        going = RevocableTask(principal, end, those)
        those[going] = None
        return going

    def leave(self, going: RevocableTask) -> None:
        """It is over; that may be said twice."""
        going.those.pop(going, None)

    def review(self, holds: Callable[[Principal], bool]) -> None:
        """End what goes on for callers for whom `holds` is not so."""
        for caller, those in list(self._by_caller.items()):
            first = next(iter(those), None)
            if first is None:
                del self._by_caller[caller]
            elif not holds(first.principal):
                # What began last comes first: requests before the session that they belong to.
                for going in reversed(list(those)):
                    going.over = True
                    try:
                        going.end()
                    except Exception:  # the others have to end all the same, and reviews to go on
                        log.exception("what goes on for %s could not be ended", going.principal.agent_id)

    async def watch(self, holds: Callable[[Principal], bool]) -> None:
        """Review again and again, for ever."""
        while True:
            await asyncio.sleep(REVIEW_EVERY)
            self.review(holds)
