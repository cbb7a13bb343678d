"""The calls of an agent before and after a moment, as far as a look at a bounded part of the log finds them."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import select

from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import mcp_tool_call_log

# Rows that are looked at in each direction: some 20 ms where none of them is wanted.
_LOOKED_AT: Final = 4_000


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
    """Return the last calls before `at` and the first after it, each newest first: of one conversation, where there is
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
            part = near.limit(_LOOKED_AT).subquery()
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
