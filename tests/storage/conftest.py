"""A database of one's own, and a folder where file modes count.

Each test runs on SQLite and on PostgreSQL, but for those of files, which ask for `path`.
"""

import codecs
import inspect
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.storage.database import open_database
from aggregator.storage.opening import Database

STORES: Final = ("sqlite", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses a database on every kind of store."""
    if "store" in metafunc.fixturenames:
        of_files = "path" in inspect.signature(metafunc.function).parameters
        metafunc.parametrize("store", STORES[:1] if of_files else STORES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data of ä #%20&" / "aggregator.db"


@pytest.fixture
def url(store: str, path: Path, request: pytest.FixtureRequest) -> str:
    if store == "sqlite":
        return f"sqlite+aiosqlite:///{path}"
    is_made = "made_databases" in request.fixturenames
    found: str = request.getfixturevalue("postgres_url" if is_made else "postgres_url_with_tables")
    return found


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with open_database(url) as opened:
        yield opened


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """A folder in which we are no administrator: file modes count."""
    folder = Path(tempfile.mkdtemp())
    administrator = os.geteuid() == 0
    if administrator:
        # Python loads it when it is first needed, from a folder that another user may not read.
        codecs.lookup("utf-16-be")
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if administrator:
            os.seteuid(0)
        for each in (folder, *folder.iterdir()):
            each.chmod(0o700)
        shutil.rmtree(folder)
