"""Transactions: whole or not at all, whoever dies; readers and other processes are not in the way."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from aggregator.storage.database import open_database
from aggregator.storage.engine import sqlite
from aggregator.storage.errors import NoSuchRow, StorageBusy, StorageDamaged, StorageError, StorageFull
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord
from tests.storage.processes import other_process

INSERT = "INSERT INTO api_keys VALUES ('k', 'bot', 'h', '', 1, 1, 1, 1, NULL)"


async def _write(database: Database, *statements: str, **values: str) -> None:
    async with database.engine.write("api_keys") as connection:
        for statement in statements:
            await connection.execute(text(statement), values)


def key(key_id: str) -> KeyRecord:
    return KeyRecord(key_id, "bot", "h")


async def _ids(database: Database) -> list[str]:
    return [found.key_id for found in await database.keys.all()]


async def test_an_error_undoes_everything(database: Database) -> None:
    before = await database.keys.version()
    with pytest.raises(IntegrityError):
        await _write(database, INSERT, INSERT)
    assert await _ids(database) == []
    assert await database.keys.version() == before
    await database.keys.add(key("k"))
    with pytest.raises(NoSuchRow, match="already is a key k"):
        await database.keys.add(key("k"))


async def test_a_cancelled_write_leaves_nothing_behind(database: Database) -> None:
    inside = asyncio.Event()

    async def write() -> None:
        async with database.engine.write("api_keys") as connection:
            await connection.execute(text(INSERT))
            inside.set()
            await asyncio.Event().wait()

    for _ in range(8):  # more often than there are connections
        inside.clear()
        task = asyncio.create_task(write())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await _ids(database) == []
    await database.keys.add(key("after"))
    assert await _ids(database) == ["after"]


async def test_a_connection_that_is_in_use_at_the_end_is_closed_when_it_is_given_back(database: Database) -> None:
    """A task that was cancelled gives its connection back after its owner has closed the database."""
    async with database.engine.read() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await database.engine.close()
        await connection.execute(text("SELECT 1"))
    with pytest.raises(Exception, match=r"no active connection|connection is closed"):
        await driver.execute("SELECT 1")


async def test_a_reader_does_not_wait_for_another_processs_writer(url: str, database: Database) -> None:
    script = f"""
        async with open_database(url) as database:
            async with database.engine.write("api_keys") as connection:
                await connection.exec_driver_sql({INSERT!r})
                say("writing")
                hear()
            say("written")
    """
    with other_process(url, script) as process:
        assert await asyncio.to_thread(process.read) == "writing"
        async with asyncio.timeout(5):
            assert await _ids(database) == []
        waiting = asyncio.create_task(database.keys.add(key("mine")))
        process.write()
        assert await asyncio.to_thread(process.read) == "written"
        async with asyncio.timeout(10):
            await waiting
    assert set(await _ids(database)) == {"k", "mine"}


def _ids_of(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT key_id FROM api_keys")).scalars())


async def test_a_read_in_a_thread_waits_for_no_writer_and_sees_what_is_committed(database: Database) -> None:
    assert await database.engine.read_in_thread(_ids_of) == []
    async with database.engine.write() as connection:
        await connection.execute(text(INSERT))
        assert await database.engine.read_in_thread(_ids_of) == []
    assert await database.engine.read_in_thread(_ids_of) == ["k"]


async def test_a_read_in_a_thread_that_fails_costs_no_other(database: Database) -> None:
    def fails(connection: Connection) -> None:
        raise ValueError("a row is damaged")

    await database.keys.add(key("k"))
    with pytest.raises(ValueError, match="damaged"):
        await database.engine.read_in_thread(fails)
    assert await database.engine.read_in_thread(_ids_of) == ["k"]


async def test_a_killed_writer_loses_nothing_that_it_was_told_was_written(url: str, database: Database) -> None:
    script = """
        async with open_database(url) as database:
            for number in range(100_000):
                await database.keys.add(KeyRecord(f"k{number}", "bot", "h" * 100))
                say(number)
    """
    for _ in range(2):
        with other_process(url, script) as process:
            for _ in range(20):
                told = await asyncio.to_thread(process.read)
            rest = (await asyncio.to_thread(process.kill)).splitlines()
        told = rest[-1] if rest else told
        ids = await _ids(database)
        assert int(told) + 1 <= len(ids) <= int(told) + 2
        assert set(ids) == {f"k{number}" for number in range(len(ids))}
        if database.engine.path is not None:
            async with database.engine.read() as connection:
                assert (await connection.execute(text("PRAGMA integrity_check"))).scalar() == "ok"
        await _write(database, "DELETE FROM api_keys")
    async with open_database(url) as again:
        assert again.set_aside == ()


async def test_a_lock_that_is_never_freed(
    path: Path, url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    async with open_database(url) as second:
        async with database.engine.write():
            with pytest.raises(StorageBusy, match="kept locked"):
                await second.keys.add(key("k"))
            with pytest.raises(StorageBusy, match="waits to be written"):
                await database.keys.add(key("k"))
            assert await _ids(second) == []
        await second.keys.add(key("k"))


async def test_a_file_that_is_deleted_is_made_anew(
    path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, whoever notices it first, with its folder; and it is told, since its keys are lost."""
    told: list[bool] = []
    assert await database.engine.read_in_thread(_ids_of) == []
    database.engine.on_file_replaced(lambda: told.append(path.exists()))
    await database.keys.add(key("k"))
    before = await database.keys.version()
    for file in list(path.parent.iterdir()):
        file.unlink()
    path.parent.rmdir()
    assert await database.keys.version() != before
    assert (await _ids(database), told) == ([], [True])
    await database.keys.add(key("after"))
    assert (await _ids(database), told) == (["after"], [True])
    assert await database.engine.read_in_thread(_ids_of) == ["after"]
    assert caplog.text.count("was deleted: it was made anew") == 1


async def test_a_file_that_cannot_be_made_anew(path: Path, database: Database) -> None:
    for file in list(path.parent.iterdir()):
        file.unlink()
    path.parent.rmdir()
    path.parent.write_text("no folder")
    with pytest.raises(StorageError):
        await database.keys.version()


async def test_a_full_disk(path: Path, database: Database) -> None:
    await database.keys.add(key("before"))
    with pytest.raises(StorageFull, match="no room left"):
        await _write(database, "PRAGMA max_page_count = 1", INSERT.replace("'h'", "hex(zeroblob(1000000))"))
    await _write(database, "PRAGMA max_page_count = 1000000")
    assert await _ids(database) == ["before"]
    await database.keys.add(key("after"))


async def test_damage_that_shows_later(path: Path, database: Database) -> None:
    for number in range(50):
        await database.keys.add(KeyRecord(f"k{number}", "bot", "h" * 100))
    await database.engine._dispose()
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StorageDamaged, match="is damaged"):
        await database.keys.all()
    with pytest.raises(StorageDamaged, match="is damaged"):
        await database.engine.read_in_thread(
            lambda connection: connection.execute(text("SELECT * FROM api_keys")).all()
        )


async def test_parameters_are_in_no_error(database: Database) -> None:
    with pytest.raises(IntegrityError) as caught:
        await _write(database, *["INSERT INTO changes VALUES (1, 'x', :value, 0, NULL)"] * 2, value="hunter2")
    assert "hunter2" not in str(caught.value)
