"""Changes are told: a process that waits hears of them at once, and goes on by itself where nothing is heard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aggregator.replicas.group import replication
from aggregator.replicas.group.replication import ChangesTail
from aggregator.storage.database import open_database
from aggregator.storage.engine import postgres_wake
from aggregator.storage.opening import Database
from aggregator.storage.records import Change, KeyRecord
from tests.polling import until
from tests.postgres.cluster import Cluster


@asynccontextmanager
async def tailing(database: Database, found: list[Change]) -> AsyncIterator[ChangesTail]:
    tail = ChangesTail()
    tail.listen("thing", found.append)
    await tail.start(database.changes)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(tail.run()), tasks.create_task(tail.run_wakes())]
        yield tail
        for task in running:
            task.cancel()


def listeners(cluster: Cluster) -> int:
    return int(cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%aggregator_changes%'")) - 1


async def test_a_change_is_heard_of_at_once(
    postgres_cluster: Cluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here without looks in between; also after the connection broke, and of what was written while it was."""
    monkeypatch.setattr(replication, "LOOK_EVERY", 3600.0)
    monkeypatch.setattr(replication, "_AFTER_A_FAULT", 0.1)
    monkeypatch.setattr(postgres_wake, "_AGAIN", 0.05)
    here: list[Change] = []
    there: list[Change] = []
    databases = open_database(postgres_url), open_database(postgres_url)
    async with databases[0] as one, databases[1] as other, tailing(one, here), tailing(other, there):
        await until(lambda: listeners(postgres_cluster) == 2)
        await one.changes.publish("thing", {"n": 1})
        await until(lambda: len(here) == len(there) == 1)
        await asyncio.to_thread(postgres_cluster.restart)
        await one.changes.publish("thing", {"n": 2})
        await until(lambda: len(here) == len(there) == 2)
        assert [change.body for change in there] == [{"n": 1}, {"n": 2}]


async def test_many_changes_are_few_words(postgres_cluster: Cluster, postgres_url: str) -> None:
    """A word takes a lock of the whole database when it is committed."""
    words = 0

    def count() -> None:
        nonlocal words
        words += 1

    async with open_database(postgres_url) as database, asyncio.TaskGroup() as tasks:
        hearing = tasks.create_task(database.changes.run_wakes(count))
        await until(lambda: words == 1)
        for number in range(50):
            await database.changes.publish("thing", {"n": number})
        await until(lambda: words > 1)
        assert words < 25
        hearing.cancel()


async def test_a_pooler_carries_no_word(postgres_cluster: Cluster, postgres_database: str) -> None:
    """Looks find what is new all the same."""
    found: list[Change] = []
    async with open_database(postgres_cluster.url(postgres_database, pgbouncer="true")) as database:
        await database.changes.run_wakes(lambda: pytest.fail("nothing can be heard"))
        async with tailing(database, found), open_database(postgres_cluster.url(postgres_database)) as other:
            await other.keys.add(KeyRecord("k", "bot", "h"))
            await other.changes.publish("thing")
            await until(lambda: len(found) == 1)
