"""The tables on a real server: made, migrated from every revision, and by several processes at once."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import inspect, text

from aggregator.storage.database import open_database
from aggregator.storage.engine import migrate
from aggregator.storage.errors import StorageBusy, StorageTooNew, StorageTooOld
from aggregator.storage.locate import full_url
from aggregator.storage.records import KeyRecord
from aggregator.storage.tables import REVISION
from tests.postgres.cluster import Cluster
from tests.storage.next_revision import add_next_revision
from tests.storage.processes import other_process
from tests.storage.test_migrations import REVISIONS, _differences

_OPEN: Final = """
    say("ready")
    hear()
    async with open_database(url) as database:
        await database.keys.add(KeyRecord(str(__import__("os").getpid()), "bot", "h"))
        say("done")
"""
_WITH_NEXT: Final = """
    from pathlib import Path
    from aggregator.storage import opening
    from tests.storage.next_revision import add_next_revision
    add_next_revision(Path({folder!r}))
"""
# All that a catalog of the server knows of our tables but the order of their columns.
_CATALOG: Final = (
    "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default "
    "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "SELECT * FROM audit_heads ORDER BY 1",
)


async def _upgrade(url: str, revision: str) -> None:
    await asyncio.to_thread(migrate.upgrade, full_url(url), None, revision)


def _catalog(cluster: Cluster, database: str) -> list[list[str]]:
    return [cluster.sql(query, database).splitlines() for query in _CATALOG]


@pytest.fixture
def second_database(postgres_cluster: Cluster, postgres_database: str) -> Iterator[str]:
    name = postgres_cluster.new_database()
    yield name
    postgres_cluster.drop_database(name)


@pytest.mark.parametrize("first", [None, *REVISIONS])
async def test_every_way_up_leads_to_the_tables(postgres_url: str, first: str | None) -> None:
    if first is not None:
        await _upgrade(postgres_url, first)
    async with open_database(postgres_url) as database, database.engine.read() as connection:
        assert await connection.run_sync(_differences) == []
        constraints = await connection.run_sync(lambda sync: inspect(sync).get_check_constraints("approvals"))
    assert [constraint["name"] for constraint in constraints] == ["ck_approvals_status"]


async def test_a_new_database_is_made_as_the_migrations_make_it(
    postgres_cluster: Cluster, postgres_database: str, second_database: str
) -> None:
    await _upgrade(postgres_cluster.url(postgres_database), REVISION)
    async with open_database(postgres_cluster.url(second_database)):
        pass
    assert _catalog(postgres_cluster, second_database) == _catalog(postgres_cluster, postgres_database)


@pytest.mark.parametrize("first", [None, REVISION])
async def test_processes_that_start_together(
    postgres_url: str, first: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an empty database, or on an old one: one makes or changes the tables, and none of them fails."""
    script = _OPEN
    if first is not None:
        await _upgrade(postgres_url, first)
        add_next_revision(tmp_path / "migrations", monkeypatch)
        script = _WITH_NEXT.format(folder=str(tmp_path / "migrations")) + _OPEN
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(postgres_url, script)) for _ in range(4)]
        for process in processes:
            assert await asyncio.to_thread(process.read) == "ready"
        for process in processes:
            process.write()
        for process in processes:
            assert await asyncio.to_thread(process.read) == "done"
    async with open_database(postgres_url) as database:
        assert len(await database.keys.all()) == 4


async def test_a_process_that_is_killed_while_it_makes_the_tables(postgres_url: str) -> None:
    """Leaves nothing, and no lock: the next one makes them."""
    script = """
        from sqlalchemy import Connection
        from aggregator.storage import opening
        def half(connection):
            made = whole(connection)
            say("half")
            hear()
            return made
        whole, opening.create_tables = opening.create_tables, half
        async with open_database(url):
            say("unreachable")
    """
    with other_process(postgres_url, script) as process:
        assert await asyncio.to_thread(process.read) == "half"
        await asyncio.to_thread(process.kill)
    async with open_database(postgres_url) as database:
        assert await database.keys.all() == []


async def test_a_newer_schema_is_left_alone(postgres_url: str) -> None:
    async with open_database(postgres_url) as database, database.engine.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StorageTooNew, match="newer version"):
        async with open_database(postgres_url):
            pass


async def test_a_schema_from_before_the_first_release_is_left_alone(
    postgres_url: str, postgres_cluster: Cluster, postgres_database: str
) -> None:
    async with open_database(postgres_url):
        pass
    postgres_cluster.sql("UPDATE alembic_version SET version_num = '0015'", postgres_database)
    before = _catalog(postgres_cluster, postgres_database)
    with pytest.raises(StorageTooOld, match=f"The database {postgres_database} was made .* Make an empty one"):
        async with open_database(postgres_url):
            pass
    assert _catalog(postgres_cluster, postgres_database) == before


async def test_a_process_goes_on_beside_one_that_migrates(postgres_url: str) -> None:
    """One statement is refused, and all that was prepared is prepared anew: in a rolling update, old and new processes
    run side by side.
    """
    async with open_database(postgres_url) as database:
        await database.keys.add(KeyRecord("k", "bot", "h"))
        assert len(await database.keys.all()) == 1
        async with database.engine.write() as connection:
            await connection.execute(text("ALTER TABLE api_keys ADD COLUMN later TEXT"))
            await connection.execute(text("ALTER TABLE api_keys ALTER COLUMN label TYPE TEXT"))
        async with open_database(postgres_url) as other:
            await other.keys.add(KeyRecord("l", "bot", "h"))
        with pytest.raises(StorageBusy, match="changed just now"):
            await database.keys.all()
        for _ in range(2):
            assert len(await database.keys.all()) == 2
            await database.keys.touch({"k": 5.0})
