"""Counts over the newest calls of the log, for authors of policies: callers, tools and refusals.

Rule: every query goes over a bounded number of the newest rows, by the number that orders them.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, Subquery, func, select

from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import mcp_tool_call_log

# Calls that one query goes over.
CALLS: Final = 100_000
_GROUPS: Final = 50_000


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The number of the newest calls that one agent made of one tool."""

    agent: str
    tool: str
    calls: int


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """The number of times that one rule refused one agent a tool; `last` is when, in seconds since 1970."""

    agent: str
    tool: str
    rule: str | None
    source: str | None
    calls: int
    last: float


class RuleCounts:
    """Counts over the newest calls. Every method raises StorageError if the database cannot be read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def calls(self, newest: int = CALLS) -> tuple[int, list[ToolUse]]:
        """Return the number of calls read, at most `newest`, and their counts by agent and tool."""
        calls = mcp_tool_call_log.c
        recent = _recent(select(calls.agent_id, calls.tool_name), newest)
        query = (
            select(recent.c.agent_id, recent.c.tool_name, func.count())
            .group_by(recent.c.agent_id, recent.c.tool_name)
            .limit(_GROUPS)
        )
        async with self._engine.read() as connection:
            rows = (await connection.execute(query)).all()
        counts = [ToolUse(agent, tool, calls) for agent, tool, calls in rows if tool is not None]
        return sum(row[2] for row in rows), counts

    async def refusals(self, most: int = 20, newest: int = CALLS) -> list[RefusalCount]:
        """Return the refusals of rules among the newest calls, those first that happened most often."""
        calls = mcp_tool_call_log.c
        recent = _recent(
            select(
                calls.agent_id, calls.tool_name, calls.asked_name, calls.rule, calls.rule_source, calls.started,
                calls.status,
            ),
            newest,
        )  # fmt: skip
        name = func.coalesce(recent.c.tool_name, recent.c.asked_name)
        query = (
            select(
                recent.c.agent_id,
                name,
                recent.c.rule,
                recent.c.rule_source,
                func.count(),
                func.max(recent.c.started),
            )
            .where(recent.c.rule.is_not(None), recent.c.status.in_(("denied", "invalid")))
            .group_by(recent.c.agent_id, name, recent.c.rule, recent.c.rule_source)
            .order_by(func.count().desc(), func.max(recent.c.started).desc())
            .limit(most)
        )
        async with self._engine.read() as connection:
            return [RefusalCount(*row) for row in (await connection.execute(query)).all()]


def _recent(columns: Select[Any], newest: int) -> Subquery:
    return columns.order_by(mcp_tool_call_log.c.seq.desc()).limit(newest).subquery()
