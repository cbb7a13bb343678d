"""One receiver: a bounded queue of notices, and the task that hands them over, in order, with retries.

Law: `put` returns at once, also while the receiver hangs. What does not fit, or is too old, is dropped and counted.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

from aggregator.notify.config import ReceiverConfig
from aggregator.notify.send.delivery import Delivery, DeliveryAnswer
from aggregator.notify.send.notice import Notice

log = logging.getLogger(__name__)

# Notices that may wait for one receiver.
QUEUE: Final = 1_000
# Attempts to hand over one notice.
ATTEMPTS: Final = 6
# Seconds before the second attempt; each further wait is twice as long, up to the longest. A receiver may name a
# longer one.
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
LONGEST_NAMED_WAIT: Final = 600.0
# Seconds after which a notice is too old to be of use.
TOO_OLD: Final = 3600.0

# A wait for some seconds.
PauseFor = Callable[[float], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class NoticeCounts:
    """Notices of one receiver since the start: handed over, given up, dropped for want of room or time; and waiting."""

    sent: int
    failed: int
    dropped: int
    waiting: int


class Receiver:
    """A webhook or a program with its queue."""

    def __init__(
        self,
        config: ReceiverConfig,
        delivery: Delivery,
        waiting: Iterable[Notice] = (),
        pause: PauseFor = asyncio.sleep,
    ) -> None:
        self.config = config
        self._delivery = delivery
        self._pause = pause
        self._waiting: deque[Notice] = deque(waiting)
        self._current: Notice | None = None
        self._filled = asyncio.Event()
        if self._waiting:
            self._filled.set()
        # Set while nothing is to be waited for at the end: all is handed over, or the receiver cannot be reached.
        self._settled = asyncio.Event()
        self._sent = self._failed = self._dropped = 0
        self._failures = 0
        self._problem: str | None = None
        self._retry_after: float | None = None
        self._last_sent: float | None = None
        self._note_settled()

    def __repr__(self) -> str:
        problem = f", {self._problem}" if self._problem else ""
        return f"<Receiver {self.config.name}, {len(self._waiting)} waiting{problem}>"

    def put(self, notice: Notice) -> None:
        """Queue one notice; the oldest is dropped if the queue is full."""
        if len(self._waiting) >= QUEUE:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(notice)
        self._filled.set()
        self._note_settled()

    def counts(self) -> NoticeCounts:
        """Return the counts for the metrics."""
        return NoticeCounts(self._sent, self._failed, self._dropped, len(self._waiting) + (self._current is not None))

    def report(self) -> dict[str, Any]:
        """Return the state for `/readyz`: `state` is `unused`, `ok` or `failing`."""
        counts = self.counts()
        state = "failing" if self._problem is not None else "ok" if self._sent else "unused"
        return {
            "to": self.config.shown,
            "state": state,
            "problem": self._problem,
            "sent": counts.sent,
            "failed": counts.failed,
            "dropped": counts.dropped,
            "waiting": counts.waiting,
            "last_sent": round(self._last_sent, 3) if self._last_sent is not None else None,
        }

    async def run(self) -> None:
        """Deliver queued notices until cancelled."""
        try:
            while True:
                await self._filled.wait()
                while self._waiting:
                    self._current = self._waiting.popleft()
                    await self._hand_over(self._current)
                    self._current = None
                    self._note_settled()
                self._filled.clear()
        finally:
            await self._delivery.close()

    async def wait_settled(self) -> None:
        """Return once all is handed over, or the receiver cannot be reached."""
        await self._settled.wait()

    def take_waiting(self) -> list[Notice]:
        """Return what still waits, for the receiver that takes the place of this one, which is not run any more."""
        waiting = [*([self._current] if self._current is not None else []), *self._waiting]
        self._waiting.clear()
        return waiting

    async def _hand_over(self, notice: Notice) -> None:
        for attempt in range(ATTEMPTS):
            if self._failures:
                # After a failure also the next notice waits: a receiver in trouble is left alone for a while.
                await self._pause(self._next_wait())
            if time.time() - notice.at > TOO_OLD:
                self._dropped += 1
                return
            answer = await self._attempt(notice)
            if answer.accepted:
                self._succeeded()
                return
            self._failed_with(answer)
            if not answer.again or attempt == ATTEMPTS - 1:
                self._failed += 1
                return

    async def _attempt(self, notice: Notice) -> DeliveryAnswer:
        try:
            return await self._delivery.attempt(notice)
        except Exception:
            log.exception("notify: %s could not be told: an unexpected error", self.config.name)
            return DeliveryAnswer(False, "an error of ours; the log says more")

    def _next_wait(self) -> float:
        """Return the seconds before the next attempt, of which a random half keeps many senders apart."""
        longest = min(LONGEST_WAIT, FIRST_WAIT * (1 << min(self._failures - 1, 10)))
        own = longest * (0.5 + random.random() / 2)  # noqa: S311
        return max(own, min(self._retry_after or 0.0, LONGEST_NAMED_WAIT))

    def _succeeded(self) -> None:
        if self._problem is not None:
            lost = self._failed + self._dropped
            log.info("notify: %s can be reached again (%d notices given up or dropped)", self.config.name, lost)
        self._sent += 1
        self._last_sent = time.time()
        self._failures, self._problem, self._retry_after = 0, None, None

    def _failed_with(self, answer: DeliveryAnswer) -> None:
        if self._problem is None:
            log.warning("notify: %s (%s) could not be told: %s", self.config.name, self.config.shown, answer.said)
        self._failures += 1
        self._problem, self._retry_after = answer.said, answer.retry_after
        self._note_settled()

    def _note_settled(self) -> None:
        if self._failures or not (self._waiting or self._current is not None):
            self._settled.set()
        else:
            self._settled.clear()
