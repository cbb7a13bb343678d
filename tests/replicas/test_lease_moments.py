"""Leases at single moments, in made up time: late answers, leases that are not wanted any more, and the end.

The table is one in memory, whose answers the test holds back.
"""

import asyncio
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.lease_rules import RENEW_EVERY, STOPS_AFTER, Observation, OwnTime
from aggregator.replicas.group.leases import HeldLease, Leases, awake_and_asleep
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import LeaseRecord
from tests import ON_WINDOWS
from tests.replicas.limit_simulation import simulated

LEASE: Final = 10.0
# Longer than between two looks of a replica.
LOOK: Final = 1.5


class MemoryTable:
    """The table of leases. While `answers` is clear, what was written is written, and its answer is on its way."""

    def __init__(self) -> None:
        self.rows: dict[str, LeaseRecord] = {}
        self.answers = asyncio.Event()
        self.answers.set()
        self.away = self.silent = False
        self.announced = 0
        # When renewals arrived.
        self.sent: list[float] = []

    async def read(self, names: Collection[str]) -> Mapping[str, LeaseRecord]:
        self._check()
        return {name: self.rows[name] for name in names if name in self.rows}

    async def take(self, name: str, owner: str, seen: LeaseRecord | None, until: float) -> LeaseRecord | None:
        self._check()
        if self.rows.get(name) != seen:
            return None
        taken = LeaseRecord(name, owner, seen.generation + 1 if seen is not None else 1, 0, until)
        self.rows[name] = taken
        await self.answers.wait()
        return taken

    async def renew(self, owner: str, held: Mapping[str, int], until: float) -> frozenset[str]:
        self._check()
        self.sent.append(now())
        mine = [name for name in held if self._is_of(owner, name, held[name])]
        for name in mine:
            self.rows[name] = replace(self.rows[name], renewals=self.rows[name].renewals + 1, until=until)
        await self.answers.wait()
        return frozenset(mine)

    async def release(self, owner: str, held: Mapping[str, int]) -> None:
        self._check()
        for name in held:
            if self._is_of(owner, name, held[name]):
                self.rows[name] = replace(self.rows[name], owner=None)

    async def announce(self) -> None:
        if self.silent:
            raise StorageBusy("The database takes no announcements.")
        self.announced += 1

    def _is_of(self, owner: str, name: str, generation: int) -> bool:
        row = self.rows.get(name)
        return row is not None and (row.owner, row.generation) == (owner, generation)

    def _check(self) -> None:
        if self.away:
            raise StorageBusy("The database is away.")


def replica(name: str, table: MemoryTable, tasks: Tasks) -> Leases:
    clock = asyncio.get_running_loop().time
    leases = Leases(name, LEASE, GroupClock(clock), clock)
    leases.start(table)
    tasks.start(leases.run())
    return leases


def now() -> float:
    return asyncio.get_running_loop().time()


def owner(table: MemoryTable, name: str = "thing") -> str | None:
    return table.rows[name].owner


async def taken(leases: Leases, name: str = "thing") -> HeldLease:
    leases.want(name)
    await asyncio.sleep(LOOK)
    held = leases.held(name)
    assert held is not None
    return held


def test_a_lease_that_is_given_up_is_free_for_others_at_once() -> None:
    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            first, second = replica("first", table, tasks), replica("second", table, tasks)
            held, other = await taken(first), await taken(first, "other")
            second.want("thing")
            await asyncio.sleep(LOOK)
            assert second.held("thing") is None
            await first.unwant("thing")
            assert not held.good
            assert held.lost.done()
            assert other.good
            await asyncio.sleep(LOOK)
            assert second.held("thing") is not None
            assert (owner(table), owner(table, "other")) == ("second", "first")

    simulated(work())


def test_leases_are_announced_again_after_the_database_was_away(caplog: pytest.LogCaptureFixture) -> None:
    """The others see a lease that is not announced with their next look only; that is no bug of ours."""

    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            first = replica("first", table, tasks)
            table.silent = True
            await taken(first)
            assert table.announced == 0
            table.silent = False
            await taken(first, "other")
            assert table.announced == 1

    simulated(work())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("again", [False, True])
def test_a_lease_that_is_not_wanted_any_more_is_not_kept(again: bool) -> None:
    """The answer to the taking of it comes after it was given up; and perhaps it is wanted anew by then."""

    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            first, second = replica("first", table, tasks), replica("second", table, tasks)
            table.answers.clear()
            first.want("thing")
            await asyncio.sleep(0.1)
            assert owner(table) == "first"
            await first.unwant("thing")
            if again:
                first.want("thing")
            table.answers.set()
            await asyncio.sleep(0.1)
            held = first.held("thing")
            assert held is None or held.generation > 1
            if not again:
                assert owner(table) is None
                second.want("thing")
                await asyncio.sleep(LOOK)
                assert second.held("thing") is not None

    simulated(work())


def test_a_replica_that_ends_gives_all_up_and_takes_none() -> None:
    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            first, second = replica("first", table, tasks), replica("second", table, tasks)
            held, other = await taken(first), await taken(first, "other")
            announced = table.announced
            await first.close()
            assert [one.good for one in (held, other)] == [False, False]
            assert (owner(table), owner(table, "other")) == (None, None)
            assert table.announced > announced, "the others hear of it"
            # What still runs here asks for it again.
            first.want("thing")
            await asyncio.sleep(LOOK)
            assert first.held("thing") is None
            assert owner(table) is None
            await taken(second)

    simulated(work())


def test_a_lease_counts_from_when_its_renewal_was_sent() -> None:
    """The answer came late: for the others the lease ends as if it had come at once."""

    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            leases = replica("first", table, tasks)
            held = await taken(leases)
            table.answers.clear()
            before = len(table.sent)
            await asyncio.sleep(3.0)
            assert len(table.sent) == before + 1
            sent = table.sent[-1]
            assert now() - sent > 1.5
            assert held.good
            assert held.time.began < sent
            table.answers.set()
            await asyncio.sleep(0.01)
            assert held.time.began == sent
            table.away = True
            told: list[bool] = []
            leases.on_changed("thing", lambda: told.append(leases.held("thing") is not None))
            await asyncio.sleep(sent + STOPS_AFTER * LEASE - 0.05 - now())
            assert (held.good, told) == (True, [])
            assert leases.held("thing") is held
            await asyncio.sleep(0.1)
            assert not held.good
            assert leases.held("thing") is None
            assert held.lost.done()
            assert told == [False], "who waits for the lease is told, although no table says so"

    simulated(work())


@pytest.mark.parametrize(("change", "kept"), [({"owner": "other"}, False), ({"generation": 9}, False), ({}, True)])
def test_a_lease_that_the_table_says_is_anothers_is_lost_at_the_next_renewal(
    change: dict[str, object], kept: bool
) -> None:
    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            leases = replica("first", table, tasks)
            held = await taken(leases)
            told: list[bool] = []
            leases.on_changed("thing", lambda: told.append(leases.held("thing") is not None))
            table.rows["thing"] = replace(table.rows["thing"], **change)  # type: ignore[arg-type]
            await asyncio.sleep(RENEW_EVERY * LEASE + 0.1)
            assert held.good is kept
            assert held.lost.done() is not kept
            assert told[:1] == ([] if kept else [False])

    simulated(work())


def test_a_lease_is_not_taken_again_while_the_work_under_it_runs() -> None:
    """Else two would do it at once; it is taken as soon as that work has ended."""

    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            leases = replica("first", table, tasks)
            held = await taken(leases)
            async with leases.using(held):
                table.rows["thing"] = replace(table.rows["thing"], owner="other", generation=9)
                await asyncio.sleep(RENEW_EVERY * LEASE + 0.1)
                assert held.lost.done()
                table.rows["thing"] = replace(table.rows["thing"], owner=None)
                await asyncio.sleep(2 * LOOK)
                assert leases.held("thing") is None
            await asyncio.sleep(0.01)
            assert leases.held("thing") is not None

    simulated(work())


def test_work_that_fails_is_not_begun_again_at_once() -> None:
    """It is tried once in the time of a lease, by the owner, and ends when the lease is lost."""

    async def work() -> None:
        begun: list[float] = []

        async def fail() -> None:
            begun.append(now())
            raise ZeroDivisionError("a bug")

        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            leases = replica("first", table, tasks)
            doing = asyncio.create_task(leases.run_alone("thing", fail))
            await asyncio.sleep(2.5 * LEASE)
            assert 1 < len(begun) <= 3
            assert all(after - before >= LEASE for before, after in pairwise(begun))
            doing.cancel()
            with suppress(asyncio.CancelledError):
                await doing
            assert owner(table) is None, "it is given up with the work"

    simulated(work())


def test_a_replica_that_was_halted_for_long_has_no_lease_at_once() -> None:
    """The machine slept, or the process was stopped: it is looked at before any task of the leases runs."""

    async def work() -> None:
        ahead = 0.0

        def clock() -> float:
            return now() + ahead

        async with Tasks("replicas") as tasks:
            leases = Leases("first", LEASE, GroupClock(clock), clock)
            leases.start(MemoryTable())
            tasks.start(leases.run())
            held = await taken(leases)
            began = held.time.began
            ahead = began + STOPS_AFTER * LEASE - 0.1 - now()
            assert leases.held("thing") is held
            ahead += 0.1
            assert leases.held("thing") is None
            assert not held.good

    simulated(work())


# -- the rules


def test_the_time_of_an_owner_never_goes_back() -> None:
    """Answers may come in another order than what they answer was sent in."""
    time = OwnTime(LEASE, 100.0)
    time.renewed(104.0)
    time.renewed(102.0)
    assert time.stops == 104.0 + STOPS_AFTER * LEASE
    assert time.stops < 104.0 + LEASE


def row(owner: str | None, generation: int = 1, renewals: int = 0) -> LeaseRecord:
    return LeaseRecord("thing", owner, generation, renewals, 0.0)


@pytest.mark.parametrize(
    ("rows", "free"),
    [
        ([], "never"),
        ([None], "at once"),
        ([row(None)], "at once"),
        ([row("me")], "at once"),
        ([row("other")], "after a lease"),
        ([row("other"), row("other")], "after a lease of the first"),
        ([row("other"), row("other", renewals=1)], "after a lease"),
        ([row("other"), row("third", 2)], "after a lease"),
        ([row("other", 2), row(None, 2)], "at once"),
        ([row("other", 2), row(None, 1)], "after a lease"),
        ([row("other", 2), row("me", 1)], "after a lease"),
        ([row("other", 2), None], "after a lease"),
        ([row("other", 2), None, row(None, 3)], "at once"),
    ],
)
def test_when_a_lease_may_be_taken(rows: list[LeaseRecord | None], free: str) -> None:
    seen = Observation(LEASE)
    for number, one in enumerate(rows):
        seen.saw(one, float(number))
    last = float(len(rows) - 1)
    since = {"at once": last, "after a lease": last + LEASE, "after a lease of the first": LEASE, "never": 1e9}[free]
    assert not seen.may_take(since - 0.1, "me") or free == "at once"
    assert seen.may_take(since, "me") is (free != "never")


@pytest.mark.skipif(sys.platform == "win32" or ON_WINDOWS, reason="its one clock runs on while the machine sleeps")
def test_the_clock_of_leases_runs_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that wakes up does not believe that it still holds what others have taken meanwhile."""
    sleeps = time.CLOCK_MONOTONIC if sys.platform == "darwin" else time.CLOCK_BOOTTIME
    clocks = {sleeps: 50.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: 1.0)
    before = awake_and_asleep()
    clocks[sleeps] += 3_600
    assert awake_and_asleep() - before == 3_600


def test_a_lease_counts_from_before_it_was_asked_for() -> None:
    """However long the answer takes: another replica counts from when it saw the lease."""

    async def work() -> None:
        async with Tasks("replicas") as tasks:
            table = MemoryTable()
            table.answers.clear()
            leases = replica("first", table, tasks)
            asked = now()
            leases.want("thing")
            await asyncio.sleep(LEASE * 0.4)
            assert (owner(table), leases.held("thing")) == ("first", None)
            table.answers.set()
            await asyncio.sleep(0.01)
            held = leases.held("thing")
            assert held is not None
            assert held.time.stops == asked + STOPS_AFTER * LEASE

    simulated(work())
