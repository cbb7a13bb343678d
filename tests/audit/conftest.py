"""A database of one's own, and a log that writes into it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from aggregator.audit.log import AuditLog
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from tests.audit.logs import DatabaseFile, running_log


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> DatabaseFile:
    """The file of a database in which nothing is yet."""
    path = tmp_path_factory.mktemp("empty") / "a.db"

    async def make() -> None:
        async with open_database(f"sqlite+aiosqlite:///{path}"):
            pass

    asyncio.run(make())
    return DatabaseFile(path.read_bytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "aggregator.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
def made(path: Path, empty_database: bytes) -> Path:
    """The file is there; that is quicker than to have each one migrated."""
    path.parent.mkdir()
    path.write_bytes(empty_database)
    path.chmod(0o600)
    return path


@pytest.fixture
async def database(url: str, made: Path) -> AsyncIterator[Database]:
    async with open_database(url) as opened:
        yield opened


@pytest.fixture
def logging_into(database: Database) -> Callable[..., AbstractAsyncContextManager[AuditLog]]:
    """A log on the database, running inside the block and closed behind it."""

    def log(**options: Any) -> AbstractAsyncContextManager[AuditLog]:
        return running_log(database, **options)

    return log
