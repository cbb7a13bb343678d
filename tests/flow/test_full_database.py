"""A database that really is full, or whose table another one keeps locked: what cannot be committed reaches no host."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pytest

from aggregator.flow.storage import FlowRow
from aggregator.storage.database import open_database
from aggregator.storage.engine import postgres_connections
from aggregator.storage.errors import StorageError
from tests.access.gateway_harness import MODERN, error_data
from tests.flow.flow_harness import FlowHarness, MovedClock, traced

SHORT: Final = 0.5
# Rows in a row that find no page.
_REFUSED: Final = 20


@asynccontextmanager
async def two_processes(folder: Path, storage: str) -> AsyncIterator[tuple[FlowHarness, FlowHarness]]:
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            harness = await stack.enter_async_context(FlowHarness(folder, MovedClock(), storage=storage))
            await stack.enter_async_context(harness.app.database)
            harness.app.replication.enabled = True
            found.append(harness)
        yield found[0], found[1]


@pytest.mark.parametrize("how", ["trace", "session"])
async def test_a_full_database(tmp_path: Path, how: str) -> None:
    """SQLite may take no further page: it can be read, and not written."""
    file = tmp_path / "shared.db"
    async with two_processes(tmp_path, f"sqlite+aiosqlite:///{file}") as (one, two):
        more: Any = {"_meta": traced()} if how == "trace" else {}
        host = one.host("ada", MODERN) if how == "trace" else one.legacy()
        other = two.host("ada", MODERN) if how == "trace" else two.legacy()
        # The tables are made, and each process has the database open.
        assert await one.outcome(host, "mail.list", **more) == "ok"
        assert await two.outcome(other, "mail.list", **more) == "ok"
        for harness in (one, two):
            await fill(harness)
        answer = await one.call(host, "web.fetch", **more)
        assert error_data(answer)["code"] == "flow_unknown"
        assert "did fetch" not in str(answer)
        assert await two.outcome(other, "mail.send", **more) == "ok"
        for harness in (one, two):
            await make_room(harness)
        assert await one.outcome(host, "web.fetch", **more) == "ok"
        assert await two.outcome(other, "mail.send", **more) == "not_confirmed"


async def fill(harness: FlowHarness) -> None:
    """Have the database grow no more, and no page of the labels take one more row."""
    database = await harness.app.database.open()
    assert database is not None
    async with database.engine.write() as connection:
        await connection.exec_driver_sql("PRAGMA max_page_count = 1")
    refused = list[str]()
    while len(refused) < _REFUSED:
        # Shorter than any row of a call, and all over the table.
        row = FlowRow(token_hex(), "x", "", "", "", "", None, 0.0, 0.0, 0.0)
        try:
            await database.flow.note([row])
        except StorageError as error:
            refused.append(str(error))
        else:
            refused.clear()
    assert all("full" in one for one in refused), refused


async def make_room(harness: FlowHarness) -> None:
    database = await harness.app.database.open()
    assert database is not None
    async with database.engine.write() as connection:
        await connection.exec_driver_sql("PRAGMA max_page_count = 1000000")


async def test_a_locked_table(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL: it can be neither read nor written while a maintenance holds it; then neither reading nor sending."""
    monkeypatch.setattr(postgres_connections, "_LOCK", SHORT)
    async with two_processes(tmp_path, postgres_url) as (one, two), open_database(postgres_url) as other:
        host, more = one.host("ada", MODERN), dict[str, Any](_meta=traced())
        assert await one.outcome(host, "mail.list", **more) == "ok"
        for mode in ("SHARE", "ACCESS EXCLUSIVE"):
            async with other.engine.write() as connection:
                await connection.exec_driver_sql(f"LOCK TABLE flow_labels IN {mode} MODE")
                answer = await one.call(host, "web.fetch", **more)
                assert error_data(answer)["code"] == "flow_unknown"
                assert "did fetch" not in str(answer)
                sent = await two.outcome(two.host("ada", MODERN), "mail.send", **more)
                assert sent == ("ok" if mode == "SHARE" else "flow_unknown")
        assert await one.outcome(host, "web.fetch", **more) == "ok"
        assert await two.outcome(two.host("ada", MODERN), "mail.send", **more) == "not_confirmed"
