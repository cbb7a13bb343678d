"""Opening: light until then, private files, one process at a time, clear errors."""

import asyncio
import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from aggregator.storage.database import open_database
from aggregator.storage.engine.lockfile import locked
from aggregator.storage.errors import StorageBusy, StorageError
from aggregator.storage.opening import Database
from tests import ON_WINDOWS
from tests.storage.processes import ROOT, other_process

pytestmark = pytest.mark.usefixtures("made_databases")


@pytest.mark.parametrize("module", ["aggregator.storage.database", "aggregator.identity.identify"])
def test_what_a_start_needs_loads_no_database(module: str) -> None:
    check = f"import sys, {module}; print(*sorted({{'sqlalchemy', 'alembic', 'aiosqlite'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


async def test_a_current_file_needs_no_alembic(url: str, database: Database) -> None:
    script = """
        async with open_database(url) as database:
            say(await database.keys.all(), "alembic" in sys.modules)
    """
    with other_process(url, script) as process:
        assert await asyncio.to_thread(process.read) == "[] False"


@pytest.mark.skipif(ON_WINDOWS, reason="a folder of a user of Windows is closed to others by its access list")
async def test_only_the_owner_may_read(path: Path, url: str, caplog: pytest.LogCaptureFixture) -> None:
    old = os.umask(0)
    try:
        async with open_database(url) as database:
            await database.keys.touch({"x": 1.0})
            files = {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    names = ("aggregator.db", "aggregator.db-shm", "aggregator.db-wal", "aggregator.db.lock")
    assert files == dict.fromkeys(names, "0o600")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    wal = path.with_name("aggregator.db-wal")
    for part in (path, wal):
        part.touch()
        part.chmod(0o644)
    async with open_database(url):
        # Rows that were written last are in the companion file.
        assert [part.stat().st_mode & 0o777 for part in (path, wal)] == [0o600, 0o600]
    assert "could be read by others" in caplog.text


async def test_several_processes_make_one_file_together(url: str) -> None:
    script = """
        hear()
        async with open_database(url) as database:
            await database.keys.add(KeyRecord(sys.argv[0] + str(__import__("os").getpid()), "bot", "h"))
            say("done")
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(3)]
        for process in processes:
            process.write()
        for process in processes:
            assert await asyncio.to_thread(process.read) == "done"
    async with open_database(url) as database:
        assert len(await database.keys.all()) == 3
        assert database.set_aside == ()


async def test_a_lock_held_for_long_is_an_error(tmp_path: Path) -> None:
    async with locked(tmp_path / "lock", 1.0):
        with pytest.raises(StorageBusy, match="locked by another process"):
            async with locked(tmp_path / "lock", 0.02):
                pass
    async with locked(tmp_path / "lock", 0.02):
        pass


async def test_a_database_without_its_driver(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        async with open_database("postgresql+nosuchdriver://me:hunter2@db/a"):
            pass
    assert "hunter2" not in str(caught.value)


async def test_what_it_looks_like(path: Path, database: Database) -> None:
    assert repr(database) == f"<Database {path}>"
    assert repr(database.engine) == f"<Engine on {path}>"


async def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    """E5: A device, which root may change, must not lose its rights, nor be taken for an empty database and removed."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(StorageError, match="is a device or pipe, no file"):
            async with open_database(f"sqlite:///{path}"):
                pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]
