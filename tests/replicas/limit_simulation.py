"""Replicas that share limits, simulated: the database is slow and loses messages, replicas die; time is made up.

Rule: all that is random comes from one seed.
"""

import asyncio
import random
import selectors
from collections import defaultdict
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from aggregator.domain.errors import OverLimit
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.policy.limits import Limit, LimitKind, Limits
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.membership import Membership, OnReplicasChanged
from aggregator.replicas.group.shared_usage import SharedUsage
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import UsageRow

LEASE: Final = 6.0
Fault = Literal["slow", "lost", "late"]


class MadeUpTime(asyncio.SelectorEventLoop):
    """An event loop that waits for nothing: its clock goes on to what is due next."""

    def __init__(self) -> None:
        super().__init__(_Selector(self))
        self.now = 1000.0

    def time(self) -> float:
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: MadeUpTime) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if timeout and not found:
            self._loop.now += timeout
        return found


def simulated(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, in made up time."""
    with asyncio.Runner(loop_factory=MadeUpTime) as runner:
        runner.run(work)


class SimulatedTable:
    """The table of usage. `faults`: what happens to a message; each is as likely as that nothing does."""

    def __init__(self, chance: random.Random, faults: Sequence[Fault] = (), slowest: float = 1.2) -> None:
        self.rows: dict[tuple[str, str], tuple[int, UsageRow]] = {}
        self.away = False
        self._chance = chance
        self._slowest = slowest
        self._faults: list[Fault | None] = [None, *faults]
        self._late: set[asyncio.Task[None]] = set()

    async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
        fault = await self._way()
        if fault == "late":
            self._late.add(asyncio.ensure_future(self._write_late(replica, number, rows)))
            raise StorageBusy("lost")
        self._write(replica, number, rows)
        await self._way()

    async def of_others(self, replica: str, counters: Collection[str], now: float) -> Mapping[str, Sequence[UsageRow]]:
        await self._way()
        found: defaultdict[str, list[UsageRow]] = defaultdict(list)
        for (counter, owner), (_, row) in self.rows.items():
            if counter in counters and owner != replica and row.expires > now:
                found[counter].append(row)
        await self._way()
        return found

    async def _way(self) -> Fault | None:
        """Be one message on its way to the database, or back."""
        if self.away:
            raise StorageBusy("away")
        fault = self._chance.choice(self._faults)
        await asyncio.sleep(self._chance.uniform(0.0005, 0.02 if fault is None else self._slowest))
        if fault == "lost":
            raise StorageBusy("lost")
        return fault

    async def _write_late(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
        await asyncio.sleep(self._chance.uniform(0.1, 5.0))
        self._write(replica, number, rows)

    def _write(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
        for row in rows:
            known = self.rows.get((row.counter, replica))
            if known is None or known[0] < number:
                self.rows[row.counter, replica] = number, row


class _CountedMembership(Membership):
    """A group of so many replicas, whichever those are."""

    def __init__(self, clock: GroupClock, count: int, *, settled: bool) -> None:
        super().__init__(clock, LEASE)
        self._of = count
        self.settled = settled

    @property
    def count(self) -> int:
        return self._of

    def on_changed(self, listener: OnReplicasChanged) -> None:
        listener()


class SimulatedReplica:
    """One replica; `made` are the times of the calls that it let through. It knows of `count` replicas; one that is not
    `settled` does not know which others came when it did.
    """

    def __init__(self, table: SimulatedTable, count: int, *, settled: bool = True) -> None:
        loop = asyncio.get_running_loop()
        clock = GroupClock(loop.time)
        # What its own clock shows is of no matter: the group's is measured.
        clock.measure(loop.time(), loop.time() + 1e9, loop.time())
        self.shared = SharedUsage("main", _CountedMembership(clock, count, settled=settled), clock)
        self.shared.on = True
        self.limits = RateLimits(self.shared)
        self.made: list[float] = []
        self.running = 0
        self.waited = 0.0
        self._table = table

    async def __aenter__(self) -> "SimulatedReplica":
        self._running = self.shared.running()
        with suppress(StorageBusy):
            await self.shared.start(self._table)
        await self._running.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.__aexit__(None, None, None)

    async def call(self, limits: Limits, conversation: str | None = None, lasts: float = 0.0) -> bool:
        """Make one call; return whether it was let through."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            charge = await self.limits.charge("t", limits, conversation)
        except OverLimit:
            return False
        finally:
            self.waited = max(self.waited, loop.time() - begun)
        with charge:
            self.made.append(loop.time())
            self.running += 1
            if lasts:
                await asyncio.sleep(lasts)
            self.running -= 1
        return True


def limit(kind: LimitKind, most: int) -> Limits:
    """Return one limit."""
    return Limits((Limit(kind, most, ("agent", kind, "owner", "*"), "rule", "source"),))
