"""The rows of tool reports: counted, bounded for all processes together, and cleared."""

import asyncio

import pytest
from sqlalchemy import update

from aggregator.storage.opening import Database
from aggregator.storage.tables import tool_reports
from aggregator.tool_reports import storage
from aggregator.tool_reports.rows import MOST_REASONS, REPORTS_KEPT, Reason, TooManyReports


async def test_reports_of_one_agent_and_tool_are_one_row(database: Database) -> None:
    """A reason that is given again is counted; the oldest of too many gives way, and the count goes on."""
    reports = database.tool_reports
    assert await reports.add("shop", "get", "ada", "empty", now=1.0) == 1
    assert await reports.add("shop", "get", "ada", "slow", now=2.0) == 2
    assert await reports.add("shop", "get", "ada", "empty", now=3.0) == 3
    assert await reports.add("shop", "get", "bob", "empty", now=4.0) == 1
    bob, ada = await reports.list()
    assert (bob.agent_id, bob.times, bob.reasons) == ("bob", 1, (Reason("empty", 1, 4.0),))
    assert (ada.server, ada.tool, ada.agent_id, ada.times, ada.first, ada.last) == ("shop", "get", "ada", 3, 1.0, 3.0)
    assert ada.reasons == (Reason("empty", 2, 3.0), Reason("slow", 1, 2.0))
    for number in range(MOST_REASONS - 1):
        await reports.add("shop", "get", "ada", f"reason {number}", now=10.0 + number)
    _, bob = sorted(await reports.list(), key=lambda report: report.agent_id)
    ada = next(report for report in await reports.list() if report.agent_id == "ada")
    assert [reason.text for reason in ada.reasons] == ["reason 3", "reason 2", "reason 1", "reason 0", "empty"]
    assert ada.times == 3 + MOST_REASONS - 1


async def test_reports_at_once_are_all_counted(database: Database) -> None:
    times = await asyncio.gather(*(database.tool_reports.add("s", "t", "ada", "w", now=1.0) for _ in range(8)))
    assert sorted(times) == list(range(1, 9))


async def test_rows_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent at its bound costs no other agent; what is reported already is still counted."""
    monkeypatch.setattr(storage, "MOST_OF_AGENT", 2)
    monkeypatch.setattr(storage, "MOST", 3)
    reports = database.tool_reports
    for tool in ("a", "b"):
        await reports.add("s", tool, "ada", "w", now=1.0)
    with pytest.raises(TooManyReports) as refused:
        await reports.add("s", "c", "ada", "w", now=1.0)
    assert (refused.value.most, refused.value.of_agent) == (2, True)
    assert await reports.add("s", "a", "ada", "w", now=1.0) == 2
    await reports.add("s", "c", "bob", "w", now=1.0)
    with pytest.raises(TooManyReports) as refused:
        await reports.add("s", "d", "bob", "w", now=1.0)
    assert (refused.value.most, refused.value.of_agent) == (3, False)
    await reports.clear("s", "a")
    assert await reports.add("s", "d", "bob", "w", now=1.0) == 1


async def test_reports_are_cleared_by_tool_by_server_and_all(database: Database) -> None:
    reports = database.tool_reports
    for server, tool in (("s", "a"), ("s", "b"), ("t", "a"), ("u", "a")):
        await reports.add(server, tool, "ada", "w", now=1.0)
    assert {report.server for report in await reports.list("s", "a")} == {"s"}
    assert await reports.clear("s", "a") == 1
    assert await reports.clear("s", "a") == 0
    assert await reports.clear("s") == 1
    assert {report.server for report in await reports.list()} == {"t", "u"}
    assert await reports.clear() == 2
    assert await reports.list() == []


async def test_reports_go_once_they_are_old(database: Database) -> None:
    reports = database.tool_reports
    await reports.add("s", "old", "ada", "w", now=0.0)
    await reports.add("s", "again", "ada", "w", now=0.0)
    await reports.add("s", "again", "ada", "w", now=10.0)
    await database.prune(None, None, now=REPORTS_KEPT + 5.0)
    assert [report.tool for report in await reports.list()] == ["again"]


@pytest.mark.parametrize("damaged", ["", "{", "5", "[[1]]", '[["w", "often", 1]]', "null"])
async def test_a_damaged_row_keeps_its_count(database: Database, damaged: str) -> None:
    reports = database.tool_reports
    await reports.add("s", "a", "ada", "w", now=1.0)
    async with database.engine.write() as connection:
        await connection.execute(update(tool_reports).values(reasons=damaged))
    (row,) = await reports.list()
    assert (row.times, row.reasons) == (1, ())
    assert await reports.add("s", "a", "ada", "again", now=2.0) == 2
    (row,) = await reports.list()
    assert row.reasons == (Reason("again", 1, 2.0),)
