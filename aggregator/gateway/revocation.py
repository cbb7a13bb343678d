"""Running work of authenticated callers, and its end after they lose access.

Law: each piece of work for a caller is added here after authentication and removed when it is over: every request, and
everything that outlives requests (sessions, parked calls).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aggregator.domain.bounds.ticks import until_next
from aggregator.domain.principal import Principal

log = logging.getLogger(__name__)

# Seconds between two reviews; together with `identity.keyring.REFRESH_EVERY` that stays well below a second.
REVIEW_EVERY: Final = 0.25

# Agent, key, and the facts of a token by their identity: they live as long as the work that is indexed with them.
Caller = tuple[str, str | None, int]
# The end of one piece of work.
EndTask = Callable[[], object]
# A function that tells whether a principal still has access.
PrincipalCheck = Callable[[Principal], bool]


class RevocableTask:
    """One piece of work for a principal. `revoked` is set before `end` is called."""

    __slots__ = ("end", "principal", "revoked", "siblings")

    def __init__(self, principal: Principal, end: EndTask, siblings: "dict[RevocableTask, None]") -> None:
        self.principal = principal
        self.siblings = siblings
        self.end = end
        self.revoked = False


class RevocableTasks:
    """The work of all callers, indexed by caller, so that a review costs one check for each caller."""

    def __init__(self) -> None:
        self._by_caller: dict[Caller, dict[RevocableTask, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_caller.values()))

    def add(self, principal: Principal, end: EndTask) -> RevocableTask:
        """Add a piece of work; `end` is called once its principal is no longer let in."""
        token = principal.token
        caller = principal.agent_id, principal.key_id, 0 if token is None else id(token)
        those = self._by_caller.get(caller)
        if those is None:
            those = self._by_caller[caller] = {}
        going = RevocableTask(principal, end, those)
        those[going] = None
        return going

    def remove(self, going: RevocableTask) -> None:
        """Remove a piece of work that is over. May be called twice."""
        going.siblings.pop(going, None)

    def review(self, holds: PrincipalCheck) -> None:
        """End the work of every caller whose principal `holds` refuses."""
        for caller, those in list(self._by_caller.items()):
            first = next(iter(those), None)
            if first is None:
                del self._by_caller[caller]
            elif not holds(first.principal):
                # Newest first: requests before the session they belong to.
                for going in reversed(list(those)):
                    going.revoked = True
                    try:
                        going.end()
                    except Exception:  # the rest still has to end, and later reviews to run
                        log.exception("what goes on for %s could not be ended", going.principal.agent_id)

    async def run(self, holds: PrincipalCheck) -> None:
        """Review all callers every `REVIEW_EVERY` seconds until cancelled."""
        while True:
            await asyncio.sleep(until_next(REVIEW_EVERY))
            self.review(holds)
