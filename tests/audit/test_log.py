"""One row for each call, whatever happens to the log: load, bounds, cancellation, the end."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest

from aggregator.audit import log as log_module
from aggregator.audit import writer
from aggregator.audit.log import AuditLog
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import CallRecord, RecordedCaller
from aggregator.domain.errors import NotRecorded
from aggregator.storage.audit import log as audit_rows
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from tests.audit.logs import all_written, make_call, make_log, numbers, rows, running_log, verdict_on
from tests.polling import until

Running = Callable[..., AbstractAsyncContextManager[AuditLog]]


async def test_counts_agree_under_load(logging_into: Running, path: Path) -> None:
    """D9: Thousands of calls from many tasks: each is one row, in the order in which they ended."""
    ended: list[int] = []

    async def host(log: AuditLog, first: int) -> None:
        for number in range(first, first + 100):
            await log.wait_for_space("crm.list_orders")
            ended.append(number)
            log.record(make_call(number))
            if number % 7 == 0:
                await asyncio.sleep(0)

    async with logging_into() as log:
        await asyncio.gather(*(host(log, 100 * n) for n in range(30)))
    assert numbers(path) == ended
    assert len(ended) == 3000
    assert (await verdict_on(path)).faults == ()


async def test_rows_are_written_while_every_other_thread_is_busy(logging_into: Running, path: Path) -> None:
    """Proves: D9, D11. A catalog of 50,000 tools kept all threads busy, and calls were refused for want of a row."""
    done = threading.Event()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as busy:
        loop.set_default_executor(busy)
        held = [loop.run_in_executor(None, done.wait, 60) for _ in range(3)]
        try:
            async with logging_into(strict=True) as log:
                for number in range(3):
                    await log.wait_for_space("crm.list_orders")
                    call = make_call(number)
                    log.record(call)
                    await log.written(call)
                assert numbers(path) == [0, 1, 2]
        finally:
            done.set()
            await asyncio.wait(held)


async def test_rows_are_written_together(logging_into: Running, path: Path, database: Database) -> None:
    commits = 0
    append = database.audit.append

    async def counted(batch: object) -> object:
        nonlocal commits
        commits += 1
        return await append(batch)  # type: ignore[arg-type]

    database.audit.append = counted  # type: ignore[assignment, method-assign]
    async with logging_into(flush_interval=60.0) as log:
        for number in range(999):
            log.record(make_call(number))
        await asyncio.sleep(0)
        assert (commits, numbers(path)) == (0, [])
        log.record(make_call(999))
        await all_written(log)
    assert len(numbers(path)) == 1000
    assert commits <= 4


async def test_the_event_loop_has_its_turn_while_rows_get_their_places(
    logging_into: Running, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its thread, the writer rests after every 32 rows: each call of that time would wait for all of them else."""
    rests: list[threading.Thread] = []
    monkeypatch.setattr(audit_rows, "_rest", lambda: rests.append(threading.current_thread()))
    async with logging_into(flush_interval=60.0) as log:
        for number in range(1000):
            log.record(make_call(number))
        await all_written(log)
    assert numbers(path) == list(range(1000))
    assert len(rests) == 1000 // 32
    assert threading.main_thread() not in rests


async def test_nothing_is_opened_for_nothing(path: Path) -> None:
    async def opened() -> None:
        raise AssertionError

    async with open_database(f"sqlite+aiosqlite:///{path}") as database:
        log = make_log(database)
        log._writer._open_rows = opened  # type: ignore[assignment]
        async with Tasks("a test") as tasks:
            tasks.start(log.run())
            await asyncio.sleep(0)
        await log.close()
    assert log.problem is None


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 12, 17, 23, 30, 38, 47, 57, 68, 80])
async def test_a_log_that_is_cancelled_anywhere_writes_each_row_once(
    database: Database, path: Path, steps: int
) -> None:
    """D9: Also where the cancellation falls into a commit of which nobody knows whether it worked."""
    log = make_log(database, flush_interval=0.001)
    async with asyncio.timeout(20), Tasks("a test") as tasks:
        tasks.start(log.run())
        for number in range(20):
            log.record(make_call(number))
            for _ in range(steps):
                await asyncio.sleep(0)
        await tasks.cancel()
    for number in range(20, 30):
        log.record(make_call(number))
    await log.close()
    assert numbers(path) == list(range(30))
    assert (await verdict_on(path)).faults == ()


async def test_a_commit_whose_end_nobody_saw(
    logging_into: Running, database: Database, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The row is in the database, but whoever wrote it was told of a failure: it is not written again."""
    append, failures = database.audit.append, 2

    async def unseen(batch: object) -> object:
        nonlocal failures
        done = await append(batch)  # type: ignore[arg-type]
        if failures:
            failures -= 1
            raise RuntimeError("the connection was lost")
        return done

    database.audit.append = unseen  # type: ignore[assignment, method-assign]
    async with logging_into() as log:
        log.record(make_call(1))
        await all_written(log)
        log.record(make_call(2))
    assert numbers(path) == [1, 2]
    assert caplog.text.count("cannot be written") == 1


async def test_what_comes_after_the_end_is_kept(database: Database, path: Path) -> None:
    """D9: A call that ends when the log is closed already is in the log of the next start."""
    async with running_log(database) as log:
        log.record(make_call(1))
    log.record(make_call(2))
    assert numbers(path) == [1]
    async with running_log(database) as log:
        log.record(make_call(3))
        await until(lambda: len(numbers(path)) == 3)
    assert sorted(numbers(path)) == [1, 2, 3]
    assert (await verdict_on(path)).faults == ()


async def test_calls_wait_for_room(database: Database, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: When rows come faster than they can be written, calls wait, and not without end."""
    monkeypatch.setattr(writer, "ROWS_AT_MOST", 5)
    log = make_log(database)
    for number in range(5):
        await log.wait_for_space("t")
        log.record(make_call(number))
    waiting = asyncio.ensure_future(log.wait_for_space("t"))
    await asyncio.sleep(0)
    assert not waiting.done()
    async with Tasks("a test") as tasks:
        tasks.start(log.run())
        async with asyncio.timeout(5):
            await waiting
    monkeypatch.setattr(log_module, "PATIENCE", 0.01)
    for number in range(5, 11):
        log.record(make_call(number))
    await log.wait_for_space("t")
    await log.close()
    assert numbers(path) == list(range(11))


async def test_strict_answers_after_the_commit(logging_into: Running, path: Path) -> None:
    """D9: What was waited for is in the file, which another connection reads at once."""
    async with logging_into(strict=True, flush_interval=60.0) as log:

        async def call(number: int) -> None:
            record = make_call(number)
            await log.wait_for_space("t")
            log.record(record)
            await log.written(record)
            assert number in numbers(path)

        await asyncio.gather(*(call(number) for number in range(50)))
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM mcp_tool_call_log").fetchone() == (50,)


async def test_default_waits_for_nothing(logging_into: Running, path: Path) -> None:
    async with logging_into(flush_interval=60.0) as log:
        log.record(make_call(1))
        await log.written(make_call(1))
        assert numbers(path) == []


async def test_a_bug_in_a_row_costs_that_row(
    logging_into: Running, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with logging_into() as log:
        log.record(make_call(1))
        log.record(make_call(2, duration="long"))
        log.record(CallRecord(None, 0.0, RecordedCaller("", ""), ""))  # type: ignore[arg-type]
        log.record(make_call(3))
    assert numbers(path) == [1, 3]
    told = rows(path, "SELECT summary FROM audit_events WHERE kind = 'log_gap' ORDER BY seq")
    assert told == ["A row could not be made: ValueError.", "A row could not be made: AttributeError."]
    assert "could not be made" in caplog.text


async def test_strict_refuses_once_the_wait_is_over(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "PATIENCE", 0.01)
    log = make_log(database, strict=True)
    record = make_call(1)
    log.record(record)
    with pytest.raises(NotRecorded, match="may have taken effect") as refused:
        await log.written(record)
    assert refused.value.to_result()["_meta"]["aggregator/error"]["code"] == "audit_unavailable"
    await log.close()
