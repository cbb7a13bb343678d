"""A database comes back as it was, whichever stores it went through."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import CheckConstraint, Float, Integer, Table

from aggregator.audit.rows import row
from aggregator.domain.call_record import AuditEvent
from aggregator.flow.storage import CALLED, LISTED, FlowRow
from aggregator.storage.audit.chain import ChainBatch, ChainKey
from aggregator.storage.backup.contents import AUDIT, LEFT_OUT
from aggregator.storage.database import open_database
from aggregator.storage.records import Definition, ItemList, ItemText, ServerCatalog
from aggregator.storage.tables import metadata
from tests.audit.logs import AT, NOTHING, make_call
from tests.backup.databases import add_rows, backed_up, content, make_database, migrated, restored, url_of
from tests.postgres.cluster import Cluster

CHAIN_KEY: Final = "a secret of 32 or more characters"
STATUSES: Final = ("pending", "approved", "denied", "used")
# Tables whose rows stand for themselves; the audit has its own way in, and lists of tools refer to others.
PLAIN: Final = tuple(
    table
    for table in metadata.sorted_tables
    if table.name not in AUDIT and table.name not in LEFT_OUT and not table.foreign_key_constraints
)

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False, width=64)


def rows_of(table: Table) -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    """Return some rows of a table, with all that its columns allow."""
    columns: dict[str, st.SearchStrategy[Any]] = {}
    has_status = any(isinstance(one, CheckConstraint) for one in table.constraints)
    for column in table.columns:
        values: st.SearchStrategy[Any] = texts
        if isinstance(column.type, Integer):
            values = st.integers(-(2**31), 2**31 - 1)
        elif isinstance(column.type, Float):
            values = floats
        elif has_status and column.name == "status":
            values = st.sampled_from(STATUSES)
        columns[column.name] = values if not column.nullable else st.none() | values
    keys = [column.name for column in table.primary_key.columns]
    some = st.lists(st.fixed_dictionaries(columns), max_size=3, unique_by=lambda row: tuple(row[key] for key in keys))
    return some.map(lambda rows: [(table.name, values) for values in rows])


contents = st.tuples(*map(rows_of, PLAIN)).map(lambda tables: [row for rows in tables for row in rows])
entries = st.lists(
    st.one_of(
        st.builds(lambda number, name: make_call(number, asked_name=name or "x"), st.integers(0, 10**6), texts),
        st.builds(lambda at, text: AuditEvent("console", AT + at, text), st.integers(0, 10**6), texts),
    ),
    max_size=6,
)


@pytest.mark.timeout(300)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=contents, records=entries)
def test_sqlite_to_postgresql_and_back(postgres_cluster: Cluster, rows: Any, records: Any) -> None:
    """By backups and by copies: every row of every table is as it was, and the audit log proves itself each time.

    Proves: F21, F22
    """

    async def through(folder: Path, server: str, second: str) -> None:
        first = url_of(folder / "a.db")
        async with open_database(first) as database:
            await add_rows(database, rows)
            if records:
                await database.audit.append(ChainBatch([row(record, NOTHING) for record in records]))
        before = await content(first)
        there = await restored(server, await backed_up(first))
        back = await restored(url_of(folder / "b.db"), await backed_up(server))
        assert there.audit is not None
        assert back.audit is not None
        assert there.audit.rows == back.audit.rows == len(records)
        assert await content(server) == before
        assert await content(url_of(folder / "b.db")) == before
        await migrated(first, second)
        await migrated(second, url_of(folder / "c.db"))
        assert await content(url_of(folder / "c.db")) == before

    names = [postgres_cluster.new_database() for _ in range(2)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(through(Path(folder), *map(postgres_cluster.url, names)))
    finally:
        for name in names:
            postgres_cluster.drop_database(name)


def test_what_belongs_to_an_entry_goes_both_ways(postgres_cluster: Cluster, tmp_path: Path) -> None:
    """Pins with the entry that they are of, kept lists of all kinds, and how sessions began.

    Proves: F21
    """
    name = postgres_cluster.new_database()
    server, second = postgres_cluster.url(name), url_of(tmp_path / "b.db")

    async def through() -> None:
        first = url_of(tmp_path / "a.db")
        async with open_database(first) as database:
            items = (ItemList("prompt", '[{"name":"p"}]'), ItemList("template", "[]"))
            tools = (Definition("t", "1", '{"name":"t"}'),)
            about = ("one", "f" * 64, "stdio", "2025-11-25", "{}", "{}", None)
            await database.catalogs.keep(ServerCatalog(*about, tools, items), now=5.0)
            pin = ItemText("tool", "t", "sha256:1", "v1", '{"name":"t"}')
            database.pins.entries = lambda: {"one": "e" * 48}
            await database.pins.take_baseline("one", [pin], "config", 5.0, ["tool"])
            marks = [FlowRow("d", label, "ada", "session", "s", "", None, 1.0, 1.0, 2e9) for label in (LISTED, CALLED)]
            await database.flow.note(marks)
        before = await content(first)
        assert {row[-2:] for row in before["mcp_item_lists"]} == {("prompt", '[{"name":"p"}]'), ("template", "[]")}
        assert "e" * 48 in before["pinned_items"][0]
        assert {row[1] for row in before["flow_labels"]} == {LISTED, CALLED}
        await restored(server, await backed_up(first))
        assert await content(server) == before
        await restored(second, await backed_up(server))
        assert await content(second) == before
        postgres_cluster.drop_database(name)
        again = postgres_cluster.url(postgres_cluster.new_database())
        await migrated(second, again)
        await migrated(again, url_of(tmp_path / "c.db"))
        assert await content(url_of(tmp_path / "c.db")) == before
        async with open_database(url_of(tmp_path / "c.db")) as database:
            kept = await database.catalogs.fitting(["f" * 64])
            assert kept["f" * 64].items == {"prompt": '[{"name":"p"}]', "template": "[]"}
            database.pins.entries = lambda: {"one": "e" * 48}
            assert [row.digest for row in await database.pins.all("one")] == ["sha256:1"]
            database.pins.entries = lambda: {"one": "f" * 48}
            assert await database.pins.all("one") == []

    asyncio.run(through())


def test_every_table_is_in_a_backup_or_said_to_be_left_out() -> None:
    """Proves: F21."""
    assert LEFT_OUT.keys() <= metadata.tables.keys()
    short_lived = {"kept_results", "kept_result_parts", "tool_vectors"}
    assert {"changes", "replicas", "leases", *short_lived} == set(LEFT_OUT)


@pytest.mark.parametrize("key", [CHAIN_KEY, None])
async def test_a_log_with_a_key_is_proven_with_it(tmp_path: Path, key: str | None) -> None:
    """Proves: F22."""
    await make_database(url_of(tmp_path / "a.db"), chain_key=CHAIN_KEY)
    archive = await backed_up(url_of(tmp_path / "a.db"))
    if key is None:
        with pytest.raises(Exception, match=r"chained with a key") as raised:
            await restored(url_of(tmp_path / "b.db"), archive)
        assert type(raised.value).__name__ == "StorageError"
        assert not (tmp_path / "b.db").exists()
        return
    report = await restored(url_of(tmp_path / "b.db"), archive, key=ChainKey(key))
    assert report.audit is not None
    assert report.audit.keyed_from == 1
