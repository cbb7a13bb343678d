"""Leases over one SQLite file: taken by one, renewed, handed over, and stopped in time while the database is away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.domain.bounds.kept_work import Work
from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.leases import Leases
from aggregator.replicas.storage import LeaseRows
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageBusy
from aggregator.storage.opening import Database
from aggregator.storage.records import LeaseRecord
from tests.polling import until

LEASE = 2.0


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(f"sqlite:///{tmp_path / 'shared.db'}") as opened:
        yield opened


class FailingTable(LeaseRows):
    """The table of leases, which can be made to refuse everything."""

    away = False
    reads = 0

    async def read(self, names: object) -> dict[str, LeaseRecord]:
        self._check()
        self.reads += 1
        return await super().read(names)  # type: ignore[arg-type]

    async def renew(self, owner: str, held: object, until: float) -> frozenset[str]:
        self._check()
        return await super().renew(owner, held, until)  # type: ignore[arg-type]

    def _check(self) -> None:
        if self.away:
            raise StorageBusy("The database is away.")


def replica(name: str, database: Database, tasks: Tasks, table: LeaseRows | None = None) -> Leases:
    leases = Leases(name, LEASE, GroupClock())
    leases.start(table or database.leases("main"))
    tasks.start(leases.run())
    return leases


async def test_one_of_several_has_it_and_another_when_it_is_released(database: Database) -> None:
    async with Tasks("replicas") as tasks:
        replicas = [replica(f"r{number}", database, tasks) for number in range(3)]
        for one in replicas:
            one.want("thing")
        await until(lambda: sum(one.held("thing") is not None for one in replicas) == 1)
        owner = next(one for one in replicas if one.held("thing"))
        others = [one for one in replicas if one is not owner]
        first = owner.held("thing")
        assert first is not None
        await owner.close()
        assert not first.good
        for one in others:
            one.look_now()
        await until(lambda: any(one.held("thing") for one in others))
        second = next(held for one in others if (held := one.held("thing")) is not None)
        assert second.generation == first.generation + 1


async def test_an_owner_stops_before_another_begins_when_its_database_is_away(database: Database) -> None:
    table = FailingTable(database.engine, "main")
    doing: list[str] = []

    def work(name: str) -> Work:
        async def do() -> None:
            assert doing == []
            doing.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                doing.remove(name)

        return do

    async with Tasks("replicas") as tasks:
        first = replica("first", database, tasks, table)
        tasks.start(first.run_alone("thing", work("first")))
        await until(lambda: doing == ["first"])
        second = replica("second", database, tasks)
        tasks.start(second.run_alone("thing", work("second")))
        second.want("thing")
        await second.changed("thing")
        table.away = True
        await until(lambda: doing == ["second"])
        assert first.held("thing") is None
        table.away = False
        seen = asyncio.Event()
        first.on_changed("thing", seen.set)
        first.look_now()
        await seen.wait()
        assert doing == ["second"]


async def test_a_lease_is_not_taken_again_while_its_old_work_still_ends(database: Database) -> None:
    """Its time was over while the database was away, and no other replica wants it; the clock is moved by hand."""
    table = FailingTable(database.engine, "main")
    now, begun, ending, may_end = 1_000.0, 0, asyncio.Event(), asyncio.Event()

    def clock() -> float:
        return now

    async def work() -> None:
        nonlocal begun
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()

    async def looks(times: int) -> None:
        for _ in range(times):
            table.reads = 0
            leases.look_now()
            await until(lambda: table.reads > 0)

    async with Tasks("replicas") as tasks:
        leases = Leases("first", LEASE, GroupClock(clock), clock)
        leases.start(table)
        tasks.start(leases.run())
        tasks.start(leases.run_alone("thing", work))
        await until(lambda: begun == 1)
        first = leases.held("thing")
        assert first is not None
        table.away = True
        now += LEASE
        leases.look_now()
        await until(ending.is_set)
        table.away = False
        # By its own clock and by that of the group the lease is free for anyone.
        now += 10 * LEASE
        await looks(3)
        assert leases.held("thing") is None
        assert (await database.leases("main").read(["thing"]))["thing"].generation == first.generation
        may_end.set()
        await until(lambda: begun == 2)
        second = leases.held("thing")
        assert second is not None
        assert second.generation == first.generation + 1
        leases.look_now()


async def test_a_take_whose_answer_was_lost_is_made_good(database: Database) -> None:
    async with Tasks("replicas") as tasks:
        rows = database.leases("main")
        assert await rows.take("thing", "first", None, 0.0) is not None
        first = replica("first", database, tasks)
        first.want("thing")
        await until(lambda: first.held("thing") is not None)
        held = first.held("thing")
        assert held is not None
        assert held.generation == 2


async def test_only_the_row_that_was_seen_is_taken(database: Database) -> None:
    rows = database.leases("main")
    first = await rows.take("thing", "a", None, 0.0)
    assert first is not None
    assert await rows.take("thing", "b", None, 0.0) is None
    assert await rows.renew("a", {"thing": 1}, 1.0) == {"thing"}
    assert await rows.take("thing", "b", first, 0.0) is None
    assert await rows.renew("b", {"thing": 1}, 1.0) == frozenset()
    assert await rows.renew("a", {"thing": 2}, 1.0) == frozenset()
    seen = (await rows.read(["thing"]))["thing"]
    assert seen.renewals == 1
    await rows.release("a", {"thing": 1})
    assert await rows.take("thing", "b", seen, 0.0) is None
    released = (await rows.read(["thing"]))["thing"]
    assert released.owner is None
    assert await rows.take("thing", "b", released, 0.0) is not None


async def test_groups_have_leases_of_their_own(database: Database) -> None:
    one, other = database.leases("one"), database.leases("other")
    assert await one.take("thing", "a", None, 0.0) is not None
    assert await other.take("thing", "b", None, 0.0) is not None
    assert {name: lease.owner for name, lease in (await one.read(["thing"])).items()} == {"thing": "a"}
