"""The audit log of a running gateway: records are queued at once, and written a moment later, many rows together."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aggregator.audit.capture import Capture
from aggregator.audit.process_mark import Peers, ProcessMark
from aggregator.audit.rows import RowMaker
from aggregator.audit.spill import Spill
from aggregator.audit.writer import Clock, OpenRows, Writer
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import AuditEvent, BegunCall, CallRecord
from aggregator.domain.errors import NotRecorded
from aggregator.domain.text.error_text import error_text
from aggregator.storage.audit.chain import ChainEntry, entry
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

# How long a call waits for space, and for its own row in strict mode.
PATIENCE: Final = 15.0
# From so many on the interval is not waited for.
_HURRY: Final = 1000
# Made in one run of a thread, and written together, with a pause for the event loop after each few.
_CHUNK: Final = 1000
_FEW: Final = 32
_PAUSE: Final = 50e-6
_What = CallRecord | BegunCall | AuditEvent


class AuditLog:
    """The queue of records in front of the database; one per process.

    `open_rows` opens the database for the first rows to write; `peers` know of processes on other machines. `strict`: a
    call is made after the database has its begin event, and answered after the database has its row.
    """

    def __init__(
        self,
        open_rows: OpenRows,
        spill: Spill,
        capture: Capture,
        *,
        strict: bool = False,
        flush_interval: float = 0.1,
        keep_for: float | None = None,
        keep_bytes: int | None = None,
        clock: Clock = time.time,
        peers: Peers | None = None,
    ) -> None:
        self._strict = strict
        self._interval = flush_interval
        self._clock = clock
        mark = self._mark = ProcessMark(spill.base, peers)
        self._maker = RowMaker(capture, lambda: mark.name)
        self._writer = Writer(open_rows, spill, self, clock, keep_for, keep_bytes, self._mark, strict=strict)
        self._raw: deque[_What] = deque()
        self._recorded = asyncio.Event()
        self._called = asyncio.Event()
        self._hurry = asyncio.Event()
        self._eased = asyncio.Event()
        self._making = asyncio.Lock()
        self._closed = False
        # Rows are counted, not named: they end in the order in which they came.
        self._taken = self._ended = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    def __repr__(self) -> str:
        state = f", failing: {self.problem}" if self.problem else ""
        return f"<AuditLog {self._taken - self._ended} waiting, {self._writer.written} written{state}>"

    @property
    def problem(self) -> str | None:
        """The reason why the database takes no rows now; None while it does."""
        return self._writer.problem

    @property
    def stalled(self) -> str | None:
        """The reason why the rows wait for a database that does not answer; None while it answers."""
        return self._writer.stalled

    @property
    def damage(self) -> str | None:
        """The damage found in the database, in words, or None."""
        return self._writer.damage

    def report(self) -> dict[str, Any]:
        """Return the counts of rows, and the faults, for a health page."""
        return {
            "waiting": self._taken - self._ended,
            "written": self._writer.written,
            "put_aside": self._writer.spilled,
            "lost": self._writer.lost,
            "problem": self.problem or self.stalled,
        }

    def record(self, call: CallRecord) -> None:
        """Queue a closed call. Neither the record nor the objects it refers to may change from here on."""
        self._called.set()
        self._take(call)

    def event(self, event: AuditEvent) -> None:
        """Take an event that is no call."""
        self._take(event)

    def has_space(self) -> bool:
        """Return True if `wait_for_space` would neither wait nor refuse."""
        return not self._full and not (self._strict and self.problem is not None)

    async def wait_for_space(self, tool: str) -> None:
        """Wait, for a bounded time, while the queue is full. Must be awaited before a call runs.

        Raises:
            NotRecorded: strict mode, and the call could not be recorded.
        """
        if self._strict and self.problem is not None:
            raise NotRecorded(tool, f"{tool} was not called: no call is made while the audit log cannot be written.")
        if not self._full:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._full:
                    self._eased.clear()
                    await self._eased.wait()
        if self._strict and self._full:
            raise NotRecorded(tool, f"{tool} was not called: too many rows wait for the audit log.")

    async def begun(self, call: CallRecord) -> None:
        """Wait, in strict mode, until the database has the begin event of `call`, which must not change meanwhile.

        Raises:
            NotRecorded: it could not be written, and the call must not run.
        """
        self._called.set()
        try:
            self._mark.put()
            self._take(BegunCall(call))
            await self._committed()
        except (TimeoutError, StorageError, OSError) as error:
            tool = call.called.tool or call.asked_name
            said = f"{tool} was not called: the audit log cannot be written."
            raise NotRecorded(tool, said) from error

    async def written(self, call: CallRecord) -> None:
        """Wait, in strict mode, for the commit that holds the row of `call`, which was recorded before.

        Raises:
            NotRecorded: the row is not in the database now; it will be once the database takes rows again.
        """
        if not self._strict:
            return
        try:
            await self._committed()
        except (TimeoutError, StorageError) as error:
            tool = call.called.tool or call.asked_name
            said = f"The audit log cannot be written, so the outcome of {tool} is withheld. It may have taken effect."
            raise NotRecorded(tool, said) from error

    async def _committed(self) -> None:
        """Wait until all queued rows are in the database.

        Raises:
            StorageError, TimeoutError: some rows are not.
        """
        if self.problem is not None:
            raise StorageError(self.problem)
        if self._ended >= self._taken:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._taken, future))
        self._hurry.set()
        async with asyncio.timeout(PATIENCE):
            await future

    async def run(
        self, quiet: Callable[[], Coroutine[Any, Any, None]] | None = None, kept: KeptWork | None = None
    ) -> None:
        """Make and write rows until cancelled; `close` does the rest.

        Opening the database takes the machine for a while: until `quiet` returns, only a call is worth that.
        """
        async with Tasks("the audit log") as tasks:
            keep = (kept or KeptWork()).keep
            tasks.start(keep("the making of audit rows", self._make_for_ever))
            if quiet is not None:
                begins = tasks.start(quiet()), tasks.start(self._called.wait())
                await asyncio.wait(begins, return_when=asyncio.FIRST_COMPLETED)
            tasks.start(keep("the look at the audit log", self._writer.look))
            tasks.start(keep("the putting aside of audit rows", self._writer.ease_again_and_again))
            await keep("the writer of the audit log", self._writer.run)

    async def close(self, bound: float = 5.0) -> None:
        """Write the queue after `run` has ended; after `bound` seconds, spill the rest to files beside the database.

        Later records are spilled at once.
        """
        try:
            async with asyncio.timeout(bound):
                await self._make()
                while self._writer.unfinished:
                    await self._writer.step()
        except Exception as error:  # of any kind: what waits must not be lost
            reason = error_text(error)
            log.error("the last rows of the audit log go into a file beside the database: %s", reason)
        finally:
            self._closed = True
            self._put_rest_aside()
            self._mark.take_away()
            await self._writer.end()

    def done(self, count: int) -> None:
        """Note that rows have left the queue."""
        self._ended += count
        self._eased.set()
        while self._waiters and self._waiters[0][0] <= self._ended:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)

    def failed(self, reason: str) -> None:
        """End every wait for a row with this error."""
        while self._waiters:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_exception(StorageError(reason))
                future.exception()  # the call that waited may have ended

    @property
    def _full(self) -> bool:
        return self._writer.full(self._taken - self._ended)

    def _take(self, what: _What) -> None:
        self._raw.append(what)
        self._taken += 1
        waiting = len(self._raw)
        if waiting == 1:
            self._recorded.set()
        elif waiting >= _HURRY:
            self._hurry.set()
        if self._closed:
            self._put_rest_aside()

    async def _make_for_ever(self) -> None:
        while True:
            await self._recorded.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._hurry.wait()
            self._recorded.clear()
            self._hurry.clear()
            try:
                await self._make()
            finally:
                if self._raw:
                    self._recorded.set()
            await self._writer.ease()

    async def _make(self) -> None:
        """Make the rows of the current queue; new records wait for their own interval."""
        async with self._making:
            left = len(self._raw)
            while left > 0:
                making = self._writer.in_thread(self._rows, min(left, _CHUNK))
                left -= _CHUNK
                try:
                    await asyncio.shield(making)
                except asyncio.CancelledError:
                    await asyncio.wait([making])  # no thread can be cancelled
                    raise
                finally:
                    self._writer.add(making.result())

    def _put_rest_aside(self) -> None:
        self._writer.add(self._rows(len(self._raw)))
        self._writer.put_rest_aside()

    def _rows(self, count: int) -> list[ChainEntry]:
        """Make the rows of the first records and release them here, since freeing takes time, too."""
        rows = []
        for number in range(1, count + 1):
            what = self._raw.popleft()
            try:
                rows.append(self._maker.row(what))
            except Exception as error:  # a bug in here costs its own row, which is logged, and no other
                log.exception("a row of the audit log could not be made")
                summary = f"A row could not be made: {type(error).__name__}."
                rows.append(entry("log_gap", {"at": round(self._clock(), 6), "summary": summary}))
            if number % _FEW == 0:
                time.sleep(_PAUSE)
        return rows
