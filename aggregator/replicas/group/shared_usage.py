"""Reports of usage of limits between replicas: in the background, all changes together.

A call waits for a report in two cases only: this replica has charged a slice of the limit that the database does not
have yet; or calls of others, which may have ended, take the last places. No call waits while the database is away.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from itertools import islice
from typing import Final, Protocol

from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.usage import MINUTE, CountedCalls, Usage, UsageLevel, UsageWindow
from aggregator.storage.errors import StorageError
from aggregator.storage.records import UsageRow

log = logging.getLogger(__name__)

# Seconds between a charge and its report: usually, and once half of a slice is used.
SOON: Final = 0.25
PROMPTLY: Final = 0.02
# Seconds that the database may take for one report before it counts as away.
PATIENCE: Final = 2.0
_AGAIN: Final = 1.0
_AT_ONCE: Final = 500
# The part of a limit that the slices of all replicas make together.
_PART: Final = 4
# Seconds for which a row outlives the usage in it.
_MARGIN: Final = 1.0
# Seconds from its last call until a conversation counts as over.
CONVERSATION_OVER: Final = 24 * 3600.0


class UsageTable(Protocol):
    """The table of usage, such as `aggregator.replicas.storage.LimitUsage`."""

    async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None: ...

    async def of_others(
        self, replica: str, counters: Collection[str], now: float
    ) -> Mapping[str, Sequence[UsageRow]]: ...


class SharedUsage:
    """The limits that the replicas keep together. `on`: this process is one of several; if not, this object is unused.

    `away`: the database does not answer, so this replica uses its share of each limit only.
    """

    def __init__(self, group: str, membership: Membership, clock: GroupClock) -> None:
        self.on = False
        self.away = True
        self.problem: str | None = None
        self._group = group
        self._membership = membership
        self._clock = clock
        self._table: UsageTable | None = None
        self._count = 1
        self._number = 0
        self._changed: dict[Usage, None] = {}
        self._leased: dict[Usage, None] = {}
        self._waiting: defaultdict[Usage, list[asyncio.Future[None]]] = defaultdict(list)
        self._wake = asyncio.Event()
        self._asked = asyncio.Event()
        self._tasks = Tasks("the limits of replicas")
        membership.on_changed(self._count_again)

    def __repr__(self) -> str:
        return f"<SharedUsage {'away' if self.away else 'in touch'}, {len(self._changed)} to tell>"

    def window(self, *names: str) -> UsageWindow:
        """Return a new usage of a counter of calls a minute."""
        return UsageWindow(self._key(names))

    def level(self, *names: str, lease: float | None = None) -> UsageLevel:
        """Return a new usage of a counter of calls under way, or of a conversation."""
        if lease is not None:
            return UsageLevel(self._key(names), lease)
        return UsageLevel(self._key(names), self._membership.lease, leased=True)

    def slice_of(self, most: int) -> int:
        """Return how many calls this replica may charge to a limit before the database has them: one, until it knows
        the replicas that joined with it.
        """
        return max(1, most // (_PART * self._count)) if self._membership.settled else 1

    def share_of(self, most: int) -> int:
        """Return how many calls this replica may charge to a limit while the database is away."""
        return max(1, most // self._count)

    def has_room(self, usage: Usage, most: int, now: float) -> bool | None:
        """Return whether a call may be charged to a limit of `most`, if `on`; None: ask the database first."""
        if usage.used(now) >= most:
            # Calls of a minute expire at known times; calls in flight end at unknown ones.
            known = self.away or usage.foreseen or usage.own(now) >= most
            return False if known else None
        if self.away:
            return usage.own(now) < self.share_of(most)
        return True if usage.unknown(now) < self.slice_of(most) else None

    def charged(self, usage: Usage, most: int, now: float) -> None:
        """Record a charged call, if `on`."""
        self._changed[usage] = None
        if usage.leased:
            self._leased[usage] = None
        if 2 * usage.unknown(now) >= self.slice_of(most):
            self._wake.set()

    def given_back(self, usage: UsageLevel) -> None:
        """Record that a call no longer counts."""
        if self.on and usage.stale:
            self._changed[usage] = None
            self._wake.set()

    async def ask(self, usage: Usage) -> None:
        """Wait until the database has our charges and we know those of the others, or until it is away."""
        if self.away or not self.on:
            return
        answered = asyncio.get_running_loop().create_future()
        self._waiting[usage].append(answered)
        self._changed[usage] = None
        self._asked.set()
        self._wake.set()
        await answered

    async def start(self, table: UsageTable) -> None:
        """Begin to report to the others.

        Raises:
            StorageError: the database cannot be read.
        """
        await table.of_others(self._membership.id, (), self._clock.now())
        self._table = table
        self.away = False

    @asynccontextmanager
    async def running(self, kept: KeptWork | None = None) -> AsyncIterator[None]:
        """Exchange reports inside, if this process is one of several."""
        async with Tasks("the limits of replicas") as self._tasks:
            if self.on:
                self._tasks.start((kept or KeptWork()).keep("the limits of replicas", self._run))
            yield

    async def end(self) -> None:
        """Send the last report, so that the others need not wait for it to expire; no call waits after that."""
        await self._tasks.cancel()
        await self.exchange()
        self.away = True

    async def _run(self) -> None:
        try:
            while True:
                await self._pause()
                await self.exchange()
        finally:
            self.away = True
            self._answer(self._waiting)

    async def exchange(self) -> None:
        """Write the changes, and read the usage of the others."""
        if self._table is None:
            return
        now = asyncio.get_running_loop().time()
        self._renew(now)
        if not self._changed and not self.away:
            return
        batch = list(islice(self._changed, _AT_ONCE))
        waiting = {usage: self._waiting.pop(usage) for usage in batch if usage in self._waiting}
        for usage in batch:
            del self._changed[usage]
        told = False
        try:
            async with asyncio.timeout(PATIENCE):
                await self._report(self._table, batch, now)
                told = True
        except (StorageError, TimeoutError) as error:
            self._lost(str(error) or "it did not answer in time")
        else:
            self._found()
        finally:
            if not told:
                self._changed.update(dict.fromkeys(batch))
            self._answer(waiting)

    async def _report(self, table: UsageTable, batch: Sequence[Usage], now: float) -> None:
        # The write is committed before the read: of two replicas that do this at one time,
        # one sees the other's.
        theirs = self._clock.now()
        self._number += 1
        rows = [row for usage in batch if (row := _row(usage, now, theirs)) is not None]
        if rows:
            await table.report(self._membership.id, self._number, rows)
        keys = [usage.key for usage in batch if usage.key is not None]
        theirs = self._clock.now()
        found = await table.of_others(self._membership.id, keys, theirs)
        shift = asyncio.get_running_loop().time() - self._clock.now()
        for usage in batch:
            # A row that would count for much longer was written before the clock was set back.
            latest = theirs + 2 * (usage.lease + _MARGIN)
            rows = [row for row in found.get(usage.key or "", ()) if row.expires <= latest]
            usage.acknowledge(now, _used(rows, shift))
            if usage.stale:
                self._changed[usage] = None

    async def _pause(self) -> None:
        if self.away:
            await asyncio.sleep(_AGAIN)
            return
        try:
            async with asyncio.timeout(SOON):
                await self._wake.wait()
            async with asyncio.timeout(PROMPTLY):
                await self._asked.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        self._asked.clear()
        if len(self._changed) > _AT_ONCE:
            self._wake.set()

    def _renew(self, now: float) -> None:
        """Write anew the calls in flight whose row expires soon."""
        soon = now + self._membership.lease * 2 / 3
        for usage in list(self._leased):
            if usage.expires_before(soon):
                self._changed[usage] = None
            elif not usage.own(now) and usage not in self._changed:
                del self._leased[usage]

    def _lost(self, why: str) -> None:
        if not self.away:
            log.warning("limits are not shared with the other replicas: each keeps to its share of them: %s", why)
        self.away, self.problem = True, why
        # Also those that wait for the report after this one.
        self._answer(self._waiting)
        self._waiting.clear()

    def _found(self) -> None:
        if self.problem is not None:
            log.info("limits are shared with the other replicas again")
        self.away, self.problem = False, None

    def _answer(self, waiting: Mapping[Usage, Iterable["asyncio.Future[None]"]]) -> None:
        for futures in waiting.values():
            for future in futures:
                if not future.done():
                    future.set_result(None)

    def _count_again(self) -> None:
        self._count = self._membership.count

    def _key(self, names: Sequence[str]) -> str | None:
        if not self.on:
            return None
        text = json.dumps([self._group, *names])
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()


def _row(usage: Usage, now: float, theirs: float) -> UsageRow | None:
    """Return the row of a usage, or None if nothing changed. `theirs` is `now` by the group clock."""
    calls, spans = usage.send(now)
    key = usage.key or ""
    if isinstance(usage, UsageLevel):
        return UsageRow(key, calls, None, theirs + usage.lease + _MARGIN)
    if not spans:
        return None
    times = tuple((round(theirs + until - MINUTE - now, 3), number) for until, number in spans)
    return UsageRow(key, calls, times, times[-1][0] + MINUTE + _MARGIN)


def _used(rows: Iterable[UsageRow], shift: float) -> Iterable[CountedCalls]:
    """Return the usage in rows, with times of the event loop: those of the group clock plus `shift`."""
    for row in rows:
        if row.times is None:
            yield CountedCalls(row.expires + shift, row.used)
        else:
            yield from (CountedCalls(at + MINUTE + shift, calls) for at, calls in row.times)
