"""A database and a keyring on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.identity.keyring import Keyring
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "aggregator.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with open_database(url) as opened:
        yield opened


@pytest.fixture
def keyring(database: Database) -> Keyring:
    return Keyring(database.keys)
