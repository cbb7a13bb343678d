"""The usage of limits as plain values, its clock moved by hand: what the others may not know of, at each moment."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from aggregator.replicas.group.shared_usage import SharedUsage
from aggregator.replicas.group.usage import MINUTE, CountedCalls, UsageLevel, UsageWindow
from aggregator.storage.records import UsageRow
from tests.replicas.limit_simulation import SimulatedReplica, SimulatedTable, simulated

LEASE = 10.0


def level(calls: int) -> UsageLevel:
    """A number of calls under way, all of which the others know of since 0."""
    made = UsageLevel("k", LEASE, leased=True)
    for _ in range(calls):
        made.add(0.0, 100)
    made.send(0.0)
    made.acknowledge(0.0, ())
    return made


def test_calls_under_way_are_unknown_until_the_report_of_them_was_answered() -> None:
    made = UsageLevel("k", LEASE)
    made.add(0.0, 100)
    assert made.unknown(0.0) == 1
    assert made.send(0.0) == (1, None)
    assert made.unknown(0.0) == 1
    made.acknowledge(0.5, ())
    assert made.unknown(0.5) == 0


def test_a_report_is_renewed_while_there_are_calls_to_count() -> None:
    made = UsageLevel("k", LEASE, leased=True)
    made.add(0.0, 100)
    made.send(0.0)
    made.acknowledge(0.5, ())
    assert [made.expires_before(when) for when in (LEASE, LEASE + 0.1)] == [False, True]
    made.remove()
    assert not made.expires_before(LEASE + 0.1)


def test_a_report_counts_from_when_it_was_sent_not_from_when_it_was_answered() -> None:
    """Its answer is late: the others forget the row a lease after it was written."""
    made = UsageLevel("k", LEASE)
    made.add(0.0, 100)
    made.send(0.0)
    made.acknowledge(4.0, ())
    assert made.unknown(LEASE - 0.1) == 0
    assert made.unknown(LEASE) == 1
    assert not made.expires_before(LEASE)
    assert made.expires_before(LEASE + 0.1)


@pytest.mark.parametrize(("ended", "begun", "unknown"), [(3, 0, 0), (3, 2, 2), (3, 3, 3), (0, 2, 2)])
def test_while_a_report_is_late_the_others_may_know_the_lower_number(ended: int, begun: int, unknown: int) -> None:
    """Calls that end, and others that begin before the report of the end was answered: either may be known."""
    made = level(5)
    for _ in range(ended):
        made.remove()
    made.send(1.0)
    for _ in range(begun):
        made.add(1.0, 100)
    assert made.unknown(2.0) == unknown
    made.acknowledge(4.0, ())
    assert made.unknown(4.0) == unknown
    assert made.stale == bool(begun)


def test_the_lowest_of_two_late_reports_counts() -> None:
    made = level(5)
    for _ in range(4):
        made.remove()
    made.send(1.0)
    for _ in range(3):
        made.add(1.0, 100)
    # The first was lost, or not: this one says more.
    made.send(2.0)
    assert made.unknown(2.0) == 3
    made.acknowledge(3.0, ())
    assert made.unknown(3.0) == 0


def test_calls_of_a_minute_that_come_while_a_report_is_under_way_are_unknown() -> None:
    made = UsageWindow("k")
    for _ in range(3):
        made.add(0.0, 100)
    made.send(0.0)
    made.add(0.1, 100)
    made.acknowledge(0.2, [CountedCalls(30.0, 4)])
    assert made.unknown(0.2) == 1
    assert made.used(29.9) == 8
    assert made.used(30.0) == 4
    assert made.used(MINUTE) == 1


class LateTable(SimulatedTable):
    """A table that writes the reports of `late` and holds back their answers until `answers` is set."""

    late: str | None = None

    def __init__(self) -> None:
        super().__init__(random.Random(0))  # noqa: S311 - one seed, so that it can be run again
        self.answers, self.written = asyncio.Event(), asyncio.Event()

    async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
        await super().report(replica, number, rows)
        if replica == self.late:
            self.written.set()
            await self.answers.wait()


async def take_place(shared: SharedUsage, usage: UsageLevel, most: int) -> bool:
    """Begin a call, if there is a place for it."""
    now = asyncio.get_running_loop().time
    for _ in range(3):
        if shared.has_room(usage, most, now()):
            usage.add(now(), most)
            shared.charged(usage, most, now())
            return True
        await shared.ask(usage)
    return False


@pytest.mark.parametrize("most", [4, 16])
def test_a_limit_of_calls_under_way_holds_while_the_report_of_ended_ones_is_late(most: int) -> None:
    """The others have heard that they ended, and taken the places: this replica must not fill them again unasked."""

    async def work() -> None:
        table = LateTable()
        async with SimulatedReplica(table, 2) as here, SimulatedReplica(table, 2) as there:
            mine, theirs = here.shared.level("calls"), there.shared.level("calls")
            while await take_place(here.shared, mine, most):
                pass
            assert mine.calls == most
            await here.shared.ask(mine)
            table.late = here.shared._membership.id
            for _ in range(most - 1):
                mine.remove()
            here.shared.given_back(mine)
            await table.written.wait()
            while await take_place(there.shared, theirs, most):
                pass
            assert theirs.calls == most - 1
            while here.shared.has_room(mine, most, asyncio.get_running_loop().time()):
                mine.add(0.0, most)
            assert mine.calls + theirs.calls <= most + here.shared.slice_of(most)
            table.answers.set()

    simulated(work())
