"""An empty database for every test of this folder."""

import asyncio

import pytest

from aggregator.storage.database import open_database
from tests.adapters.config_folder import ConfigFolder


@pytest.fixture(scope="session", autouse=True)
def _database(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An empty database, made once."""
    path = tmp_path_factory.mktemp("database") / "empty.db"

    async def make() -> None:
        async with open_database(f"sqlite+aiosqlite:///{path}"):
            """It has its tables now."""

    asyncio.run(make())
    ConfigFolder.database = path.read_bytes()
