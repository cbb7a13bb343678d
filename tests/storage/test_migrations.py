"""The migrations and the tables say the same, from whatever revision one starts."""

import asyncio
import logging
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from aggregator.storage import opening
from aggregator.storage.database import open_database
from aggregator.storage.engine import migrate
from aggregator.storage.engine.create import create_tables
from aggregator.storage.engine.files import make_file
from aggregator.storage.errors import StorageError
from aggregator.storage.records import KeyRecord
from aggregator.storage.tables import REVISION, metadata
from tests.storage.next_revision import NEXT, UNKNOWN, add_next_revision

pytestmark = pytest.mark.usefixtures("made_databases")

SCRIPTS = ScriptDirectory(str(migrate.FOLDER))
# Indexes for databases in which processes write at the same time, which SQLite does not have.
WITHOUT_TURNS = {"ix_mcp_tool_call_log_chain_seq", "ix_audit_events_chain_seq"}
REVISIONS = [script.revision for script in SCRIPTS.walk_revisions()]


def test_the_stamp_in_the_code_is_the_newest_revision() -> None:
    assert SCRIPTS.get_heads() == [REVISION]


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    found = list(compare_metadata(context, metadata))
    if connection.dialect.name != "sqlite":
        return found
    return [one for one in found if one[0] != "add_index" or one[1].name not in WITHOUT_TURNS]


@pytest.mark.parametrize("first", [None, *REVISIONS])
async def test_every_way_up_leads_to_the_tables(path: Path, url: str, first: str | None) -> None:
    if first is not None:
        make_file(path)
        await asyncio.to_thread(migrate.upgrade, url, path, first)
    async with open_database(url) as database, database.engine.read() as connection:
        assert await connection.run_sync(_differences) == []
        constraints = await connection.run_sync(lambda sync: inspect(sync).get_check_constraints("approvals"))
        keys = await connection.run_sync(lambda sync: inspect(sync).get_pk_constraint("api_keys"))
    assert [constraint["name"] for constraint in constraints] == ["ck_approvals_status"]
    assert keys["name"] == "pk_api_keys"


async def test_a_new_database_is_made_as_the_migrations_make_it(path: Path, url: str) -> None:
    """But for the order of the columns, and the constraints that SQLite keeps as text."""
    make_file(path)
    await asyncio.to_thread(migrate.upgrade, url, path, REVISION)
    migrated = _schema(path)
    await asyncio.to_thread(path.unlink)
    async with open_database(url):
        pass
    assert _schema(path) == migrated


def _schema(path: Path) -> dict[str, object]:
    """Return the columns, indexes, foreign keys and constraints of each table, the rows it begins with, and the names
    of all that is no table.
    """
    with closing(sqlite3.connect(path)) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        tables = dict(rows("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"))
        others = {"": rows("SELECT type, name FROM sqlite_master WHERE type <> 'table' ORDER BY name")}
        return others | {
            table: (
                sorted(column[1:] for column in rows(f"PRAGMA table_info({table})")),
                sorted(index[1:] for index in rows(f"PRAGMA index_list({table})")),
                sorted(rows(f"PRAGMA foreign_key_list({table})")),
                sorted(re.findall(r"CONSTRAINT \w+", sql)),
                re.findall(r"CHECK \((.*)\)", sql),
                rows(f"SELECT * FROM {table}"),  # noqa: S608
            )
            for table, sql in tables.items()
        }


async def test_a_new_database_is_made_whole_or_not_at_all(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: Connection) -> bool:
        create_tables(connection)
        raise RuntimeError("killed half-way")

    monkeypatch.setattr(opening, "create_tables", fail)
    with pytest.raises(RuntimeError, match="half-way"):
        async with open_database(url):
            pass
    monkeypatch.undo()
    assert _schema(path) == {"": []}
    async with open_database(url) as database:
        assert await database.keys.all() == []


async def test_a_new_database_needs_no_alembic(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, migrate.__name__, None)
    async with open_database(url) as database:
        assert await database.keys.all() == []


async def test_the_next_step_keeps_what_is_there(
    path: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: keys outlive a change of the schema."""
    async with open_database(url) as database:
        await database.keys.add(KeyRecord("k", "bot", "h"))
    add_next_revision(tmp_path / "migrations", monkeypatch)
    async with open_database(url) as database:
        assert [key.agent_id for key in await database.keys.all()] == ["bot"]
    assert _columns(path)[-1] == "note"
    assert _stamp(path) == NEXT


async def test_a_step_that_fails_changes_nothing(
    path: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_database(url):
        pass
    before = _schema(path)
    add_next_revision(tmp_path / "migrations", monkeypatch)

    def fail(config: Config, revision: str) -> None:
        upgrade(config, revision)
        config.attributes["connection"].exec_driver_sql("CREATE TABLE half (done INTEGER)")
        raise RuntimeError("killed half-way")

    upgrade = command.upgrade
    with monkeypatch.context() as failing:
        failing.setattr(command, "upgrade", fail)
        with pytest.raises(RuntimeError, match="half-way"):
            async with open_database(url):
                pass
    assert _schema(path) == before
    async with open_database(url) as database:
        assert await database.keys.all() == []
    assert _stamp(path) == NEXT


async def test_a_stamp_that_no_version_wrote(
    path: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_database(url) as database, database.engine.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = :stamp"), {"stamp": UNKNOWN})
    add_next_revision(tmp_path / "migrations", monkeypatch)
    before = _schema(path)
    with pytest.raises(StorageError, match=r"cannot be brought up to date.*" + UNKNOWN):
        async with open_database(url):
            pass
    assert _schema(path) == before


def _columns(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [str(row[1]) for row in connection.execute("PRAGMA table_info(api_keys)")]


def _stamp(path: Path) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]


async def test_two_stamps_are_refused(url: str) -> None:
    async with open_database(url) as database, database.engine.write() as connection:
        await connection.execute(text("INSERT INTO alembic_version VALUES ('0000')"))
    with pytest.raises(StorageError, match="more than one"):
        async with open_database(url):
            pass


async def test_migrating_is_quiet(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_database(url):
        pass
    assert caplog.text == ""
