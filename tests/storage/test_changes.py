"""How a process notices what another one wrote."""

import asyncio
from pathlib import Path

import pytest

from aggregator.storage.database import open_database
from aggregator.storage.engine.files import set_aside
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord
from tests.storage.processes import other_process

pytestmark = pytest.mark.usefixtures("made_databases")


async def test_the_version_of_a_subject_follows_every_process(url: str, database: Database) -> None:
    first = await database.keys.version()
    assert await database.keys.version() == first
    script = """
        async with open_database(url) as database:
            await database.keys.add(KeyRecord("theirs", "bot", "h"))
            say("written")
    """
    with other_process(url, script) as process:
        assert await asyncio.to_thread(process.read) == "written"
    second = await database.keys.version()
    assert second != first
    await database.keys.add(KeyRecord("ours", "bot", "h"))
    assert await database.keys.version() != second


async def test_other_subjects_and_uses_do_not_count(database: Database) -> None:
    await database.keys.add(KeyRecord("k", "bot", "h"))
    before = await database.keys.version()
    await database.approvals.ask("bot", "a.b", "d", "text", expires=2.0, now=1.0)
    await database.keys.touch({"k": 5.0})
    assert await database.keys.version() == before
    await database.keys.touch({"k": 4.0})
    (key,) = await database.keys.all()
    assert key.last_used == 5.0


async def test_a_file_in_the_place_of_ours_is_taken_up(path: Path, url: str, database: Database) -> None:
    await database.keys.add(KeyRecord("old", "bot", "h"))
    before = await database.keys.version()
    set_aside(path)
    async with open_database(url) as other_one:
        await other_one.keys.add(KeyRecord("new", "bot", "h"))
    assert await database.keys.version() != before
    assert [key.key_id for key in await database.keys.all()] == ["new"]
