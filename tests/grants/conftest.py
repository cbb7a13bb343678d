"""A database for grants: each test that asks for `here` runs on SQLite, and those of `both` on PostgreSQL too."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.grants.harness import Accounts, accounts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses `both` on every kind of store."""
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("store", ("sqlite", "postgres"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'aggregator.db'}"


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Accounts]:
    async with accounts(sqlite_url) as opened:
        yield opened


@pytest.fixture
def url(store: str, sqlite_url: str, request: pytest.FixtureRequest) -> str:
    if store == "sqlite":
        return sqlite_url
    found: str = request.getfixturevalue("postgres_url_with_tables")
    return found


@pytest.fixture
async def both(url: str) -> AsyncIterator[Accounts]:
    async with accounts(url, lease=2.0) as opened:
        yield opened
