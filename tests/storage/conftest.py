"""A database of one's own, and a folder where file modes count."""

import codecs
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aggregator.storage.database import open_database
from aggregator.storage.opening import Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data of ä #%20&" / "aggregator.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


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
