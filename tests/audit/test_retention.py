"""Old rows go, in bounded steps, and what stays can still be proved."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest

from aggregator.audit.log import AuditLog
from aggregator.audit.rows import row
from aggregator.domain.call_record import AuditEvent
from aggregator.storage.audit import log as audit_log
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.errors import StorageError
from aggregator.storage.opening import Database
from aggregator.storage.retention import RetentionRules, prune, would_prune
from tests.audit.logs import AT, NOTHING, all_written, make_call, numbers, rows, verdict_on
from tests.polling import BOUND, until

Running = Callable[..., AbstractAsyncContextManager[AuditLog]]


async def _fill(database: Database, count: int, *, events: int = 0) -> None:
    for number in range(count):
        await database.audit.append(ChainBatch([row(make_call(number, duration=0.0), NOTHING)]))
        if number < events:
            event = AuditEvent("approval", AT + number, "approved")
            await database.audit.append(ChainBatch([row(event, NOTHING)]))


async def test_rows_older_than_wanted_go(database: Database, path: Path) -> None:
    """D9: Calls and events alike, oldest first, and no younger one."""
    await _fill(database, 10, events=10)
    assert await database.audit.trim(before=AT + 6, keep_bytes=None, now=AT + 100) == 12
    assert numbers(path) == [6, 7, 8, 9]
    assert rows(path, "SELECT kind, at FROM audit_events ORDER BY seq")[-2:] == [
        ("approval", AT + 9),
        ("log_trimmed", AT + 100),
    ]
    verdict = await verdict_on(path)
    assert (verdict.rows, verdict.faults, verdict.trimmed.seq, verdict.head.seq) == (9, (), 12, 21)
    assert await database.audit.trim(before=AT + 6, keep_bytes=None, now=AT + 100) == 0


@pytest.mark.parametrize(
    ("ages", "left"),
    [
        ([0, 1, 9e8, 3, 8, 9], [8, 9]),
        ([0, 9e8, 9e8, 9e8, 1, 2, 9], [9]),
        ([0, 1, 9e8, 8, 9], [9e8, 8, 9]),
        ([0, 9e8, 9e8], [9e8, 9e8]),
        ([9e8, 9e8, 0, 9], [9]),
        ([0, 1, 86_000, 3, 9], [86_000, 3, 9]),
    ],
)
async def test_rows_of_a_clock_that_was_ahead_do_not_keep_all_behind_them(
    database: Database, path: Path, ages: list[float], left: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9: They go with the row behind them; one that no row follows is of now. What would go is what goes."""
    monkeypatch.setattr(audit_log, "TRIM_STEP", 2)
    for age in ages:
        await database.audit.append(ChainBatch([row(make_call(0, started=AT + age, duration=0.0), NOTHING)]))
    rules, now = RetentionRules(14.0, None), AT + 20
    expected = (await would_prune(database.engine, rules, now=now))[0]
    removed = (await prune(database.engine, database.audit, rules, now=now))[0]
    assert removed == expected
    assert [at - AT for at in rows(path, "SELECT ended FROM mcp_tool_call_log ORDER BY seq")] == left
    assert (await verdict_on(path)).faults == ()


async def test_after_a_leap_of_the_clock_no_row_is_too_old_for_a_while(
    logging_into: Running, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that is ten years ahead for a moment costs no row; if it stays so, they go."""
    times = [AT]
    async with logging_into(keep_for=100.0, clock=lambda: times[0]) as log, asyncio.timeout(BOUND):
        for number in range(3):
            log.record(make_call(number))
        await all_written(log)
        times[0] = AT + 10 * 365 * 86400
        while "leapt ahead" not in caplog.text:
            log._writer._trim_at = None
            log.record(make_call(3))
            await all_written(log)
        assert numbers(path)[:3] == [0, 1, 2]
        # The time that it waits is over.
        log._writer._ages_from = 0.0
        while 0 in numbers(path):
            log._writer._trim_at = None
            log.record(make_call(4))
            await all_written(log)
    assert (await verdict_on(path)).faults == ()


async def test_a_process_with_a_clock_that_is_ahead_removes_nothing_when_it_starts(
    logging_into: Running, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that started with a wrong date, which is set right a moment later, has its whole log."""
    async with logging_into() as log:
        for number in range(3):
            log.record(make_call(number))
    async with logging_into(keep_for=100.0, clock=lambda: AT + 10 * 365 * 86400) as log, asyncio.timeout(BOUND):
        log.record(make_call(3))
        await all_written(log)
        await until(lambda: "leapt ahead" in caplog.text)
        assert numbers(path)[:3] == [0, 1, 2]
        # It stays so for longer than the wait.
        log._writer._ages_from = 0.0
        while 0 in numbers(path):
            log._writer._trim_at = None
            log.record(make_call(4))
            await all_written(log)
    assert (await verdict_on(path)).faults == ()


async def test_the_log_keeps_to_its_size(database: Database, path: Path) -> None:
    """D9: The size is what the rows say it is, and some room is made at once."""
    await _fill(database, 20)
    (size,) = rows(path, "SELECT bytes FROM audit_heads")
    assert [size] == rows(path, "SELECT sum(bytes) FROM mcp_tool_call_log")
    assert await database.audit.trim(before=None, keep_bytes=size, now=AT) == 0
    assert await database.audit.trim(before=None, keep_bytes=size - 1, now=AT) == 3
    assert numbers(path) == list(range(3, 20))
    (left,) = rows(path, "SELECT bytes FROM audit_heads")
    assert left == sum(rows(path, "SELECT bytes FROM mcp_tool_call_log UNION ALL SELECT bytes FROM audit_events"))
    assert (await verdict_on(path)).faults == ()


async def test_all_may_go(database: Database, path: Path) -> None:
    await _fill(database, 3)
    assert await database.audit.trim(before=AT + 1000, keep_bytes=None, now=AT + 2000) == 3
    await _fill(database, 1)
    verdict = await verdict_on(path)
    assert (verdict.rows, verdict.faults, verdict.head.seq) == (2, (), 5)


async def test_the_log_trims_itself(logging_into: Running, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: By age at the start, step by step; by size as soon as it is too large."""
    monkeypatch.setattr(audit_log, "TRIM_STEP", 4)
    async with logging_into() as log:
        for number in range(30):
            log.record(make_call(number, duration=0.0))
    async with logging_into(keep_for=100.0, clock=lambda: AT + 120) as log:
        log.record(make_call(30))
        await until(lambda: numbers(path) == list(range(20, 31)))
    (size,) = rows(path, "SELECT bytes FROM audit_heads")
    async with logging_into(keep_bytes=size) as log:
        await all_written(log)
        for number in range(31, 60):
            log.record(make_call(number))
        await until(lambda: rows(path, "SELECT bytes FROM audit_heads")[0] <= size)
        await all_written(log)
    assert numbers(path)[-1] == 59
    assert (await verdict_on(path)).faults == ()


async def test_a_trim_that_fails_stops_no_row(
    logging_into: Running, database: Database, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(**_: object) -> int:
        raise StorageError("no")

    database.audit.trim = fail  # type: ignore[method-assign]
    async with logging_into(keep_for=1.0) as log:
        log.record(make_call(1))
        await until(lambda: "stay for now" in caplog.text)
        log.record(make_call(2))
    assert (numbers(path), log.problem) == ([1, 2], None)


async def test_rows_that_somebody_else_removed_are_missed(database: Database, path: Path) -> None:
    """D9: Only what the log removed itself is taken for removed."""
    await _fill(database, 6)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM mcp_tool_call_log WHERE seq <= 3")
    (fault,) = (await verdict_on(path)).faults
    assert fault[:2] == (1, "Rows 1 to 3 are missing.")
