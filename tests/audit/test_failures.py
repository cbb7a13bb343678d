"""A database that takes no rows: locked, full, read-only, replaced. Nothing is lost, or it is told how much."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from aggregator.audit import writer
from aggregator.audit.rows import row
from aggregator.audit.spill import Spill, waiting_beside
from aggregator.domain.call_record import AuditEvent
from aggregator.domain.errors import NotRecorded
from aggregator.storage.audit.chain import ChainBatch, Head, entry
from aggregator.storage.audit.log import AuditRows
from aggregator.storage.database import open_database
from aggregator.storage.engine import sqlite
from aggregator.storage.opening import Database
from tests.audit.logs import NOTHING, all_written, make_call, numbers, rows, running_log, verdict_on
from tests.polling import until


@pytest.fixture
async def hasty(url: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A database that does not wait long for a lock, under a log that tries again at once."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.01)
    async with open_database(url) as database:
        yield database


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program keeps the database to itself."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def changed(path: Path, statement: str, patience: float = 10.0) -> None:
    with closing(sqlite3.connect(path, timeout=patience, isolation_level=None)) as connection:
        connection.execute(statement)


async def test_rows_wait_for_a_locked_database(hasty: Database, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """D9: Calls go on meanwhile, the operator gets one line, and no row is lost."""
    caplog.set_level("INFO")
    async with running_log(hasty) as log:
        with locked(path):
            log.record(make_call(1))
            await until(lambda: log.problem is not None)
            assert "kept locked" in (log.problem or "")
            await log.wait_for_space("t")
            log.record(make_call(2))
            assert "failing" in repr(log)
        await all_written(log)
        assert log.problem is None
    assert numbers(path) == [1, 2]
    assert caplog.text.count("cannot be written") == 1
    assert caplog.text.count("are written again") == 1


class Hanging:
    """The rows of a database that takes a batch and is silent until `answers` is set, as behind a dead network."""

    def __init__(self, rows: AuditRows) -> None:
        self._rows = rows
        self.answers = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def append(self, batch: ChainBatch) -> tuple[Head, int]:
        await self.answers.wait()
        return await self._rows.append(batch)


async def test_a_database_that_does_not_answer_is_named(
    hasty: Database, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """D9: Rows wait in files meanwhile, so that nothing else shows that none of them reaches the database."""
    monkeypatch.setattr(writer, "STALLED_AFTER", 0.05)
    monkeypatch.setattr(writer, "ASIDE_AFTER", 0.02)
    hanging = Hanging(hasty.audit)
    async with running_log(hasty, rows=hanging) as log:
        assert log.stalled is None
        log.record(make_call(1))
        await until(lambda: log.stalled is not None)
        log.record(make_call(2))
        await until(lambda: log.report()["put_aside"] > 0)
        await until(lambda: "has not answered" in str(log.report()["problem"]))
        await until(lambda: caplog.text.count("has not answered") == 1)
        assert log.problem is None
        await log.wait_for_space("t")
        hanging.answers.set()
        await until(lambda: sorted(numbers(path)) == [1, 2])
        await until(lambda: log.stalled is None)
        await until(lambda: not log._writer.unfinished)
        assert not log._writer.full(0), "what was late is written, and takes no room any more"


async def test_strict_makes_no_call_that_cannot_be_recorded(hasty: Database, path: Path) -> None:
    """D9: The one under way is refused after the fact, its row written later; the next is refused before."""
    async with running_log(hasty, strict=True) as log:
        with locked(path):
            first = make_call(1)
            await log.wait_for_space("crm.list_orders")
            log.record(first)
            with pytest.raises(NotRecorded, match=r"outcome of .* is withheld"):
                await log.written(first)
            with pytest.raises(NotRecorded, match="was not called"):
                await log.wait_for_space("crm.list_orders")
            with pytest.raises(NotRecorded):
                await log.written(first)
        await until(lambda: log.problem is None)
        await log.wait_for_space("crm.list_orders")
        second = make_call(2)
        log.record(second)
        await log.written(second)
        assert numbers(path) == [1, 2]


async def test_too_many_rows_wait_in_files(hasty: Database, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: They are added once, by whoever comes first, and the log says so."""
    monkeypatch.setattr(writer, "ROWS_AT_MOST", 10)
    monkeypatch.setattr(writer, "BATCH", 3)
    monkeypatch.setattr(writer, "FILE", 4)
    with locked(path):
        async with running_log(hasty) as log:
            for number in range(100):
                await log.wait_for_space("t")
                log.record(make_call(number))
                if number == 3:
                    await until(lambda: log.problem is not None)
            await until(lambda: log.report()["put_aside"] > 50)
            await until(lambda: log.report()["waiting"] < 10)
            assert numbers(path) == []
        assert log.report()["put_aside"] == 100
    files = waiting_beside(path)
    assert len(files) >= 25
    assert {oct(file.stat().st_mode)[-3:] for file in files} == {"600"}
    async with running_log(hasty) as one, running_log(hasty) as other:
        one.record(make_call(100))
        other.record(make_call(101))
        await until(lambda: len(numbers(path)) == 102 and not waiting_beside(path))
        # On a busy machine, one log may find the database locked by the other.
        late = one.report()["put_aside"] + other.report()["put_aside"]
    assert sorted(numbers(path)) == list(range(102))
    told = rows(path, "SELECT summary FROM audit_events WHERE kind = 'log_recovered'")
    assert sum(int(summary.split()[0]) for summary in told) == 100 + late
    assert (await verdict_on(path)).faults == ()


async def test_rows_come_back_while_the_log_runs(hasty: Database, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROWS_AT_MOST", 10)
    async with running_log(hasty) as log:
        with locked(path):
            for number in range(50):
                await log.wait_for_space("t")
                log.record(make_call(number))
                if number == 3:
                    await until(lambda: log.problem is not None)
            await until(lambda: log.report()["put_aside"] > 20)
        await until(lambda: len(numbers(path)) == 50)
        await until(lambda: not waiting_beside(path))
    assert sorted(numbers(path)) == list(range(50))


async def test_a_file_is_added_once_whoever_dies(database: Database, path: Path) -> None:
    """A process that is killed between the commit and the end of the file leaves a file that is in the log already."""
    spill = Spill(path, 2**20)
    kept = spill.keep([entry("policy_reloaded", {"at": 1.0, "summary": "Once."})], None, 1.0)
    text = kept.read_bytes()
    for _ in range(2):
        kept.write_bytes(text)
        async with running_log(database) as log:
            log.event(AuditEvent("policy_reloaded", 2.0, "A new start."))
            await until(lambda: not kept.exists())
    assert rows(path, "SELECT summary FROM audit_events WHERE kind = 'policy_reloaded'").count("Once.") == 1


async def test_a_file_that_is_not_taken_is_tried_again(
    hasty: Database, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """D9: Also where no row comes any more; it is told once, and keeps back neither rows nor other files."""
    spill = Spill(path, 2**20)
    good = spill.keep([entry("policy_reloaded", {"at": 1.0, "summary": "Good."})], None, 1.0)
    text = good.read_bytes()
    unreadable = Path(f"{path}.unwritten-0.jsonl")
    unreadable.symlink_to(path.parent)
    async with running_log(hasty) as log:
        log.record(make_call(1))
        await until(lambda: not good.exists())
        await all_written(log)
        for number in (2, 3):
            log.record(make_call(number))
            await all_written(log)
        part = path.with_suffix(".part")
        part.write_bytes(text)
        part.replace(unreadable)
        await until(lambda: not unreadable.exists())
    assert numbers(path) == [1, 2, 3]
    assert caplog.text.count("is tried again") == 1
    assert rows(path, "SELECT summary FROM audit_events WHERE kind = 'policy_reloaded'") == ["Good.", "Good."]


async def test_files_that_are_no_rows_are_set_aside(
    database: Database, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = Spill(path, 2**20).keep([entry("policy_reloaded", {"at": 1.0, "summary": "Good."})], None, 1.0)
    head = b'{"rows": 1, "tried": null}\n'
    bad = {
        "1": b"",
        "2": b"no JSON",
        "3": head + b'["call", {"trace_id": ["a list"]}]\n',
        "4": head,
        "5": head + b'["policy_reloaded", {"at": 1.0, "summary": "s", "a_column_of_tomorrow": "x"}]\n',
        "6": b'{"tried": null}\n',
        "7": head + b'["policy_reloaded", {"at": 1.0, "summary": "s", "seq": 7}]\n',
        "8": head + b'["policy_reloaded", {"at": 1.0, "summary": "s", "kind": "call_begun"}]\n',
    }
    for name, text in bad.items():
        Path(f"{path}.unwritten-{name}.jsonl").write_bytes(text)
    async with running_log(database) as log:
        log.record(make_call(1))
        await until(lambda: not waiting_beside(path) and caplog.text.count(".refused") >= len(bad))
    assert len(list(path.parent.glob("*.refused"))) == len(bad)
    assert not good.exists()
    assert (numbers(path), log.problem) == ([1], None)
    assert caplog.text.count(".refused") == len(bad)
    assert (await verdict_on(path)).faults == ()


async def test_what_is_lost_is_told(
    hasty: Database, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """D9: Neither the database nor a file takes rows: calls go on, and the gap has its own row."""
    monkeypatch.setattr(writer, "ROWS_AT_MOST", 10)
    monkeypatch.setattr(writer, "BATCH", 1)
    async with running_log(hasty, at_most=1) as log:
        with locked(path):
            for number in range(30):
                log.record(make_call(number))
            await until(lambda: log.report()["lost"] > 0)
            lost = log.report()["lost"]
        await until(lambda: len(rows(path, "SELECT 1 FROM audit_events")) == 1)
    assert rows(path, "SELECT kind, summary FROM audit_events") == [
        ("log_gap", f"{lost} rows were lost: neither the database nor a file beside it took them.")
    ]
    assert len(numbers(path)) + lost == 30
    assert caplog.text.count("audit rows are lost") == 1


async def test_a_full_disk(hasty: Database, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: Rows wait until there is room again."""
    full, begin = True, sqlite._begin

    def with_room(connection: Connection) -> None:
        begin(connection)
        connection.exec_driver_sql(f"PRAGMA max_page_count = {1 if full else 1_000_000}")

    monkeypatch.setattr(sqlite, "_begin", with_room)
    async with running_log(hasty) as log:
        for number in range(200):
            log.record(make_call(number))
        await until(lambda: log.problem is not None)
        assert "no room left" in (log.problem or "")
        full = False
        await all_written(log)
    assert numbers(path) == list(range(200))
    assert (await verdict_on(path)).faults == ()


async def test_a_file_that_is_taken_away(hasty: Database, path: Path) -> None:
    """D9: Rows are not written into a file that has no name any more; they are in the next one, which is made for them
    and says that others are missing."""
    async with running_log(hasty) as log:
        log.record(make_call(1))
        await all_written(log)
        for file in list(path.parent.iterdir()):
            file.unlink()
        log.record(make_call(2))
        await all_written(log)
    assert numbers(path) == [2]
    told = "The record of the end of the log did not fit; rows behind number 0 may have been cut off."
    assert rows(path, "SELECT kind, summary FROM audit_events") == [("log_mended", told)]
    assert (await verdict_on(path)).faults == ()


async def test_the_end_does_not_wait_for_ever(hasty: Database, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """D9: What is not written in time lies in a file, and is in the log after the next start."""
    with locked(path):
        async with running_log(hasty) as log:
            log.record(make_call(1))
            await asyncio.sleep(0)
    assert (len(waiting_beside(path)), numbers(path)) == (1, [])
    assert "into a file beside the database" in caplog.text
    async with running_log(hasty) as log:
        log.record(make_call(2))
        await until(lambda: not waiting_beside(path))
    assert sorted(numbers(path)) == [1, 2]


async def test_a_head_that_was_set_back_does_not_end_the_log(
    hasty: Database, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows are still taken; that somebody was there is seen."""
    async with running_log(hasty) as log:
        for number in range(3):
            log.record(make_call(number))
        await all_written(log)
        for change in ("UPDATE audit_heads SET seq = 1", "DELETE FROM audit_heads"):
            await asyncio.to_thread(changed, path, change)
            log.record(make_call(3))
            await all_written(log)
    assert numbers(path) == [0, 1, 2, 3, 3]
    assert "does not fit" in caplog.text
    assert (await verdict_on(path)).faults == ()


async def test_a_write_that_is_given_up_keeps_no_lock(hasty: Database, path: Path) -> None:
    """D9: A connection that is closed with a statement unfinished, as by a cancellation, rolls back at once."""
    raw = await hasty.engine.raw.raw_connection()
    driver = raw.driver_connection
    assert driver is not None
    await driver.execute("BEGIN IMMEDIATE")
    unfinished = await driver.execute("SELECT 1 UNION SELECT 2")
    await driver.close()
    await asyncio.to_thread(changed, path, "INSERT INTO changes VALUES (1, 'x', NULL, 0, NULL)", 0.05)
    raw.invalidate()
    assert unfinished is not None


async def test_damaged_pages_are_noticed_at_the_start(
    url: str, made: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only when somebody reads them, which may be after a year; the log goes on, and a whole one is no news.

    Proves: E1
    """
    async with open_database(url) as database:
        await database.audit.append(
            ChainBatch([row(make_call(number, user_id="to-find"), NOTHING) for number in range(400)])
        )
        assert await database.audit.damage() is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    at = whole.index(b"to-find", len(whole) // 2) // 4096 * 4096
    path.write_bytes(whole[:at] + b"\xff" * 64 + whole[at + 64 :])
    async with open_database(url) as opened, running_log(opened) as log:
        log.record(make_call(1000))
        await until(lambda: log.damage is not None)
        assert str(path) in str(log.damage)
        assert "in its table mcp_tool_call_log" in caplog.text
    assert rows(path, "SELECT count(*) FROM api_keys") == [0]
