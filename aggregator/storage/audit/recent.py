"""The newest rows about one server or one agent, and an agent's calls around a moment: a page waits for them.

Rule: the number of rows read is bounded.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select

from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import audit_events, mcp_tool_call_log

# Rows of the log that are read; older ones are not found here.
LOOKED_AT: Final = 50_000
_SUMMARY: Final = 1_000
# Rows read in each direction: some 20 ms if none matches.
_NEAR: Final = 4_000


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """One event besides calls."""

    seq: int
    at: float
    kind: str
    summary: str


@dataclass(frozen=True, slots=True)
class RecentCall:
    """One call, without its values; `why` is the error, with its `code`, or empty."""

    seq: int
    started: float
    tool: str
    status: str
    duration: float
    why: str
    rule: str | None
    rule_source: str | None
    code: str | None = None


async def events_of_server(engine: Engine, server: str, limit: int) -> list[RecentEvent]:
    """Return the last `limit` events about a server, the newest first.

    Raises:
        StorageError: the database cannot be read.
    """
    columns = audit_events.c
    async with engine.read() as connection:
        last = (await connection.execute(select(func.max(columns.seq)))).scalar() or 0
        summary = func.substr(columns.summary, 1, _SUMMARY)
        query = select(columns.seq, columns.at, columns.kind, summary).where(
            columns.seq > last - LOOKED_AT, columns.server_id == server
        )
        return [RecentEvent(*row) for row in await connection.execute(query.order_by(columns.seq.desc()).limit(limit))]


async def calls_of_agent(engine: Engine, agent: str, limit: int, *, refused: bool = False) -> list[RecentCall]:
    """Return the last `limit` calls of an agent, the newest first; with `refused`, those that a policy refused.

    Raises:
        StorageError: the database cannot be read.
    """
    columns = mcp_tool_call_log.c
    async with engine.read() as connection:
        last = (await connection.execute(select(func.max(columns.seq)))).scalar() or 0
        query = select(
            columns.seq,
            columns.started,
            func.substr(func.coalesce(columns.tool_name, columns.asked_name), 1, _SUMMARY),
            columns.status,
            columns.duration,
            func.substr(func.coalesce(columns.error_message, ""), 1, _SUMMARY),
            columns.rule,
            columns.rule_source,
            columns.error_code,
        ).where(columns.seq > last - LOOKED_AT, columns.agent_id == agent)
        if refused:
            query = query.where(columns.status == "denied")
        return [RecentCall(*row) for row in await connection.execute(query.order_by(columns.seq.desc()).limit(limit))]


@dataclass(frozen=True, slots=True)
class NeighbourCall:
    """One call, in short; `started` in seconds since 1970, `duration` in seconds."""

    seq: int
    started: float
    duration: float
    tool: str
    status: str
    trace_id: str


async def neighbours(
    engine: Engine, agent: str, conversation: str | None, at: float, *, most: int, besides: str | None = None
) -> tuple[list[NeighbourCall], list[NeighbourCall]]:
    """Return the last calls before `at` and the first after it, each newest first: of one conversation, if there is
    one. Calls of the trace `besides` are left out.

    Raises:
        StorageError: the database cannot be read.
    """
    calls = mcp_tool_call_log.c
    wanted = (
        calls.seq, calls.started, calls.duration, calls.tool_name, calls.asked_name, calls.status, calls.trace_id,
        calls.agent_id, calls.conversation_id,
    )  # fmt: skip
    sides = []
    async with engine.read() as connection:
        for near in (
            select(*wanted).where(calls.started < at).order_by(calls.started.desc()),
            select(*wanted).where(calls.started >= at).order_by(calls.started),
        ):
            part = near.limit(_NEAR).subquery()
            mine = part.c.agent_id == agent
            if conversation is not None:
                mine &= part.c.conversation_id == conversation
            if besides is not None:
                mine &= part.c.trace_id != besides
            rows = (await connection.execute(select(part).where(mine).limit(most))).all()
            found = [
                NeighbourCall(
                    row.seq, row.started, row.duration, row.tool_name or row.asked_name, row.status, row.trace_id
                )
                for row in rows
            ]
            sides.append(found)
    return sides[0], sides[1][::-1]
