"""A server that stops, hangs and comes back: nothing waits without end, and what was refused works again by itself."""

import asyncio

import pytest

from aggregator.storage.database import open_database
from aggregator.storage.engine import postgres_connections
from aggregator.storage.errors import StorageBusy, StorageError
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.storage.processes import other_process

# The bounds of these tests; the next one is what a test waits for at most.
SHORT = 0.3
PATIENCE = 8.0


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test can wait for."""
    monkeypatch.setattr(postgres_connections, "STATEMENT", SHORT)
    monkeypatch.setattr(postgres_connections, "_LOOK", SHORT)
    monkeypatch.setattr(postgres_connections, "_CLOSING", SHORT)


def key(key_id: str) -> KeyRecord:
    return KeyRecord(key_id, "bot", "h")


async def ids(database: Database) -> list[str]:
    return sorted(found.key_id for found in await database.keys.all())


async def comes_back(database: Database) -> None:
    async def reads() -> bool:
        try:
            await database.keys.all()
        except StorageBusy:
            return False
        return True

    await until(reads, "the database is read again")


async def test_a_restart_is_not_noticed(postgres_cluster: Cluster, postgres_url: str) -> None:
    """Free connections that broke meanwhile are made anew before one is used."""
    async with open_database(postgres_url) as database:
        await asyncio.gather(*(database.keys.add(key(f"k{number}")) for number in range(4)))
        await asyncio.to_thread(postgres_cluster.restart)
        assert len(await ids(database)) == 4
        await database.keys.add(key("after"))
        assert "after" in await ids(database)


async def test_a_server_that_is_away(postgres_cluster: Cluster, postgres_url: str) -> None:
    """Told at once, of everything that is asked; and it works again as soon as the server does."""
    async with open_database(postgres_url) as database:
        await database.keys.add(key("before"))
        await asyncio.to_thread(postgres_cluster.stop)
        for _ in range(3):
            with pytest.raises(StorageBusy, match="cannot be used now"):
                await database.keys.all()
            with pytest.raises(StorageBusy, match="cannot be used now"):
                await database.keys.add(key("refused"))
            with pytest.raises(StorageBusy, match="cannot be used now"):
                await database.engine.write_in_thread(lambda connection: None)
        with pytest.raises(StorageBusy, match="Connection refused"):
            async with open_database(postgres_url):
                pass
        await asyncio.to_thread(postgres_cluster.start)
        await comes_back(database)
        await database.keys.add(key("after"))
        assert await ids(database) == ["after", "before"]


async def test_a_crash_in_the_middle(postgres_cluster: Cluster, postgres_url: str) -> None:
    """A transaction under way is not written, and is told so."""

    async def write(database: Database) -> None:
        async with database.engine.write("keys") as connection:
            await connection.exec_driver_sql("INSERT INTO shared_keys VALUES ('lost', 'x', 1)")
            await asyncio.to_thread(postgres_cluster.restart)
            await connection.exec_driver_sql("INSERT INTO shared_keys VALUES ('lost too', 'x', 1)")

    async with open_database(postgres_url) as database:
        with pytest.raises(StorageBusy):
            await write(database)
        async with database.engine.read() as reading:
            assert (await reading.exec_driver_sql("SELECT count(*) FROM shared_keys")).scalar_one() == 0


@pytest.mark.usefixtures("_hasty")
async def test_a_server_that_hangs(postgres_cluster: Cluster, postgres_database: str) -> None:
    """Each statement has its time, also where connections are open and nothing answers; closing has too."""
    url = postgres_cluster.url(postgres_database, connect_timeout=str(SHORT))
    async with open_database(url) as database:
        await database.keys.add(key("before"))
        await asyncio.to_thread(postgres_cluster.freeze)
        try:
            async with asyncio.timeout(2 * PATIENCE):
                for _ in range(2):
                    with pytest.raises(StorageBusy, match="in time"):
                        await database.keys.all()
                    with pytest.raises(StorageBusy, match=r"in time|waits to be written"):
                        await database.keys.add(key("refused"))
                with pytest.raises(StorageBusy, match="in time"):
                    async with open_database(url):
                        pass
        finally:
            await asyncio.to_thread(postgres_cluster.thaw)
        await comes_back(database)
        await database.keys.add(key("after"))
        assert "after" in await ids(database)
        await asyncio.to_thread(postgres_cluster.freeze)
        try:
            async with asyncio.timeout(PATIENCE):
                await database.close()
        finally:
            await asyncio.to_thread(postgres_cluster.thaw)


async def test_a_process_that_stands_still_holds_up_no_other(postgres_url: str) -> None:
    """What it had begun is undone by the server after a while, and its locks are free again."""
    script = """
        from aggregator.storage.engine import postgres_connections
        postgres_connections._IDLE = 0.5
        async with open_database(url) as database:
            async with database.engine.write("keys") as connection:
                await connection.exec_driver_sql("INSERT INTO shared_keys VALUES ('lost', 'x', 1)")
                await connection.exec_driver_sql("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
                say("holding")
                hear()
            say("unreachable")
    """
    async with open_database(postgres_url) as database:
        with other_process(postgres_url, script) as process:
            assert await asyncio.to_thread(process.read) == "holding"
            async with asyncio.timeout(PATIENCE):
                await database.keys.add(key("mine"))
            assert await ids(database) == ["mine"]


async def test_a_lock_that_is_never_freed(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connections, "_LOCK", SHORT)
    async with open_database(postgres_url) as one, open_database(postgres_url) as other:
        async with other.engine.write() as connection:
            await connection.exec_driver_sql("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StorageBusy, match="kept locked"):
                await one.keys.add(key("k"))
            with pytest.raises(StorageBusy, match="kept locked"):
                await one.keys.all()
        await one.keys.add(key("k"))


async def test_no_connection_is_free_at_the_server(postgres_cluster: Cluster, postgres_database: str) -> None:
    postgres_cluster.sql(f"ALTER DATABASE {postgres_database} CONNECTION LIMIT 1")
    async with open_database(postgres_cluster.url(postgres_database)) as database:
        async with database.engine.read():
            with pytest.raises(StorageError, match="cannot be used now"):
                await database.keys.all()
        assert await database.keys.all() == []
