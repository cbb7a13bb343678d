"""Spans on their way out: a bounded queue and the one thread that empties it, a batch at a time.

Law: `put` never waits for the network; what finds no room is counted and gone.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")

# For the end of what was interrupted. A request that nobody answers runs into its own time-out; nobody waits for that.
_LAST: Final = 0.2


@dataclass(frozen=True, slots=True)
class ExportFigures:
    """Spans since the start: delivered, refused or not taken at the other end, without room here; and those waiting."""

    exported: int
    failed: int
    dropped: int
    waiting: int


class ExportQueue(Generic[Item]):
    """`export` says whether a batch arrived; it may take long, and may raise. `delay` is in seconds."""

    def __init__(self, export: Callable[[Sequence[Item]], bool], size: int, batch: int, delay: float) -> None:
        self._export = export
        self._size, self._batch, self._delay = size, batch, delay
        self._waiting: deque[Item] = deque()
        self._changed = Condition()
        self._hurry = self._closing = self._full = False
        self._busy = self._exported = self._failed = self._dropped = 0
        self._thread = Thread(target=self._run, name="aggregator-spans-out", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Outbox, {self.figures()}>"

    def put(self, items: Sequence[Item]) -> None:
        """Queue as many as there is room for."""
        with self._changed:
            room = 0 if self._closing else max(self._size - len(self._waiting) - self._busy, 0)
            self._waiting.extend(items[:room])
            self._drop(len(items) - room)
            if len(self._waiting) >= self._batch:
                self._changed.notify_all()

    def figures(self) -> ExportFigures:
        """What became of everything so far."""
        with self._changed:
            return ExportFigures(self._exported, self._failed, self._dropped, len(self._waiting) + self._busy)

    def flush(self, seconds: float) -> bool:
        """Send all there is now; whether it was sent, or given up, within that time."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self, seconds: float, interrupt: Callable[[], None]) -> None:
        """Send what there is, for so long; then `interrupt` what is being sent and give up the rest."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(max(deadline - time.monotonic(), 0.0))
        with self._changed:
            self._drop(len(self._waiting))
            self._waiting.clear()
        interrupt()
        self._thread.join(_LAST)

    def _run(self) -> None:
        while batch := self._next():
            try:
                arrived = self._export(batch)
            except Exception:
                log.exception("exporting spans failed in a way nobody foresaw")
                arrived = False
            with self._changed:
                self._busy = 0
                if arrived:
                    self._exported += len(batch)
                else:
                    self._failed += len(batch)
                self._full = self._full and bool(self._waiting)
                self._changed.notify_all()

    def _next(self) -> list[Item]:
        """The next batch, once it is full or the delay is over; empty at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(self._pressing, self._delay)
                if self._waiting or self._closing:
                    break
            batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._busy = len(batch)
            self._hurry = self._hurry and bool(self._waiting)
            return batch

    def _pressing(self) -> bool:
        return self._closing or (self._hurry and bool(self._waiting)) or len(self._waiting) >= self._batch

    def _drop(self, number: int) -> None:
        self._dropped += max(number, 0)
        if number > 0 and not self._full and not self._closing:
            # Told once, until the queue has been empty again.
            self._full = True
            log.warning("spans are dropped: %d wait to be sent, which is all there is room for", self._size)
