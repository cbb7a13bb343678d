"""The leases of one replica: those it holds, renewed in the background, and those it waits for.

Rule: whoever sends something that only the owner may send reads `good` right before. `good` is True for one replica
at a time, even if the database is away, a process is stopped, or an answer is lost (`lease_rules` says why).
"""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from aggregator.domain.bounds.kept_work import KeptWork, Work
from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.group.clock import GroupClock, Monotonic
from aggregator.replicas.group.lease_rules import RENEW_EVERY, Observation, OwnTime
from aggregator.storage.errors import StorageError
from aggregator.storage.records import LeaseRecord

log = logging.getLogger(__name__)

# Seconds between two looks at leases of others, at most; a release arrives earlier.
_LOOK_EVERY: Final = 1.0


def awake_and_asleep() -> float:
    """Return the seconds of a clock that also runs while the machine sleeps, if the system has one."""
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    if sys.platform == "win32" or _BOOTTIME is None:
        return time.monotonic()
    return time.clock_gettime(_BOOTTIME)


_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class LeaseTable(Protocol):
    """The table of leases, such as `aggregator.replicas.storage.LeaseRows`."""

    async def read(self, names: Collection[str]) -> Mapping[str, LeaseRecord]: ...

    async def take(self, name: str, owner: str, seen: LeaseRecord | None, until: float) -> LeaseRecord | None: ...

    async def renew(self, owner: str, held: Mapping[str, int], until: float) -> frozenset[str]: ...

    async def release(self, owner: str, held: Mapping[str, int]) -> None: ...

    async def announce(self) -> None: ...


class HeldLease:
    """A lease that this replica holds, or held. `lost` completes once the lease must not be used."""

    def __init__(self, name: str, generation: int, time: OwnTime, clock: Monotonic) -> None:
        self.name = name
        self.generation = generation
        self.time = time
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._clock = clock

    def __repr__(self) -> str:
        return f"<HeldLease {self.name} generation {self.generation}{'' if self.good else ', lost'}>"

    @property
    def good(self) -> bool:
        """True while no other replica can have the lease."""
        return not self.lost.done() and self._clock() < self.time.stops

    def renewed(self, sent: float) -> None:
        """Record the arrival of a renewal that was sent at `sent` or later."""
        self.time.renewed(sent)

    def lose(self, why: str) -> None:
        """End the use of the lease. May be called twice."""
        if not self.lost.done():
            self.lost.set_result(why)


# Called if a lease has another owner, or this replica got or lost it.
OnLeaseChanged = Callable[[], None]


class _Candidate:
    """A lease that this replica waits for."""

    def __init__(self, name: str, lease: float) -> None:
        self.name = name
        self.row: LeaseRecord | None = None
        self.observation = Observation(lease)
        # True from the moment it is taken until all work under it has ended.
        self.in_use = False
        self.held: HeldLease | None = None
        self.listeners: list[OnLeaseChanged] = []


class Leases:
    """The leases of the replica `me`. Another replica may take one `lease` seconds after its last renewal.

    While the database is away, a lease lasts until its time is over.
    """

    def __init__(self, me: str, lease: float, group_clock: GroupClock, clock: Monotonic = awake_and_asleep) -> None:
        self.me = me
        self.lease = lease
        self._group_clock = group_clock
        self._clock = clock
        self._table: LeaseTable | None = None
        self._candidates: dict[str, _Candidate] = {}
        self._wake = asyncio.Event()
        self._announcing = asyncio.Event()
        self._closing = False

    def __repr__(self) -> str:
        held = sum(one.held is not None for one in self._candidates.values())
        return f"<Leases of {self.me}: {held} of {len(self._candidates)}>"

    # -- for users of a lease

    def want(self, name: str) -> None:
        """Take the lease as soon as it is free."""
        if name not in self._candidates:
            self._candidates[name] = _Candidate(name, self.lease)
            self._wake.set()

    async def unwant(self, name: str) -> None:
        """Release the lease, or stop waiting for it. Work under it must have ended."""
        candidate = self._candidates.pop(name, None)
        if candidate is not None and candidate.held is not None:
            held, candidate.held = candidate.held, None
            held.lose("it was given up")
            await self._release({name: held.generation})

    def held(self, name: str) -> HeldLease | None:
        """Return the lease if this replica holds it now."""
        candidate = self._candidates.get(name)
        return candidate.held if candidate is not None and candidate.held is not None and candidate.held.good else None

    def on_changed(self, name: str, listener: OnLeaseChanged) -> Callable[[], None]:
        """Call `listener` when a wanted lease has another owner; return a function that ends that."""
        listeners = self._candidates[name].listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener) if listener in listeners else None

    async def changed(self, name: str) -> None:
        """Wait until a lease that is wanted has another owner."""
        changed = asyncio.Event()
        end = self.on_changed(name, changed.set)
        try:
            await changed.wait()
        finally:
            end()

    @asynccontextmanager
    async def using(self, held: HeldLease) -> AsyncIterator[None]:
        """Run the owner's work inside: this replica does not take the lease again before that work has ended."""
        candidate = self._candidates.get(held.name)
        if candidate is not None:
            candidate.in_use = True
        try:
            yield
        finally:
            if candidate is not None:
                candidate.in_use = False
            self._wake.set()

    async def run_alone(self, name: str, work: Work) -> None:
        """Run `work` whenever this replica has the lease, and cancel it when the lease is lost; until cancelled."""
        self.want(name)
        try:
            while True:
                while (held := self.held(name)) is None:
                    await self.changed(name)
                async with self.using(held), Tasks(name) as tasks:
                    doing = tasks.start(work())
                    await asyncio.wait({doing, held.lost}, return_when=asyncio.FIRST_COMPLETED)
                    if not held.lost.done():
                        # The work ended early: it failed, which `Tasks` has logged.
                        await asyncio.wait({held.lost}, timeout=self.lease)
        finally:
            await self.unwant(name)

    # -- the loop

    def start(self, table: LeaseTable) -> None:
        """Use this table from now on."""
        self._table = table

    def look_now(self) -> None:
        """Look at the table now: a lease has a new holder or none."""
        self._wake.set()

    async def run(self, kept: KeptWork | None = None) -> None:
        """Renew and take leases until cancelled."""
        keep = (kept or KeptWork()).keep
        async with Tasks("leases") as tasks:
            tasks.start(keep("the watch on leases", self._keep_watch))
            tasks.start(keep("the news of leases", self._announce))
            await keep("the leases", self._renew_and_take)

    async def _renew_and_take(self) -> None:
        while True:
            self._wake.clear()
            if self._table is not None and self._candidates:
                with suppress(StorageError, TimeoutError):
                    async with asyncio.timeout(self.lease / 2):
                        await self._round(self._table)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_LOOK_EVERY, RENEW_EVERY * self.lease)):
                    await self._wake.wait()

    async def close(self) -> None:
        """Release every lease. Work under them must have ended."""
        self._closing = True
        held = {name: one.held.generation for name, one in self._candidates.items() if one.held is not None}
        for name in held:
            self._lose(self._candidates[name], "this replica ends")
        self._candidates.clear()
        await self._release(held)

    async def _release(self, held: Mapping[str, int]) -> None:
        if self._table is None or not held:
            return
        try:
            async with asyncio.timeout(self.lease / 2):
                await self._table.release(self.me, held)
                await self._table.announce()
        except (StorageError, TimeoutError) as error:
            log.info("%s could not be released and ends by itself: %s", ", ".join(held), error)

    async def _round(self, table: LeaseTable) -> None:
        await self._renew(table)
        names = [name for name, one in self._candidates.items() if one.held is None]
        if not names:
            return
        rows = await table.read(names)
        after = self._clock()
        for name in names:
            candidate = self._candidates.get(name)
            if candidate is not None and candidate.held is None:
                self._saw(candidate, rows.get(name), after)
                if candidate.observation.may_take(self._clock(), self.me) and not (candidate.in_use or self._closing):
                    await self._take(table, candidate)

    async def _renew(self, table: LeaseTable) -> None:
        held = {name: one.held for name, one in self._candidates.items() if one.held is not None}
        if not held:
            return
        sent = self._clock()
        generations = {name: one.generation for name, one in held.items()}
        renewed = await table.renew(self.me, generations, self._group_clock.now() + self.lease)
        for name, one in held.items():
            candidate = self._candidates.get(name)
            if candidate is None:
                continue
            if name not in renewed:
                self._lose(candidate, "another replica has it")
            elif one.good:
                one.renewed(sent)
            else:
                # Too late: the work under it has stopped. The lease is taken anew, in another generation.
                self._lose(candidate, "it was not renewed in time")

    async def _take(self, table: LeaseTable, candidate: _Candidate) -> None:
        sent = self._clock()
        taken = await table.take(candidate.name, self.me, candidate.row, self._group_clock.now() + self.lease)
        if self._candidates.get(candidate.name) is not candidate:
            if taken is not None:
                await self._release({candidate.name: taken.generation})
            return
        if taken is not None:
            candidate.held = HeldLease(candidate.name, taken.generation, OwnTime(self.lease, sent), self._clock)
            self._saw(candidate, taken, self._clock())
            log.info("this replica has %s now (generation %d)", candidate.name, taken.generation)
            self._call_listeners(candidate)
            self._announcing.set()

    async def _announce(self) -> None:
        """Announce taken leases to the others, which would see them with their next look."""
        while True:
            await self._announcing.wait()
            self._announcing.clear()
            if self._table is not None:
                with suppress(StorageError):
                    await self._table.announce()

    def _saw(self, candidate: _Candidate, row: LeaseRecord | None, after: float) -> None:
        before = candidate.row
        candidate.row = row
        candidate.observation.saw(row, after)
        owners = [(one.owner, one.generation) if one is not None else None for one in (before, row)]
        if owners[0] != owners[1]:
            self._call_listeners(candidate)

    def _lose(self, candidate: _Candidate, why: str) -> None:
        held, candidate.held = candidate.held, None
        if held is not None:
            log.log(logging.INFO if self._closing else logging.WARNING, "%s is given up: %s", candidate.name, why)
            held.lose(why)
            self._call_listeners(candidate)

    async def _keep_watch(self) -> None:
        """Lose each lease that was not renewed in time, however long the database takes."""
        while True:
            now = self._clock()
            held = [one for one in self._candidates.values() if one.held is not None]
            for one in held:
                if one.held is not None and not one.held.good:
                    self._lose(one, "it could not be renewed in time")
            ends = [one.held.time.stops for one in held if one.held is not None]
            await asyncio.sleep(min([0.25 * self.lease, *(max(0.01, end - now) for end in ends)]))

    def _call_listeners(self, candidate: _Candidate) -> None:
        for listener in list(candidate.listeners):
            listener()
