"""A restore fills an empty database, whole or not at all, and leaves alone what is in use or not empty."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text

from aggregator.audit.rows import row
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.backup.copying import back_up
from aggregator.storage.backup.errors import BackupError, TargetInUse, TargetNotEmpty
from aggregator.storage.database import open_database
from aggregator.storage.engine.files import put_in_place
from aggregator.storage.errors import StorageBusy, StorageError, StorageTooNew, StorageTooOld
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord
from aggregator.storage.tables import REVISION
from tests.audit.logs import NOTHING, make_call
from tests.backup.databases import (
    KEY,
    add_rows,
    backed_up,
    content,
    made_archive,
    make_database,
    migrated,
    restored,
    said_nothing,
    url_of,
)
from tests.postgres.cluster import Cluster
from tests.storage.next_revision import NEXT, add_next_revision
from tests.storage.processes import other_process

OTHER: Final = KeyRecord("other", "bot", "h")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return made_archive(tmp_path_factory.mktemp("source") / "a.db")


async def keys_of(url: str) -> list[str]:
    return [row[0] for row in (await content(url))["api_keys"]]


async def test_rows_stay_unless_they_are_to_be_replaced(tmp_path: Path, archive: bytes) -> None:
    """Proves: F22."""
    path = tmp_path / "b.db"
    async with open_database(url_of(path)) as database:
        await database.keys.add(OTHER)
    with pytest.raises(TargetNotEmpty, match=r"not empty: it has rows in api_keys\. Nothing was changed"):
        await restored(url_of(path), archive)
    assert await keys_of(url_of(path)) == ["other"]
    report = await restored(url_of(path), archive, replace=True)
    assert await keys_of(url_of(path)) == [KEY.key_id]
    assert report.replaced is not None
    assert await keys_of(url_of(Path(report.replaced))) == ["other"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {one.name for one in tmp_path.iterdir()} == {"b.db", "b.db.lock", Path(report.replaced).name}


async def test_a_database_without_rows_is_empty(tmp_path: Path, archive: bytes) -> None:
    """Its tables are there; a command that only looked has made them."""
    async with open_database(url_of(tmp_path / "b.db")):
        pass
    report = await restored(url_of(tmp_path / "b.db"), archive)
    assert report.replaced is None
    assert await keys_of(url_of(tmp_path / "b.db")) == [KEY.key_id]


async def test_what_is_no_database_is_moved_aside_only_when_asked(tmp_path: Path, archive: bytes) -> None:
    path = tmp_path / "b.db"
    path.write_bytes(b"no database, but whose is it?" * 100)
    Path(f"{path}-wal").write_bytes(b"what belongs to it")
    with pytest.raises(TargetNotEmpty, match="no sound database, and rows may be in it"):
        await restored(url_of(path), archive)
    report = await restored(url_of(path), archive, replace=True)
    assert Path(f"{report.replaced}").read_bytes().startswith(b"no database")
    assert await keys_of(url_of(path)) == [KEY.key_id]


def test_a_database_is_set_aside_with_what_sqlite_keeps_beside_it(tmp_path: Path) -> None:
    """Its last rows may be there alone, and must not be read as those of the new one."""
    path, new = tmp_path / "b.db", tmp_path / "new.db"
    content = {"": b"rows", "-wal": b"the last rows", "-shm": b"an index of them"}
    for ending, data in content.items():
        Path(f"{path}{ending}").write_bytes(data)
    new.write_bytes(b"new rows")
    aside = put_in_place(new, path, keep=True)
    assert {ending: Path(f"{aside}{ending}").read_bytes() for ending in content} == content
    assert path.read_bytes() == b"new rows"
    assert len(list(tmp_path.iterdir())) == 1 + len(content)


async def test_a_database_that_is_open_elsewhere_is_left_alone(tmp_path: Path, archive: bytes) -> None:
    """A gateway of another process, which writes nothing at the moment: neither filled nor copied.

    Proves: F22
    """
    path = tmp_path / "b.db"
    script = """
        async with open_database(url) as database:
            say(len(await database.keys.all()))
            hear()
    """
    with other_process(url_of(path), script) as process:
        assert await asyncio.to_thread(process.read) == "0"
        for replace in (False, True):
            with pytest.raises(TargetInUse, match=r"Another process has the database .* open\. Stop every"):
                await restored(url_of(path), archive, replace=replace)
        with pytest.raises(TargetInUse):
            await migrated(url_of(path), url_of(tmp_path / "c.db"))
        process.write()
        await asyncio.to_thread(process.done)
    await restored(url_of(path), archive)
    assert not (tmp_path / "c.db").exists()


async def test_a_killed_restore_leaves_nothing_that_counts(tmp_path: Path, archive: bytes) -> None:
    """SIGKILL while rows go in: what was there is there, and the next restore is right.

    Proves: F22
    """
    path = tmp_path / "b.db"
    (tmp_path / "backup").write_bytes(archive)
    async with open_database(url_of(path)) as database:
        await database.keys.add(OTHER)
    script = """
        import os, signal
        from pathlib import Path
        from aggregator.storage.backup.copying import restore
        def said(table, rows):
            if table == "mcp_tool_call_log":
                say("dying")
                os.kill(os.getpid(), signal.SIGKILL)
        with Path(url.removeprefix("sqlite:///")).with_name("backup").open("rb") as source:
            await restore(url, source, replace=True, key=None, unproven=False, said=said)
    """
    with other_process(url_of(path), script) as process:
        assert await asyncio.to_thread(process.read) == "dying"
        assert await asyncio.to_thread(process.process.wait, 30) == -9
    assert Path(f"{path}.restoring").exists()
    assert await keys_of(url_of(path)) == ["other"]
    Path(f"{path}.restoring-journal").write_bytes(b"of the one that was killed")
    await restored(url_of(path), archive, replace=True)
    assert await keys_of(url_of(path)) == [KEY.key_id]
    assert not list(tmp_path.glob("*.restoring*"))


async def test_two_restores_at_once(tmp_path: Path, archive: bytes) -> None:
    """One fills it; the other finds it filled, or in work."""
    url = url_of(tmp_path / "b.db")
    done = await asyncio.gather(*(restored(url, archive) for _ in range(3)), return_exceptions=True)
    assert sum(not isinstance(one, Exception) for one in done) == 1
    assert all(isinstance(one, TargetNotEmpty | StorageBusy) for one in done if isinstance(one, Exception))
    assert await keys_of(url) == [KEY.key_id]


async def test_a_backup_of_an_older_version_is_brought_up_to_date(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by this version of a database that was not migrated yet, and restored into both kinds of store.

    Proves: F22
    """
    old = url_of(tmp_path / "old.db")
    async with open_database(old) as database:
        await database.keys.add(KeyRecord("k", "a", "h"))
    add_next_revision(tmp_path / "migrations", monkeypatch)
    archive = await backed_up(old)
    for url in (url_of(tmp_path / "new.db"), postgres_url):
        report = await restored(url, archive)
        assert report.schema == REVISION
        assert await keys_of(url) == ["k"]
        async with open_database(url) as database, database.engine.read() as connection:
            assert [key.agent_id for key in await database.keys.all()] == ["a"]
            assert list(await connection.execute(text("SELECT key_id, note FROM api_keys"))) == [("k", None)]
            assert await connection.scalar(text("SELECT version_num FROM alembic_version")) == NEXT
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (REVISION,)


async def test_a_database_from_before_the_first_release(tmp_path: Path, archive: bytes) -> None:
    """Proves: F22. Nothing is taken from it; a restore puts it aside."""
    path = tmp_path / "a.db"
    await make_database(url_of(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0014'")
        connection.commit()
    for reading in (backed_up(url_of(path)), migrated(url_of(path), url_of(tmp_path / "b.db"))):
        with pytest.raises(StorageTooOld, match=rf"{path} was made by .* before the first release \(schema 0014\)"):
            await reading
    report = await restored(url_of(path), archive, replace=True)
    assert report.replaced is not None
    assert await keys_of(url_of(path)) == [KEY.key_id]


async def test_a_database_of_a_newer_version_is_not_read(tmp_path: Path) -> None:
    await make_database(url_of(tmp_path / "a.db"))
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(StorageTooNew, match="made by a newer version of aggregator"):
        await backed_up(url_of(tmp_path / "a.db"))


async def test_replicas_that_serve_keep_their_database(postgres_url: str, archive: bytes) -> None:
    """A replica that was seen a moment ago; not one that was lost long ago.

    Proves: F22
    """
    beat: dict[str, Any] = {"group_name": "main", "slot": 1, "version": "1", "started": 1.0, "facts": "{}"}
    async with open_database(postgres_url) as database:
        await add_rows(database, [("replicas", {**beat, "id": "lost", "slot": 2, "seen": 1.0})])
    await restored(postgres_url, archive)
    async with open_database(postgres_url) as database:
        await add_rows(database, [("replicas", {**beat, "id": "there", "seen": 4e9})])
    for replace in (False, True):
        with pytest.raises(TargetInUse, match="1 replicas serve from this database"):
            await restored(postgres_url, archive, replace=replace)
    with pytest.raises(TargetInUse):
        await migrated(postgres_url, "sqlite:////nowhere/a.db")


async def test_tables_of_a_server_are_moved_into_a_schema(
    postgres_cluster: Cluster, postgres_database: str, archive: bytes
) -> None:
    """Proves: F22."""
    url = postgres_cluster.url(postgres_database)
    async with open_database(url) as database:
        await database.keys.add(OTHER)
    with pytest.raises(TargetNotEmpty, match="it has rows in api_keys"):
        await restored(url, archive)
    report = await restored(url, archive, replace=True)
    assert await keys_of(url) == [KEY.key_id]
    aside = f"{report.replaced}."
    assert postgres_cluster.sql(f"SELECT key_id FROM {aside}api_keys", postgres_database) == "other"  # noqa: S608
    stamp = f"SELECT version_num FROM {aside}alembic_version"  # noqa: S608 - our own name
    assert postgres_cluster.sql(stamp, postgres_database) == REVISION
    async with open_database(url) as database:
        await database.keys.add(OTHER)
    assert await keys_of(url) == [KEY.key_id, "other"]


async def test_a_failed_restore_leaves_a_server_as_it_was(
    postgres_cluster: Cluster, postgres_database: str, archive: bytes
) -> None:
    """The backup is cut: the transaction is rolled back, the moved tables included."""
    url = postgres_cluster.url(postgres_database)
    async with open_database(url) as database:
        await database.keys.add(OTHER)
    with pytest.raises(BackupError):
        await restored(url, archive[:-100], replace=True)
    assert await keys_of(url) == ["other"]
    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'aggregator_replaced%'"
    assert postgres_cluster.sql(schemas, postgres_database) == "0"


async def test_the_audit_goes_on_behind_what_was_restored(postgres_url: str, archive: bytes, tmp_path: Path) -> None:
    """New rows get new numbers, and the whole log proves itself, on either kind of store."""
    for url in (postgres_url, url_of(tmp_path / "b.db")):
        await restored(url, archive)
        async with open_database(url) as database:
            await add_call(database)
        again = await backed_up(url)
        report = await restored(url_of(tmp_path / f"{len(list(tmp_path.iterdir()))}.db"), again)
        assert report.audit is not None
        assert report.audit.rows == 7


async def add_call(database: Database) -> None:
    await database.audit.append(ChainBatch([row(make_call(77), NOTHING)]))


async def test_without_the_audit_a_new_log_begins(tmp_path: Path) -> None:
    """Proves: F21."""
    await make_database(url_of(tmp_path / "a.db"))
    archive = await backed_up(url_of(tmp_path / "a.db"), audit=False)
    report = await restored(url_of(tmp_path / "b.db"), archive)
    assert report.audit is None
    assert report.tables == {"api_keys": 1}
    async with open_database(url_of(tmp_path / "b.db")) as database:
        await add_call(database)
    assert len((await content(url_of(tmp_path / "b.db")))["mcp_tool_call_log"]) == 1


async def test_a_text_that_postgresql_cannot_hold(tmp_path: Path, postgres_url: str) -> None:
    """SQLite holds a NUL and gets it back; PostgreSQL cannot, and the row is named."""
    async with open_database(url_of(tmp_path / "a.db")) as database:
        await database.keys.add(KeyRecord("k", "bot", "h", "a\0b"))
    archive = await backed_up(url_of(tmp_path / "a.db"))
    await restored(url_of(tmp_path / "b.db"), archive)
    assert (await content(url_of(tmp_path / "b.db")))["api_keys"][0][3] == "a\0b"
    with pytest.raises(BackupError, match=r"The row \{'key_id': 'k'\} of api_keys has a text with NUL as `label`"):
        await restored(postgres_url, archive)
    with pytest.raises(BackupError, match="with NUL"):
        await migrated(url_of(tmp_path / "a.db"), postgres_url)


@pytest.mark.parametrize(
    ("value", "said"),
    [("x'fffe'", "bytes as `label`"), ("cast(x'fffe' as text)", "a text that is not UTF-8"), ("9e999", "as `created`")],
)
async def test_what_no_version_writes_is_named(tmp_path: Path, value: str, said: str) -> None:
    """Another program put bytes, half characters or infinity into a column."""
    await make_database(url_of(tmp_path / "a.db"))
    column = "created" if "e999" in value else "label"
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute(f"UPDATE api_keys SET {column} = {value}")  # noqa: S608 - a literal of this test
        connection.commit()
    with pytest.raises(BackupError, match=r"The row .*'key1'.* of the table api_keys holds") as raised:
        await backed_up(url_of(tmp_path / "a.db"))
    assert said in str(raised.value)


async def test_a_sink_that_fails_is_not_the_fault_of_the_database(tmp_path: Path, postgres_url: str) -> None:
    """Proves: F21."""

    class Full:
        def write(self, data: bytes, /) -> None:
            raise OSError(28, "No space left on device", data[:0])

    await make_database(url_of(tmp_path / "a.db"))
    await make_database(postgres_url)
    for url in (url_of(tmp_path / "a.db"), postgres_url):
        with pytest.raises(BackupError, match=r"The backup cannot be written: No space left on device\."):
            await back_up(url, Full(), audit=True, now=1.0, said=said_nothing)


async def test_there_has_to_be_a_database(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(StorageError, match="There is no database"):
        await backed_up(url_of(tmp_path / "a.db"))
    with pytest.raises(BackupError, match="no tables of aggregator"):
        await backed_up(postgres_url)
    with pytest.raises(BackupError, match="has already"):
        await migrated(url_of(tmp_path / "a.db"), url_of(tmp_path / "x" / ".." / "a.db"))
    assert not list(tmp_path.iterdir())


async def test_a_backup_is_of_one_moment(tmp_path: Path) -> None:
    """Another process writes all the while: the log in each backup proves itself, and no writer is kept waiting.

    Proves: F21
    """
    url = url_of(tmp_path / "a.db")
    await make_database(url, 3000)
    script = """
        from aggregator.audit.rows import row
        from aggregator.storage.audit.chain import ChainBatch
        from tests.audit.logs import NOTHING, make_call
        async with open_database(url) as database:
            number = 10_000
            while True:
                await database.audit.append(ChainBatch([row(make_call(number), NOTHING)]))
                number += 1
                if number % 50 == 0:
                    say(number)
    """
    with other_process(url, script) as process:
        rows = []
        for number in range(3):
            await asyncio.to_thread(process.read)
            report = await restored(url_of(tmp_path / f"{number}.db"), await backed_up(url))
            assert report.audit is not None
            rows.append(report.audit.rows)
        await asyncio.to_thread(process.read)
        process.kill()
    assert 3001 < rows[0] < rows[1] < rows[2]
