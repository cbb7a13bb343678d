"""What the doctor says of a database server: each fault by its code, with words that a person can act on."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from aggregator.audit.rows import RowMaker
from aggregator.doctor import examine
from aggregator.doctor.checks.storage import of_storage
from aggregator.doctor.examine import Examination
from aggregator.doctor.gather.storage import count_calls, read_storage
from aggregator.hosts.model import Machine
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.database import open_database
from aggregator.storage.engine.engine import Engine
from aggregator.storage.locate import full_url
from aggregator.storage.records import ADDED_LATER, ASKS, GROWS, ItemList, KeyRecord, SeenItem, ServerCatalog
from aggregator.storage.tables import REVISION
from tests.audit.logs import NOTHING, make_call
from tests.doctor.place import Place
from tests.postgres.cluster import USER, Cluster


async def codes(url: str) -> dict[str, str]:
    facts = (await read_storage(url)).facts
    return {finding.code: finding.message for finding in of_storage(facts, audited=True)}


async def test_a_server_that_can_be_used_is_not_told_of(postgres_url: str) -> None:
    """Neither one that is empty, nor one with our tables; and nothing was made there by asking."""
    assert await codes(postgres_url) == {}
    assert (await read_storage(postgres_url)).facts.stamp is None
    async with open_database(postgres_url):
        pass
    assert await codes(postgres_url) == {}
    assert (await read_storage(postgres_url)).facts.stamp == REVISION


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


DAY: Final = 86_400.0


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A machine with nothing on it."""
    async with AsyncExitStack() as stack:
        yield Place(tmp_path, stack)


async def fill(url: str) -> None:
    """Have the rows in a database that a gateway would have written about the server `box`."""
    now = time.time()
    later = SeenItem("tool", "later", "sha256:1", classes=("new", ADDED_LATER), held=True)
    async with open_database(url) as database:
        await database.tool_reports.add("box", "open", "ada", "always empty", now=now)
        await database.tool_reports.add("box", "open", "bob", "always empty", now=now)
        await database.pins.note_seen("box", [later], now)
        await database.keys.add(
            KeyRecord("k1", "ada", "hash", created=now - 2 * DAY, expires=now - DAY, last_used=now - 2 * DAY)
        )
        about = ("stdio", "2025-11-25", "{}", "{}", None, ())
        await database.catalogs.keep(ServerCatalog("box", "f" * 64, *about, (ItemList(ASKS, "[]"),)), now=now)
        # Of an earlier entry with the same name.
        await database.catalogs.keep(ServerCatalog("other", "a" * 64, *about, (ItemList(ASKS, "[]"),)), now=now - DAY)
        await database.catalogs.keep(ServerCatalog("other", "b" * 64, *about, (ItemList(GROWS, "[]"),)), now=now)
        assert await database.catalogs.habits(["f" * 64, "b" * 64, "c" * 64]) == {
            "f" * 64: frozenset({ASKS}),
            "b" * 64: frozenset({GROWS}),
        }
        calls = [make_call(1, started=now - 31 * DAY, server="box"), make_call(2, started=now, server="other")]
        maker = RowMaker(NOTHING, lambda: "process")
        await database.audit.append(ChainBatch([maker.row(call) for call in calls]))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_the_rows_of_either_database_are_shown(
    place: Place, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """D7: what servers ask, what agents reported, what waits, keys, and which server is never called."""
    url: str = f"sqlite:///{tmp_path / 'a.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    place.configure({"box": place.server(), "other": place.server()}, storage=url)
    place.policy("agents:\n  ada:\n    allow: ['*']\n")
    await fill(url)
    examined = await place.examine("--agent", "ada")
    assert examined.of("server_asks")["where"] == "box"
    assert sum(one["code"] == "server_asks" for one in examined.report["findings"]) == 1
    assert examined.of("tools_reported")["message"] == "Agents reported 1 tool of box as broken (2 times)."
    assert [one["where"] for one in examined.report["findings"] if one["code"] == "server_grows"] == ["box", "other"]
    assert "'later'" in examined.of("definitions_held")["message"]
    assert "k1" in examined.of("key_expired")["message"]
    assert examined.of("server_unused")["message"].startswith("No tool of box ")


async def test_rows_that_cannot_be_read_are_said(postgres_cluster: Cluster, postgres_database: str) -> None:
    """D3: a table that the user may not read, and one that is gone."""
    url = postgres_cluster.url(postgres_database)
    await fill(url)
    taken = f"ALTER TABLE tool_reports OWNER TO CURRENT_USER; REVOKE ALL ON tool_reports FROM {USER}"
    postgres_cluster.sql(taken, postgres_database)
    assert list(await codes(url)) == ["database_read_only"]
    postgres_cluster.sql("DROP TABLE tool_reports", postgres_database)
    said = 'The tables on the database server cannot be read: relation "tool_reports" does not exist.'
    assert await codes(url) == {"database_damaged": said}
    assert await count_calls(url, time.time()) == {"other": 1}


async def test_rows_that_are_kept_locked_cost_bounded_time(
    place: Place, postgres_cluster: Cluster, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: what could be found without them is there, with a line about the database."""
    url = postgres_cluster.url(postgres_database)
    await fill(url)
    monkeypatch.setattr(examine, "_DISK", 1.0)
    machine = Machine("linux", place.home, place.env, place.here)
    wanted = Examination(machine, place.env, place.configure(storage=url), connect=False)
    engine = Engine(full_url(url), None)
    async with engine.raw.begin() as connection:
        await connection.exec_driver_sql("LOCK TABLE pinned_items")
        report = await examine.examine(wanted)
    await engine.close()
    assert [one.message for one in report.findings if one.code == "check_unfinished"] == [
        "The check of the database did not end within 1 s."
    ]
    report = await examine.examine(wanted)
    assert {"tools_reported", "server_asks"} <= {one.code for one in report.findings}
