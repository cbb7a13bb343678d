"""The writer of audit rows: they enter the database in their order, in one transaction after another.

Law: a row leaves the queue when it is in the database or in a file beside it; where neither can be, an event says so.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, TypeVarTuple

from aggregator.audit.process_mark import ProcessMark
from aggregator.audit.spill import Spill
from aggregator.domain.bounds.clock_leaps import ClockLeaps
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import AuditEvent
from aggregator.domain.text.error_text import error_text
from aggregator.storage.audit.chain import ChainBatch, ChainEntry, Head, entry
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.storage.audit.log import AuditRows

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# From here on there is no space: calls wait, but for rows that are in files since the database failed.
ROWS_AT_MOST: Final = 10_000
BYTES_AT_MOST: Final = 64 * 2**20
# In one transaction, and in one file.
BATCH: Final = 1000
FILE: Final = 5000
# Between tries while the database fails.
FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 10.0
TRIM_EVERY: Final = 600.0
# Between looks for calls of replicas that have ended.
LOOK_EVERY: Final = 2.0
# Between files, before the database is open for the first time.
FIRST_ASIDE: Final = 0.1
ASIDE_EVERY: Final = 1.0
# Seconds that a row waits for the database before it goes into a file: so many a killed process loses.
ASIDE_AFTER: Final = 1.0
# Seconds without an answer after which operators hear of a database that hangs.
STALLED_AFTER: Final = 10.0
_SIZE: Final = attrgetter("size")


class Owner(Protocol):
    """The queue in front of a writer, which reports the outcome of rows to it."""

    def done(self, count: int) -> None:
        """Count so many more rows, in their order, as dealt with."""

    def failed(self, reason: str) -> None:
        """Note that the database did not take a row, which is tried again."""

    def event(self, event: AuditEvent) -> None:
        """Record an event of the log itself."""


# A function that opens the database of the log, which may take seconds.
OpenRows = Callable[[], "Awaitable[AuditRows]"]
# Returns the time in seconds since 1970.
Clock = Callable[[], float]


class Writer:
    """Moves rows from the queue into the database, or into files beside it.

    `problem` is the reason why the database takes no rows now, and `damage` its broken parts, for operators. `written`,
    `spilled` and `lost` count rows that are in the database, in files beside it, and nowhere.
    """

    def __init__(
        self,
        open_rows: OpenRows,
        spill: Spill,
        owner: Owner,
        clock: Clock,
        keep_for: float | None,
        keep_bytes: int | None,
        mark: ProcessMark,
        *,
        strict: bool,
    ) -> None:
        self.problem: str | None = None
        self.damage: str | None = None
        self.written = self.spilled = self.lost = 0
        self._open_rows = open_rows
        self._spill = spill
        self._owner = owner
        self._clock = clock
        self._keep_for = keep_for
        self._keep_bytes = keep_bytes
        self._mark = mark
        # In strict mode no call is answered while its row waits.
        self._strict = strict
        self._rows: AuditRows | None = None
        # When the database was given the work that it has not answered yet.
        self._given_at: float | None = None
        self._stall_logged = False
        self._open = asyncio.Event()
        self._opening: asyncio.Future[AuditRows] | None = None
        self._queue: deque[ChainEntry] = deque()
        # When rows were queued, and how many together.
        self._arrivals: deque[tuple[float, int]] = deque()
        self._bytes = 0
        self._batch: ChainBatch | None = None
        self._batch_since = 0.0
        self._queued = asyncio.Event()
        # Rows in files that the database was merely too slow for.
        self._late = 0
        self._ready = asyncio.Event()
        # One step at a time; and only one task at a time takes rows from the queue.
        self._turn = asyncio.Lock()
        self._taking = asyncio.Lock()
        self._pause = FIRST_PAUSE
        self._recover = True
        # Files that the database rejected, the last one last, and the time of the next attempt.
        self._left: list[Path] = []
        self._again_at: float | None = None
        self._again_pause = FIRST_PAUSE
        self._trim_at: float | None = None
        # From when on rows are removed by their age again, after the clock has leapt ahead.
        self._leaps = ClockLeaps(clock)
        self._ages_from: float | None = None
        self._look_at: float | None = None
        self._gap = 0
        # A separate thread: rows are made and spilled even if the other threads are busy.
        self._thread = ThreadPoolExecutor(1, "audit")

    def in_thread(self, work: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Do some work of the log on the thread that is the log's alone."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    @property
    def stalled(self) -> str | None:
        """The reason why rows do not enter a database that neither takes nor refuses them; None while it answers."""
        if self._given_at is None or (since := _now() - self._given_at) < STALLED_AFTER:
            return None
        return f"the database has not answered for {since:.0f} s; rows of the audit log are kept until it does"

    async def end(self) -> None:
        """End the thread, and open the database no more."""
        self._thread.shutdown(wait=False)
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
            if not self._opening.cancelled():
                self._opening.exception()  # read, or asyncio would log it

    def __len__(self) -> int:
        return len(self._queue) + (len(self._batch.entries) if self._batch is not None else 0)

    def full(self, waiting: int) -> bool:
        """Return whether no more rows should come, where so many wait here and in front."""
        late = self._late if self.problem is None else 0
        return waiting + late >= ROWS_AT_MOST or self._bytes >= BYTES_AT_MOST

    @property
    def unfinished(self) -> bool:
        """Return whether rows wait here, or in files because the database was slow, or not open yet."""
        aside = self._late > 0 or (self._recover and self.spilled > 0)
        return bool(len(self)) or (aside and self.problem is None)

    def add(self, entries: Sequence[ChainEntry]) -> None:
        """Queue rows."""
        if not entries:
            return
        self._queue.extend(entries)
        self._arrivals.append((_now(), len(entries)))
        self._bytes += sum(map(_SIZE, entries))
        self._ready.set()
        self._queued.set()

    async def run(self) -> None:
        """Write the queue until cancelled."""
        while True:
            if not len(self):
                self._ready.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._next_time()):
                        await self._ready.wait()
            try:
                await self.step()
            except Exception as error:  # a bug in here must not end the log, and with it every call
                self._failed(error)
                await self.ease()
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def look(self) -> None:
        """Check, after the database has opened, whether its content is readable."""
        await self._open.wait()
        assert self._rows is not None
        self.damage = await self._rows.damage()
        if self.damage is not None:
            log.error("%s", self.damage)

    async def step(self) -> None:
        """Write one batch, and do what else is due.

        Raises:
            StorageError: the database does not take the batch.
        """
        async with self._turn:
            self._given_at = _now()
            try:
                await self._write_and_look()
            finally:
                self._given_at = None

    async def _write_and_look(self) -> None:
        if self._rows is None:
            opened = await self._opened()
            # Before a row of this process: its clock may be ahead since it started.
            if (newest := await opened.newest()) is not None:
                self._leaps.looked(newest)
            self._rows = opened
            self._open.set()
        if self._recover and self.problem is None:
            await self._catch_up(self._rows)
        async with self._taking:
            if self._batch is None and self._queue:
                self._batch_since = self._arrivals[0][0]
                self._batch = ChainBatch(self._from_queue(BATCH))
        size = 0
        if self._batch is not None:
            _, size = await self._rows.append(self._batch)
            count = len(self._batch.entries)
            self._forget(self._batch.entries)
            self._batch = None
            self.written += count
        elif self.problem is not None and not await self._take_back(self._rows):
            raise StorageError(self.problem)
        self._worked()
        late = self._late > 0 and not self._queue
        if self._recover or late or (self._again_at is not None and _now() >= self._again_at):
            await self._catch_up(self._rows)
        elif self._mark.is_replica:
            await self._look_for_others(self._rows)
        await self._trim(self._rows, size)

    async def ease(self) -> None:
        """Put rows into files beside the database that it is too slow for, or does not take.

        In strict mode only once they are too many: a row in a file is none that is written.
        """
        if self._strict:
            if self.problem is not None:
                await self._queue_aside(lambda: self.full(len(self)))
            return
        if self.problem is not None and self._batch is not None and _now() - self._batch_since >= ASIDE_AFTER:
            await self._batch_aside()
        waits = len(self._queue) if self._arrivals and _now() - self._arrivals[0][0] >= ASIDE_AFTER else 0
        if waits or (self.problem is not None and self.full(len(self))):
            if self.problem is None:
                self._late += len(self._queue)
            await self._queue_aside(lambda: True)

    async def ease_again_and_again(self) -> None:
        """Put rows aside that wait too long, until cancelled."""
        while True:
            await self._queued.wait()
            await asyncio.sleep(ASIDE_AFTER / 4)
            await self.ease()
            if not self._stall_logged and (stalled := self.stalled) is not None:
                self._stall_logged = True
                log.error("%s", stalled)
            if not len(self):
                self._queued.clear()

    async def _batch_aside(self) -> None:
        """Put a batch into a file that the database did not take, and that it is not given now."""
        if self._turn.locked():
            return
        async with self._turn:
            batch, self._batch = self._batch, None
            if batch is not None:
                try:
                    await self._in_thread_to_the_end(self._put_aside, batch.entries, batch.tried)
                finally:
                    self._forget(batch.entries)
                    self._look_at_files()

    async def _in_thread_to_the_end(self, work: Callable[[*Ts], T], *args: *Ts) -> None:
        doing = self.in_thread(work, *args)
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait([doing])  # no thread can be cancelled
            raise

    def _look_at_files(self) -> None:
        """Request a read of the files, even if no more rows come."""
        if self._again_at is None:
            self._again_at = _now() + self._again_pause
            self._ready.set()

    def _from_queue(self, most: int) -> list[ChainEntry]:
        """Take rows from the queue, the oldest first."""
        taken = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        left = len(taken)
        while left:
            at, count = self._arrivals.popleft()
            if count > left:
                self._arrivals.appendleft((at, count - left))
            left -= min(count, left)
        return taken

    async def _queue_aside(self, wanted: Callable[[], bool]) -> None:
        """Spill queued rows to files while requested."""
        async with self._taking:
            while wanted() and self._queue:
                entries = self._from_queue(FILE)
                try:
                    await self._in_thread_to_the_end(self._put_aside, entries, None)
                finally:
                    self._forget(entries)
                    self._look_at_files()

    def put_rest_aside(self) -> None:
        """Spill the rest of the queue at the end. The event loop waits for it."""
        if self._batch is not None:
            self._put_aside(self._batch.entries, self._batch.tried)
            self._forget(self._batch.entries)
            self._batch = None
        while self._queue:
            entries = self._from_queue(FILE)
            self._put_aside(entries, None)
            self._forget(entries)
        self._spill.finish()

    def _put_aside(self, entries: Sequence[ChainEntry], tried: Head | None) -> None:
        try:
            if tried is None:
                self._spill.grow(entries, self._clock(), FILE)
            else:
                self._spill.keep(entries, tried, self._clock())
            self.spilled += len(entries)
        except OSError as error:
            if not self._gap:
                log.error("audit rows are lost: neither the database nor a file beside it takes them (%s)", error)
            self.lost += len(entries)
            self._gap += len(entries)

    def _forget(self, entries: Sequence[ChainEntry]) -> None:
        self._bytes -= sum(map(_SIZE, entries))
        self._owner.done(len(entries))

    def _failed(self, error: Exception) -> None:
        if self.problem is None:
            what = "rows of the audit log cannot be written; they are kept, and tried again"
            log.error("%s: %s", what, error, exc_info=None if isinstance(error, StorageError) else error)
        self.problem = error_text(error)
        self._owner.failed(self.problem)

    def _worked(self) -> None:
        self._pause = FIRST_PAUSE
        self._stall_logged = False
        if self.problem is not None:
            self.problem, self._recover = None, True
            log.info("rows of the audit log are written again")
        if self._gap:
            summary = f"{self._gap} rows were lost: neither the database nor a file beside it took them."
            self._gap = 0
            self._owner.event(AuditEvent("log_gap", self._clock(), summary))

    async def _opened(self) -> "AuditRows":
        """Open the database, which takes seconds if it must be created: meanwhile rows go into files."""
        async with Tasks("the opening of the audit log") as tasks:
            if not self._strict:
                tasks.start(self._keep_aside())
            # Cancelling the wait must not discard the opened database.
            opening = self._opening = self._opening or asyncio.ensure_future(self._open_rows())
            try:
                return await asyncio.shield(opening)
            finally:
                if opening.done():
                    self._opening = None

    async def _keep_aside(self) -> None:
        pause = FIRST_ASIDE
        while True:
            await asyncio.sleep(pause)
            await self._queue_aside(lambda: True)
            pause = min(2 * pause, ASIDE_EVERY)

    async def _catch_up(self, rows: "AuditRows") -> None:
        """Write what processes before this one could not."""
        self._recover = False
        try:
            await self._take_back(rows)
        except asyncio.CancelledError:
            self._recover = True
            raise
        await self._close_for_others(rows)
        self._look_at = asyncio.get_running_loop().time() + LOOK_EVERY

    def _next_time(self) -> float | None:
        """Return when something is due though no row waits."""
        looks = self._look_at if self._mark.is_replica else None
        return min((at for at in (self._trim_at, looks, self._again_at) if at is not None), default=None)

    async def _look_for_others(self, rows: "AuditRows") -> None:
        """Close the calls of replicas that have ended since the last look, if it is time."""
        now = asyncio.get_running_loop().time()
        if self._look_at is not None and now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            await self._close_for_others(rows)

    async def _take_back(self, rows: "AuditRows") -> bool:
        """Write what lies in files beside the database, whichever process put it there, until it does not take one.
        Return False if the database does not work.
        """
        self._again_at, self._late = None, 0
        files = await self.in_thread(self._spill.files)
        # What was not taken the last time keeps nothing else back.
        left = self._left = [file for file in self._left if file in files]
        for file in [*(file for file in files if file not in left), *left]:
            try:
                batch = await self.in_thread(self._spill.read, file)
                if batch is None:
                    continue
                if not rows.fits(batch.entries):
                    aside = await self.in_thread(self._spill.refuse, file)
                    log.error("%s holds rows of another version of aggregator; it is now %s", file, aside)
                    continue
                batch.once = f"{len(batch.entries)} rows that could not be written in time were added from {file.name}."
                told = entry("log_recovered", {"at": round(self._clock(), 6), "summary": batch.once})
                batch.entries = [*batch.entries, told]
                self._given_at = _now()
                await rows.append(batch)
                await self.in_thread(self._spill.done, file)
                self._again_pause = FIRST_PAUSE
                self._owner.done(0)
            except (StorageError, OSError) as error:
                if file in left:
                    left.remove(file)
                elif self.problem is None or isinstance(error, OSError):
                    log.error("%s could not be added to the audit log; it stays, and is tried again: %s", file, error)
                left.append(file)
                # Rows that come now are written first: the next file might wait as long for the database.
                self._again_at = asyncio.get_running_loop().time() + self._again_pause
                self._again_pause = min(2 * self._again_pause, LONGEST_PAUSE)
                return not isinstance(error, StorageError)
        return True

    async def _close_for_others(self, rows: "AuditRows") -> None:
        """Write the rows of calls that were begun by processes which were killed."""
        ended: dict[str, bool] = {}
        elsewhere: frozenset[str] = frozenset()

        def gone(name: str) -> bool:
            if name not in ended:
                ended[name] = name in elsewhere or self._mark.gone(name, only_here=rows.is_file)
            return ended[name]

        try:
            owners = await rows.owners_under_way()
            if not owners:
                return
            elsewhere = await self._mark.gone_elsewhere(owners)
            if not any([await self.in_thread(gone, name) for name in owners]):
                return
            ended.clear()
            count = await rows.interrupt(gone)
        except StorageError as error:
            log.warning("calls that a process was killed with are not on record as interrupted yet: %s", error)
            return
        await self.in_thread(self._mark.forget, [name for name, is_gone in ended.items() if is_gone])
        if count:
            log.warning("%d calls were under way when a process was killed; they are on record as interrupted", count)

    async def _trim(self, rows: "AuditRows", size: int) -> None:
        loop_time = asyncio.get_running_loop().time()
        too_large = self._keep_bytes is not None and size > self._keep_bytes
        if self._trim_at is not None and loop_time < self._trim_at and not too_large:
            return
        if self._leaps.leapt():
            log.warning(
                "the clock has leapt ahead by more than a day, or nothing was recorded for so long: no row of the "
                "audit log is too old for ten minutes"
            )
            self._ages_from = loop_time + TRIM_EVERY
        now, by_age = self._clock(), self._ages_from is None or loop_time >= self._ages_from
        before = now - self._keep_for if self._keep_for is not None and by_age else None
        try:
            removed = await rows.trim(before=before, keep_bytes=self._keep_bytes, now=now)
        except StorageError as error:
            log.warning("old rows of the audit log stay for now: %s", error)
            removed = 0
        # What is left is removed with the next batch, so that no batch waits for long.
        self._trim_at = loop_time + (0.0 if removed else TRIM_EVERY)


def _now() -> float:
    return asyncio.get_running_loop().time()
