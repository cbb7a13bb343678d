"""The wait of calls for an answer in the queue of approvals, which any process may give.

Law: one task looks into the database while anything waits, and none otherwise. How many calls wait is bounded: further
ones are answered at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.storage.approvals import Approvals
    from aggregator.storage.engine.engine import Version

log = logging.getLogger(__name__)

# Seconds between two looks, and after one that failed.
LOOK_EVERY: Final = 0.25
_AFTER_A_FAULT: Final = 2.0
# Calls that may wait at one time, of one agent and in all.
WAITING_OF_ONE: Final = 32
WAITING_AT_MOST: Final = 256
# Called again and again while a call waits, with the seconds that have passed.
OnElapsed = Callable[[float], None]


class WaitingCall:
    """One call that waits: the `id` of its question, until when, and the event of an answer."""

    __slots__ = ("agent", "answered", "id", "until")

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.id: str | None = None
        self.until = 0.0
        self.answered = asyncio.Event()


class AnswerWatch:
    """The calls that wait for an answer. Leaving ends the task that looks for it."""

    def __init__(self) -> None:
        self._waiting: dict[WaitingCall, None] = {}
        self._tasks = Tasks("the answers to approvals")
        self._looking = False
        self._wake = asyncio.Event()
        self._look_anyway = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<AnswerWatch {len(self._waiting)} waiting{', closed' if self._closed else ''}>"

    def __len__(self) -> int:
        return len(self._waiting)

    def look_now(self) -> None:
        """Look at once: another process has given an answer."""
        self._wake.set()

    def close(self) -> None:
        """End every wait: each call is answered with the current state. May be called twice."""
        self._closed = True
        for waiting in self._waiting:
            waiting.answered.set()

    async def end(self) -> None:
        """End every wait, and the task."""
        self.close()
        await self._tasks.cancel()

    def waits(self) -> dict[str, float]:
        """Return the questions that a call of this process waits for, by id, and for how many more seconds."""
        now = asyncio.get_running_loop().time()
        found: dict[str, float] = {}
        for waiting in self._waiting:
            if waiting.id is not None:
                found[waiting.id] = max(found.get(waiting.id, 0.0), waiting.until - now)
        return found

    def enter(self, agent: str) -> WaitingCall | None:
        """Return a place for one call to wait in, to be returned with `leave`; None if it may not wait."""
        if self._closed or len(self._waiting) >= WAITING_AT_MOST:
            return None
        if sum(waiting.agent == agent for waiting in self._waiting) >= WAITING_OF_ONE:
            return None
        waiting = WaitingCall(agent)
        self._waiting[waiting] = None
        return waiting

    def leave(self, waiting: WaitingCall) -> None:
        """Give a place back."""
        self._waiting.pop(waiting, None)

    async def wait(
        self,
        waiting: WaitingCall,
        id: str,
        approvals: "Approvals",
        until: float,
        every: float,
        report: OnElapsed | None,
    ) -> bool:
        """Wait until the question with this id is answered, or is gone: True; or until the time, by the clock of the
        event loop, or the end of the process: False. `report` is called at once and `every` so many seconds.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting.id, waiting.until = id, until
        waiting.answered.clear()
        self._look_anyway = True
        if not self._looking and not self._closed:
            self._looking = True
            self._tasks.start(self._look(approvals))
        while not self._closed:
            now = loop.time()
            if now >= until:
                return False
            if report is not None:
                report(now - began)
            try:
                async with asyncio.timeout_at(min(until, now + every)):
                    await waiting.answered.wait()
            except TimeoutError:
                continue
            return not self._closed
        return False

    async def _look(self, approvals: "Approvals") -> None:
        """Look for answers as long as a call waits."""
        known: Version | None = None
        try:
            while self._waiting:
                pause = LOOK_EVERY
                try:
                    version = await approvals.version()
                    if self._look_anyway or version != known:
                        self._look_anyway = False
                        await self._set_answered(approvals)
                        known = version
                except StorageError as error:
                    log.warning("the queue of approvals cannot be looked at: %s", error)
                    pause = _AFTER_A_FAULT
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            self._looking = False

    async def _set_answered(self, approvals: "Approvals") -> None:
        ids = {waiting.id for waiting in self._waiting if waiting.id is not None and not waiting.answered.is_set()}
        if not ids:
            return
        answered = await approvals.answered(ids, now=time.time())
        # The newest first: of several equal calls, the host may have given up an older one.
        for waiting in reversed(list(self._waiting)):
            if waiting.id in answered:
                waiting.answered.set()
