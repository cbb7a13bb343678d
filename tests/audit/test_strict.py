"""Strict mode: a call is on record before it is made, and closed once, whoever is killed when."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.audit.rows import row
from aggregator.domain.call_record import BegunCall
from aggregator.domain.errors import NotRecorded
from aggregator.storage.audit.chain import ChainBatch, entry
from aggregator.storage.audit.log import AuditRows
from aggregator.storage.audit.read import ALL, LogFilter, open_reader
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from tests.audit.logs import NOTHING, all_written, make_call, numbers, rows, running_log, verdict_on
from tests.audit.test_failures import hasty, locked
from tests.audit.test_processes import script
from tests.polling import until
from tests.storage.processes import other_process

_ = hasty  # the fixture of the neighbour

BEGUN = "SELECT count(*) FROM audit_events WHERE kind = 'call_begun'"
STATUSES = "SELECT status FROM mcp_tool_call_log ORDER BY trace_id"
UNDER_WAY = "SELECT count(*) FROM audit_under_way WHERE owner <> ''"

# Calls 0 to 2 are closed, 3 and 4 have begun, and are never answered.
_CALLS = """
for number in range(5):
|    call = make_call(number)
|    await log.begun(call)
|    if number < 3:
|        log.record(call)
|        await log.written(call)
say("begun")
hear()
"""


def _marks(path: Path) -> list[Path]:
    return [one for one in path.parent.iterdir() if ".calls-" in one.name]


async def test_a_killed_process_leaves_no_call_without_a_row(url: str, made: Path) -> None:
    """D9: What had begun is interrupted, written once by the next start, in the chain."""
    with other_process(url, script(_CALLS, strict=True)) as process:
        assert await asyncio.to_thread(process.read) == "begun"
        assert rows(made, BEGUN) == [5], "it is on the disk before the call is made"
        await asyncio.to_thread(process.kill)
    assert len(numbers(made)) == 3
    for _ in range(2):
        async with open_database(url) as database, running_log(database) as log:
            log.record(make_call(10))
            await all_written(log)
            await until(lambda: rows(made, UNDER_WAY) == [0])
    assert rows(made, STATUSES) == ["ok", "ok", "ok", "interrupted", "interrupted", "ok", "ok"]
    assert _marks(made) == []
    query = "SELECT agent_id, tool_name, error_code, arguments_digest, result_digest FROM mcp_tool_call_log"
    (known,) = rows(made, f"{query} WHERE trace_id = '{4:032x}'")
    digest = row(make_call(4), NOTHING).values["arguments_digest"]
    assert known == (
        "shop",
        "crm.list_orders",
        "interrupted",
        digest,
        row(make_call(4), NOTHING).values["result_digest"],
    )
    assert (await verdict_on(made)).faults == ()


async def test_without_its_mark_a_process_may_live_elsewhere(
    url: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9: On a database that is no file, only who leaves a mark on this machine is known to have ended; all its calls
    are closed by then, and not before."""
    monkeypatch.setattr(AuditRows, "is_file", False)
    with other_process(url, script(_CALLS, strict=True)) as process:
        assert await asyncio.to_thread(process.read) == "begun"
        await asyncio.to_thread(process.kill)
    async with open_database(url) as database:
        await database.audit.append(ChainBatch([row(BegunCall(make_call(9)), NOTHING, "0" * 16)]))
        async with running_log(database) as log:
            log.record(make_call(10))
            await until(lambda: rows(made, UNDER_WAY) == [1])
            await until(lambda: _marks(made) == [])
    assert rows(made, STATUSES) == ["ok", "ok", "ok", "interrupted", "interrupted", "ok"]


async def test_calls_of_a_process_that_lives_are_its_own(url: str, made: Path) -> None:
    """D9: Another start leaves them alone, and they are closed by their own process when they end."""
    more = """
for number in range(3, 5):
|    call = make_call(number)
|    log.record(call)
|    await log.written(call)
await tasks.cancel()
await log.close()
"""
    with other_process(url, script(_CALLS + more, strict=True)) as process:
        assert await asyncio.to_thread(process.read) == "begun"
        async with open_database(url) as database, running_log(database) as log:
            log.record(make_call(10))
            await all_written(log)
        assert rows(made, UNDER_WAY) == [2]
        process.write()
        await asyncio.to_thread(process.done)
    assert sorted(numbers(made)) == [0, 1, 2, 3, 4, 10]
    assert set(rows(made, STATUSES)) == {"ok"}
    assert (rows(made, UNDER_WAY), _marks(made)) == ([0], [])


async def test_an_end_that_lies_in_a_file_is_the_end(database: Database, path: Path) -> None:
    """D9: Rows that could not be written in time come before what is written of killed processes."""
    call = make_call(7)
    await database.audit.append(ChainBatch([row(BegunCall(call), NOTHING, "0" * 16)]))
    Path(f"{path}.unwritten-1.jsonl").write_text(
        f"{json.dumps({'rows': 1, 'tried': None})}\n{json.dumps(['call', dict(row(call, NOTHING).values)])}\n"
    )
    async with running_log(database) as log:
        log.record(make_call(8))
        await until(lambda: rows(path, UNDER_WAY) == [0])
    assert (sorted(numbers(path)), set(rows(path, STATUSES))) == ([7, 8], {"ok"})


async def test_a_call_that_is_tried_elsewhere_is_one_call(database: Database, path: Path) -> None:
    """D9: It begins once for each server that gets it; the row that is written for it tells of the last."""
    await database.audit.append(ChainBatch([row(BegunCall(make_call(7)), NOTHING, "0" * 16)]))
    again = BegunCall(make_call(7, answered_by="crm2"))
    await database.audit.append(ChainBatch([row(again, NOTHING, "0" * 16)]))
    async with running_log(database) as log:
        log.record(make_call(8))
        await until(lambda: rows(path, UNDER_WAY) == [0])
    columns = rows(path, "SELECT status, answered_by FROM mcp_tool_call_log ORDER BY trace_id")
    assert columns == [("interrupted", "crm2"), ("ok", None)]


async def test_readers_see_each_call_once(database: Database, url: str, path: Path) -> None:
    """D9: That a call begins is for `verify` alone, whatever a reader asks for."""
    async with running_log(database, strict=True) as log:
        for number in range(3):
            call = make_call(number)
            await log.begun(call)
            log.record(call)
            await log.written(call)
    assert rows(path, BEGUN) == [3]
    async with open_reader(url) as reader:
        assert [one.kind for one in await reader.newest(LogFilter(), 10)] == ["call"] * 3
        assert [one.kind for one in await reader.after(0, LogFilter())] == ["call"] * 3
        assert [one.kind for one in await reader.after(0, LogFilter(agent="shop", server="crm"))] == ["call"] * 3
        assert len(await reader.after(0, ALL)) == 6
        pages = [page async for page in reader.durations(LogFilter(), None)]
        assert [[(one.status, len(one.microseconds)) for one in page] for page in pages] == [[("ok", 3)]]


async def test_no_call_is_made_that_cannot_be_begun(hasty: Database, path: Path) -> None:
    """Proves: D9."""
    async with running_log(hasty, strict=True) as log:
        with locked(path):
            for _ in range(2):
                with pytest.raises(NotRecorded, match="was not called"):
                    await log.begun(make_call(1))
        await until(lambda: log.problem is None)
        await log.begun(make_call(2))


@pytest.mark.parametrize(
    "details", [None, "no JSON", "[]", '{"owner": "0", "call": {"trace_id": 1}}', '{"call": null}']
)
async def test_an_event_that_says_nothing_stops_nobody(database: Database, path: Path, details: Any) -> None:
    """D9: Whoever writes a file beside the database, or into it, can put anything there."""
    one = row(BegunCall(make_call(1)), NOTHING, "0" * 16)
    strange = entry("call_begun", {**one.values, "details": details})
    await database.audit.append(ChainBatch([strange, one]))
    async with database.engine.write() as connection:
        await connection.exec_driver_sql("UPDATE audit_events SET details = ? WHERE seq = 2", (details,))
    async with running_log(database) as log:
        log.record(make_call(2))
        await until(lambda: rows(path, UNDER_WAY) == [0])
        await all_written(log)
    assert numbers(path) == [2]


async def test_an_event_gives_no_row_its_place(database: Database, path: Path) -> None:
    """D9: What it says of number, size and digests of a call is left out."""
    one = row(BegunCall(make_call(1)), NOTHING, "0" * 16)
    details = json.loads(one.values["details"])
    details["call"] |= {"seq": 1, "bytes": 1, "previous": "x", "digest": "x"}
    await database.audit.append(ChainBatch([entry("call_begun", {**one.values, "details": json.dumps(details)})]))
    async with running_log(database) as log:
        log.record(make_call(2))
        await until(lambda: rows(path, UNDER_WAY) == [0])
        await all_written(log)
    assert rows(path, STATUSES) == ["interrupted", "ok"]
    assert (await verdict_on(path)).faults == ()


async def test_each_call_under_way_is_looked_for_in_what_came_later(database: Database, path: Path) -> None:
    """D9: Of many calls of a killed process, those that have a row are forgotten, and the others closed."""
    for number in range(1, 7):
        await database.audit.append(ChainBatch([row(BegunCall(make_call(number)), NOTHING, "0" * 16)]))
    async with database.engine.write() as connection:
        under_way = await connection.exec_driver_sql("SELECT * FROM audit_under_way")
        left = [tuple(one) for one in under_way]
    await database.audit.append(ChainBatch([row(make_call(number), NOTHING) for number in (2, 5)]))
    async with database.engine.write() as connection:
        await connection.exec_driver_sql("INSERT OR REPLACE INTO audit_under_way VALUES (?, ?, ?, ?)", left)
    async with running_log(database) as log:
        log.record(make_call(9))
        await until(lambda: rows(path, UNDER_WAY) == [0])
        await all_written(log)
    assert rows(path, STATUSES) == ["interrupted", "ok", "interrupted", "interrupted", "ok", "interrupted", "ok"]
