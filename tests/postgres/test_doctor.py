"""What the doctor says of a database server: each fault by its code, with words that a person can act on."""

import sys
from urllib.parse import quote

import pytest

from aggregator.doctor.checks.storage import of_storage
from aggregator.doctor.gather.storage import ask_server
from aggregator.storage.database import open_database
from aggregator.storage.tables import REVISION
from tests.postgres.cluster import Cluster


async def codes(url: str) -> dict[str, str]:
    facts = await ask_server(url)
    return {finding.code: finding.message for finding in of_storage(facts, audited=True)}


async def test_a_server_that_can_be_used_is_not_told_of(postgres_url: str) -> None:
    """Neither one that is empty, nor one with our tables; and nothing was made there by asking."""
    assert await codes(postgres_url) == {}
    assert (await ask_server(postgres_url)).stamp is None
    async with open_database(postgres_url):
        pass
    assert await codes(postgres_url) == {}
    assert (await ask_server(postgres_url)).stamp == REVISION


async def test_what_is_in_the_way(
    postgres_cluster: Cluster, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: by its code."""
    url = postgres_cluster.url
    for wrong in (
        url(postgres_database, password="wrong-password"),
        url("nowhere"),
        url(postgres_database, sslmode="require"),
    ):
        found = await codes(wrong)
        assert list(found) == ["database_refused"]
        assert "wrong-password" not in found["database_refused"]
    assert list(await codes("postgresql://me@127.0.0.1:1/x")) == ["database_unreachable"]
    with postgres_cluster.standby() as standby:
        assert list(await codes(standby.url(postgres_database))) == ["database_read_only"]
    postgres_cluster.sql("CREATE ROLE guest LOGIN PASSWORD 'guest-guest'")
    try:
        assert list(await codes(url(postgres_database, user="guest", password=quote("guest-guest")))) == [
            "database_read_only"
        ]
    finally:
        postgres_cluster.sql("DROP ROLE guest")
    async with open_database(url(postgres_database)):
        pass
    postgres_cluster.sql("UPDATE alembic_version SET version_num = '9999'", postgres_database)
    assert list(await codes(url(postgres_database))) == ["database_too_new"]
    postgres_cluster.sql("UPDATE alembic_version SET version_num = '0015'", postgres_database)
    assert list(await codes(url(postgres_database))) == ["database_too_old"]
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert list(await codes(url(postgres_database))) == ["database_driver"]
