"""Limits that several replicas keep together: how far they can be overrun, and that none refuses too early."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import pytest

from aggregator.replicas.group.shared_usage import PATIENCE
from aggregator.storage.records import UsageRow
from tests.replicas.limit_simulation import (
    LEASE,
    Fault,
    SimulatedReplica,
    SimulatedTable,
    limit,
    simulated,
)

MINUTE: Final = 60.0
LIMITS: Final = (1, 2, 3, 5, 8, 12, 30, 60, 64, 65, 100)


def slice_of(most: int, count: int) -> int:
    """The calls by which one replica is ahead of the database, as docs/limits.md has it."""
    return max(1, most // (4 * count))


def share_of(most: int, count: int) -> int:
    """The calls of one replica while the database is away, as docs/limits.md has it."""
    return max(1, most // count)


def worst_minute(replicas: Sequence[SimulatedReplica], most: int, ahead: int) -> tuple[int, int]:
    """Return the calls of the fullest minute, and how many there may be: the limit, and `ahead` for each but one
    of the replicas that made them.
    """
    calls = sorted((at, number) for number, one in enumerate(replicas) for at in one.made)
    found, first = (0, most), 0
    for last, (at, _) in enumerate(calls):
        while calls[first][0] <= at - MINUTE:
            first += 1
        makers = {number for _, number in calls[first : last + 1]}
        found = max(found, (last + 1 - first, most + (len(makers) - 1) * ahead), key=lambda one: one[0] - one[1])
    return found


async def _make_calls(replica: SimulatedReplica, most: int, chance: random.Random, seconds: float) -> None:
    """Make calls as a host does that cares for no limit: in bursts, and with pauses."""
    until = asyncio.get_running_loop().time() + seconds
    wanted = limit("per_minute", most)
    while asyncio.get_running_loop().time() < until:
        burst = chance.randrange(1, most + 2)
        await asyncio.gather(*(replica.call(wanted) for _ in range(burst)))
        await asyncio.sleep(chance.choice([0.001, 0.1, 5.0, 20.0]))


@pytest.mark.parametrize("seed", range(24))
def test_a_limit_is_overrun_by_a_slice_for_each_other_replica_at_most(seed: int) -> None:
    """B6: however calls come, and however slow the database is, as long as it answers."""
    chance = random.Random(seed)  # noqa: S311 - one seed, so that it can be run again
    count, most = chance.randint(1, 5), chance.choice(LIMITS)

    async def work() -> None:
        # Four messages are one exchange.
        table = SimulatedTable(chance, ["slow"], slowest=PATIENCE / 5)
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(SimulatedReplica(table, count)) for _ in range(count)]
            await asyncio.gather(*(_make_calls(one, most, chance, 130.0) for one in replicas))
        assert not any(one.shared.problem for one in replicas)
        made, allowed = worst_minute(replicas, most, slice_of(most, count))
        assert made <= allowed
        assert sum(len(one.made) for one in replicas) >= 2 * most

    simulated(work())


@pytest.mark.parametrize("seed", range(24))
def test_whatever_is_lost_a_limit_is_overrun_by_a_share_at_most(seed: int) -> None:
    """B6: messages get lost or come late, the database is away, replicas are killed and come back."""
    chance = random.Random(seed)  # noqa: S311 - one seed, so that it can be run again
    count, most = chance.randint(2, 4), chance.choice(LIMITS)
    faults: list[Fault] = chance.choices(["slow", "lost", "late"], k=2)

    async def work() -> None:
        table = SimulatedTable(chance, faults)
        ever: list[SimulatedReplica] = []

        async def live() -> None:
            for _ in range(3):
                async with SimulatedReplica(table, count) as replica:
                    ever.append(replica)
                    await _make_calls(replica, most, chance, chance.uniform(5.0, 60.0))

        async def outages() -> None:
            for _ in range(4):
                await asyncio.sleep(chance.uniform(1.0, 40.0))
                table.away = not table.away

        await asyncio.gather(outages(), *(live() for _ in range(count)))
        made, allowed = worst_minute(ever, most, share_of(most, count))
        assert made <= allowed

    simulated(work())


@pytest.mark.parametrize("most", LIMITS)
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("everywhere", [False, True])
def test_no_call_is_refused_before_the_limit_is_reached(most: int, count: int, *, everywhere: bool) -> None:
    """B6: one call after another, at one replica or at each in turn: exactly as many as are allowed, every minute."""
    chance = random.Random(most * count)  # noqa: S311 - one seed, so that it can be run again

    async def work() -> None:
        table = SimulatedTable(chance, ["slow"], slowest=PATIENCE / 5)
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(SimulatedReplica(table, count)) for _ in range(count)]
            wanted = limit("per_minute", most)
            for _ in range(3):
                for number in range(most):
                    assert await replicas[number % count if everywhere else 0].call(wanted)
                if not everywhere:
                    assert not await replicas[0].call(wanted)
                await asyncio.sleep(MINUTE + 1.0)
            assert max(one.waited for one in replicas) <= 2 * PATIENCE

    simulated(work())


@pytest.mark.parametrize("count", [2, 3])
def test_places_of_concurrent_calls_are_used_everywhere_and_come_back(count: int) -> None:
    """B6: also those of a replica that was killed, after its lease."""
    chance = random.Random(count)  # noqa: S311 - one seed, so that it can be run again

    async def work() -> None:
        table = SimulatedTable(chance)
        wanted = limit("concurrent", 4)
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(SimulatedReplica(table, count)) for _ in range(count)]
            killed = await stack.enter_async_context(SimulatedReplica(table, count))
            calls = [asyncio.ensure_future(killed.call(wanted, lasts=1000.0)) for _ in range(4)]
            # Twice the lease: what runs keeps its place.
            await asyncio.sleep(2 * LEASE)
            first = replicas[0]
            # One more than there are places: it does not know of the others' yet.
            assert await first.call(wanted)
            await asyncio.sleep(1.0)
            assert not await first.call(wanted)
            await killed.__aexit__(None, None, None)
            assert not await first.call(wanted)
            await asyncio.sleep(LEASE + 1.0)
            for number in range(24):
                assert await replicas[number % count].call(wanted, lasts=0.001)
            for call in calls:
                call.cancel()

    simulated(work())


@pytest.mark.parametrize("count", [2, 3])
def test_places_that_calls_leave_are_free_elsewhere_at_once(count: int) -> None:
    """B6: long before the lease of who had them is over, also if their replica makes no further call."""
    chance = random.Random(count)  # noqa: S311 - one seed, so that it can be run again

    async def work() -> None:
        table = SimulatedTable(chance)
        wanted = limit("concurrent", 4)
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(SimulatedReplica(table, count)) for _ in range(count)]
            for one, other in zip(replicas, [*replicas[1:], replicas[0]], strict=True):
                calls = [asyncio.ensure_future(one.call(wanted, lasts=LEASE / 2)) for _ in range(4)]
                await asyncio.sleep(1.0)
                # One more than there are places, if it does not know of the others' yet.
                await other.call(wanted)
                await asyncio.sleep(1.0)
                assert not await other.call(wanted)
                assert await asyncio.gather(*calls) == [True] * 4
                # By then the replica has told the others.
                await asyncio.sleep(1.0)
                assert await asyncio.gather(*(other.call(wanted, lasts=0.001) for _ in range(4))) == [True] * 4

    simulated(work())


def test_each_replica_keeps_to_its_share_while_the_database_is_away_and_no_call_waits() -> None:
    """B6: 30 a minute are ten for each of three; afterwards the others are told of them."""
    chance = random.Random(0)  # noqa: S311 - one seed, so that it can be run again

    async def work() -> None:
        table = SimulatedTable(chance)
        wanted = limit("per_minute", 30)
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(SimulatedReplica(table, 3)) for _ in range(3)]
            table.away = True
            for one in replicas:
                assert await one.call(wanted)
            await asyncio.sleep(1.0)
            for one in replicas:
                assert [await one.call(wanted) for _ in range(11)] == [True] * 9 + [False] * 2
                assert one.waited == 0.0
            table.away = False
            await asyncio.sleep(2.0)
            await asyncio.gather(*(one.limits.learn(wanted) for one in replicas))
            assert [one.limits.left(wanted.counted[0]) for one in replicas] == [0, 0, 0]
            await asyncio.sleep(MINUTE)
            assert [await replicas[0].call(wanted) for _ in range(30)] == [True] * 30

    simulated(work())


def test_a_database_that_hangs_holds_up_the_calls_of_one_moment_alone() -> None:
    """B6: those that are ahead of it by a slice; then it counts as away."""

    async def work() -> None:
        stuck = asyncio.Event()

        class HangingTable(SimulatedTable):
            async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
                await stuck.wait()

        wanted = limit("per_minute", 12)
        async with SimulatedReplica(HangingTable(random.Random(0)), 3) as one:  # noqa: S311 - it is not used
            assert await one.call(wanted)
            assert one.waited == 0.0
            assert all(await asyncio.gather(*(one.call(wanted) for _ in range(3))))
            assert 0.0 < one.waited <= PATIENCE
            one.waited = 0.0
            assert not await one.call(wanted)
            assert one.waited == 0.0

    simulated(work())


def test_who_asks_while_a_report_is_lost_is_not_kept_waiting() -> None:
    """B6: with the end of the report on its way, those that would be in the next one go on too."""
    stuck = asyncio.Event()

    class HangingTable(SimulatedTable):
        async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
            await stuck.wait()

    async def work() -> None:
        wanted = limit("per_minute", 12)
        async with SimulatedReplica(HangingTable(random.Random(0)), 3) as one:  # noqa: S311 - it is not used
            assert await one.call(wanted)
            await asyncio.sleep(PATIENCE / 2)
            assert await one.call(wanted)
            assert 0.0 < one.waited <= PATIENCE

    simulated(work())


@pytest.mark.parametrize("most", LIMITS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_replicas_that_start_at_one_time_are_beyond_a_limit_by_one_call_each(most: int, count: int) -> None:
    """None of them knows of the others yet: each takes the smallest slice, however large its part looks to it."""
    chance = random.Random(count)  # noqa: S311 - one seed, so that it can be run again

    async def work() -> None:
        table = SimulatedTable(chance)
        async with AsyncExitStack() as stack:
            starting = [SimulatedReplica(table, 1, settled=False) for _ in range(count)]
            replicas = [await stack.enter_async_context(one) for one in starting]
            calls = (one.call(limit("per_minute", most)) for one in replicas for _ in range(most))
            await asyncio.gather(*calls)
        made, allowed = worst_minute(replicas, most, 1)
        assert made <= allowed
        assert sum(len(one.made) for one in replicas) >= most

    simulated(work())
