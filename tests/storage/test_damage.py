"""Files that cannot be used: damaged ones are set aside and kept, read-only ones are refused."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import asyncio
import os
import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from aggregator.app import catalog_sync as catalog_cache
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.slices import Slices
from aggregator.storage.catalogs import Catalogs
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageReadOnly, StorageTooNew, StorageTooOld
from aggregator.storage.records import KeyRecord
from aggregator.upstream.lifecycle.states import StateAndReason
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstream import Upstream
from aggregator.upstream.upstreams import Upstreams
from tests.storage.processes import other_process

pytestmark = pytest.mark.usefixtures("made_databases")


class Unobserved:
    """An observer of upstreams that does nothing."""

    def changed(self) -> None: ...

    async def examine(self, upstream: Upstream, kind: Kind, definitions: list[Any]) -> None: ...

    def resource_updated(self, upstream: Upstream, watched: list[str], uri: str) -> None: ...

    def session_over(self, server: str, version: str, seconds: float, failure: str | None) -> None: ...


def garbage(path: Path) -> None:
    path.write_bytes(b"This is no database. " * 500)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    whole = path.read_bytes()
    at = whole.index(b"a-label-to-find")
    path.write_bytes(whole[: at - 200] + b"\xff" * 400 + whole[at + 200 :])


@pytest.mark.parametrize("damage", [garbage, cut, overwritten])
async def test_a_damaged_file_is_set_aside(
    path: Path, url: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_database(url) as database:
        for number in range(50):
            label = "a-label-to-find" if number == 25 else "x" * 150
            await database.keys.add(KeyRecord(f"k{number}", "bot", "h" * 100, label))
    damage(path)
    before = path.read_bytes()
    async with open_database(url) as database:
        assert await database.keys.all() == []
        (aside,) = database.set_aside
    assert aside.read_bytes() == before
    assert str(aside) in caplog.text
    assert "a new one was made" in caplog.text
    async with open_database(url) as database:
        assert database.set_aside == (aside,)


async def test_processes_that_find_the_same_damage_set_it_aside_once(path: Path, url: str) -> None:
    path.parent.mkdir()
    garbage(path)
    script = """
        hear()
        async with open_database(url) as database:
            await database.keys.add(KeyRecord(str(time.monotonic_ns()), "bot", "h"))
            say("done")
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(2)]
        for process in processes:
            process.write()
        for process in processes:
            assert await asyncio.to_thread(process.read) == "done"
    async with open_database(url) as database:
        assert len(await database.keys.all()) == 2
        assert len(database.set_aside) == 1


async def test_a_newer_schema_is_left_alone(path: Path, url: str) -> None:
    async with open_database(url) as database, database.engine.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    before = path.read_bytes()
    with pytest.raises(StorageTooNew, match="newer version"):
        async with open_database(url):
            pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("stamp", ["0001", "0015"])
async def test_a_file_from_before_the_first_release_is_left_alone(path: Path, url: str, stamp: str) -> None:
    """F4: the message names the file and the way out, which works."""
    async with open_database(url) as database, database.engine.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = :stamp"), {"stamp": stamp})
        await connection.execute(text("DROP TABLE pinned_items"))
    before = path.read_bytes()
    with pytest.raises(StorageTooOld) as caught:
        async with open_database(url):
            pass
    assert path.read_bytes() == before
    said = str(caught.value)
    assert said.startswith(f"The database {path} was made by a version of aggregator before the first release")
    (way,) = re.findall("`((?:mv|move) .*?)`", said)
    _, source, target = shlex.split(way)
    os.rename(source, target)
    async with open_database(url) as database:
        assert await database.keys.all() == []


async def test_a_folder_that_cannot_be_written(ordinary_folder: Path) -> None:
    ordinary_folder.chmod(0o500)
    for path in (ordinary_folder / "a.db", ordinary_folder / "new" / "a.db"):
        with pytest.raises(StorageReadOnly, match="cannot be written"):
            async with open_database(f"sqlite+aiosqlite:///{path}"):
                pass


async def test_a_file_that_cannot_be_written(ordinary_folder: Path) -> None:
    path = ordinary_folder / "a.db"
    url = f"sqlite+aiosqlite:///{path}"
    async with open_database(url):
        pass
    path.chmod(0o400)
    with pytest.raises(StorageReadOnly, match="cannot be written"):
        async with open_database(url):
            pass
    path.chmod(0o600)
    for each in ordinary_folder.iterdir():
        if each != path:
            each.unlink()
    ordinary_folder.chmod(0o500)
    with pytest.raises(StorageReadOnly, match="cannot be written"):
        async with open_database(url):
            pass


async def test_catalogs_are_not_kept_in_a_read_only_file(
    ordinary_folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F4. The log says once which file it is and what to do, however often it is tried."""
    monkeypatch.setattr(catalog_cache, "COALESCE", 0.0)
    monkeypatch.setattr(catalog_cache, "AGAIN", 0.0)
    path = ordinary_folder / "a.db"
    url = f"sqlite+aiosqlite:///{path}"
    async with open_database(url):
        pass
    path.chmod(0o400)
    box = ServerConfig(id="box", key="box", prefix="box", type="local", target="a:b")
    supervisor = Supervisor([box], Upstreams(), Unobserved(), Slices())
    (upstream,) = supervisor.upstreams.values()
    upstream.lifecycle.current = StateAndReason("ready", "", 0.0)
    upstream.shared.negotiated, upstream.definitions = Negotiated("2025-11-25"), [{"name": "t"}]
    tried = asyncio.Queue[None]()

    class Store:
        async def catalogs(self) -> Catalogs:
            tried.put_nowait(None)
            async with open_database(url) as database:
                return database.catalogs

    changed = asyncio.Event()
    cache = catalog_cache.CatalogSync(supervisor, url, Store(), changed)
    async with cache.running(KeptWork()), asyncio.timeout(10):
        changed.set()
        for _ in range(3):
            await tried.get()
    (line,) = [line for line in caplog.records if line.levelname == "ERROR"]
    assert "Make the file and its folder writable" in line.message
    assert str(path) in line.message
    assert cache.problem is not None
