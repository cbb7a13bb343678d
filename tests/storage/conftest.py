"""A database of one's own."""

from collections.abc import AsyncIterator
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
