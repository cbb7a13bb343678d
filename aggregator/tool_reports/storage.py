"""The rows of tool reports: one for each agent and tool.

Rule: the bounds hold for all processes of the database together.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import tool_reports
from aggregator.tool_reports.rows import MOST, MOST_OF_AGENT, MOST_REASONS, Reason, ToolReport, TooManyReports


class ToolReports:
    """The rows of one database. `now` is the time in seconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add(self, server: str, tool: str, agent_id: str, why: str, *, now: float) -> int:
        """Count a report; return how often this agent has reported the tool.

        Raises:
            TooManyReports: it would be a new row beyond the bounds.
            StorageError: the database failed; nothing was written. So with every method.
        """
        columns = tool_reports.c
        id = sha256("\0".join((server, tool, agent_id)).encode("utf-8", "surrogatepass")).hexdigest()

        def work(connection: Connection) -> int:
            if self._engine.path is None:
                connection.execute(postgres.lock("tool reports"))
            row = connection.execute(select(columns.times, columns.reasons).where(columns.id == id)).first()
            if row is None:
                _refuse_more(connection, columns.agent_id == agent_id)
                mine = {"id": id, "server": server, "tool": tool, "agent_id": agent_id, "first": now}
                new = {**mine, "times": 1, "last": now, "reasons": _written([Reason(why, 1, now)])}
                connection.execute(insert(tool_reports).values(new))
                return 1
            known = {reason.text: reason for reason in _read(row.reasons)}
            before = known.pop(why, None)
            reasons = [Reason(why, before.times + 1 if before is not None else 1, now), *known.values()]
            changed = {"times": row.times + 1, "last": now, "reasons": _written(reasons[:MOST_REASONS])}
            connection.execute(update(tool_reports).where(columns.id == id).values(changed))
            return int(row.times) + 1

        async with self._engine.write() as connection:
            return await connection.run_sync(work)

    async def list(self, server: str | None = None, tool: str | None = None) -> list[ToolReport]:
        """Return the reports, of one server or one tool of it if asked; the latest first."""
        columns = tool_reports.c
        query = select(tool_reports).where(*_about(server, tool)).order_by(columns.last.desc(), columns.id)
        async with self._engine.read() as connection:
            rows = (await connection.execute(query)).all()
        return [
            ToolReport(row.server, row.tool, row.agent_id, row.times, row.first, row.last, tuple(_read(row.reasons)))
            for row in rows
        ]

    async def clear(self, server: str | None = None, tool: str | None = None) -> int:
        """Remove the reports of one tool, of one server, or all; return how many there were."""
        async with self._engine.write() as connection:
            done = await connection.execute(delete(tool_reports).where(*_about(server, tool)))
        return done.rowcount


def _about(server: str | None, tool: str | None) -> list[ColumnElement[bool]]:
    asked = ((tool_reports.c.server, server), (tool_reports.c.tool, tool))
    return [column == value for column, value in asked if value is not None]


def _refuse_more(connection: Connection, mine: ColumnElement[bool]) -> None:
    counted = select(func.count()).select_from(tool_reports)
    if (connection.scalar(counted.where(mine)) or 0) >= MOST_OF_AGENT:
        raise TooManyReports(MOST_OF_AGENT, of_agent=True)
    if (connection.scalar(counted) or 0) >= MOST:
        raise TooManyReports(MOST, of_agent=False)


def _written(reasons: Sequence[Reason]) -> str:
    return json.dumps([list(reason) for reason in reasons], ensure_ascii=False)


def _read(text: str) -> list[Reason]:
    """Return the reasons of a row; none of a damaged one, whose count still holds."""
    try:
        found: Any = json.loads(text)
        return [Reason(str(why), int(times), float(last)) for why, times, last in found]
    except (ValueError, TypeError):
        return []
