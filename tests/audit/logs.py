"""Calls to record, a log to record them in, and the rows that are in the database afterwards."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from aggregator.audit.capture import Capture
from aggregator.audit.log import AuditLog
from aggregator.audit.spill import Spill
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import CallRecord, Stage, TraceContext
from aggregator.storage.audit.log import AuditRows
from aggregator.storage.audit.read import open_reader
from aggregator.storage.audit.verify import Verdict, verify
from aggregator.storage.opening import Database
from tests.call_records import record_of
from tests.polling import until

AT: Final = 1763712000.25
NOTHING: Final = Capture("none", lambda value: value, 1000)


class DatabaseFile(bytes):
    """The content of a database file. In a counterexample that Hypothesis shows, its length stands for it."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes of a database>"


def make_call(number: int = 1, **changes: Any) -> CallRecord:
    """Return a closed call record; `number` makes it distinct."""
    given: dict[str, Any] = {
        "trace": TraceContext(f"{number:032x}", f"{number:016x}"),
        "started": AT + number,
        "agent_id": "shop",
        "asked_name": "crm__list_orders",
        "frontend": "http",
        "server": "crm",
        "tool": "crm.list_orders",
        "own_name": "list_orders",
        "duration": 0.0125,
        "steps": [Stage("policy", 0.0, 0.0001), Stage("upstream", 0.0001, 0.012)],
        "arguments": {"page": number},
        "result": {"content": [{"type": "text", "text": "one order"}]},
    }
    given |= changes
    return record_of(**given)


def make_log(
    database: Database, capture: Capture = NOTHING, at_most: int = 2**30, rows: Any = None, **options: Any
) -> AuditLog:
    """A log that has to be run and closed; it writes to `rows`, by default to those of the database."""

    async def opened() -> AuditRows:
        return database.audit if rows is None else rows

    assert database.engine.path is not None
    return AuditLog(opened, Spill(database.engine.path, at_most), capture, **{"flush_interval": 0.01, **options})


@asynccontextmanager
async def running_log(database: Database, **options: Any) -> AsyncIterator[AuditLog]:
    """A log that runs inside and is closed on the way out."""
    log = make_log(database, **options)
    async with Tasks("a test") as tasks:
        tasks.start(log.run())
        yield log
        await tasks.cancel()
        await log.close()


async def all_written(log: AuditLog) -> None:
    """Return once nothing waits."""
    await until(lambda: log.report()["waiting"] == 0)


def rows(path: Path, query: str = "SELECT trace_id FROM mcp_tool_call_log ORDER BY seq") -> list[Any]:
    """Return the rows that another program reads from the database: one value or one tuple for each."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(query).fetchall()
    return [row[0] if len(row) == 1 else row for row in found]


def numbers(path: Path) -> list[int]:
    """The numbers of the calls that are in the database, in order of their rows."""
    return [int(trace_id, 16) for trace_id in rows(path)]


async def verdict_on(path: Path, expected: str | None = None) -> Verdict:
    """Return the verdict of `verify`."""
    async with open_reader(f"sqlite+aiosqlite:///{path}") as reader:
        return await verify(reader, expected)
