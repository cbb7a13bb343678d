"""Audit events besides calls, page by page, the newest first."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select

from aggregator.storage.audit.chain import BEGUN
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import audit_events

# Events that one request looks at.
LOOKED_AT: Final = 20_000
_SUMMARY: Final = 1_000
_DETAILS: Final = 8_000


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. `details` is JSON, or its beginning."""

    seq: int
    at: float
    kind: str
    summary: str
    agent: str | None
    server: str | None
    details: str | None


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """Events, the newest first; `before` is the number to continue below, None at the beginning of the log.

    `looked_to` is the time of the oldest event examined.
    """

    rows: tuple[EventRow, ...]
    before: int | None
    looked_to: float | None


async def find_events(engine: Engine, kinds: tuple[str, ...], before: int | None, limit: int) -> FoundEvents:
    """Return the newest events of these kinds below number `before`; of any kind except begin events if none is given.

    Raises:
        StorageError: the database cannot be read.
    """
    columns = audit_events.c
    wanted = columns.kind.in_(kinds) if kinds else columns.kind != BEGUN
    async with engine.read() as connection:
        top = before if before is not None else ((await connection.scalar(select(func.max(columns.seq)))) or 0) + 1
        looked = (
            select(columns.seq, columns.at).where(columns.seq < top).order_by(columns.seq.desc()).limit(LOOKED_AT)
        ).subquery()
        low, number = (await connection.execute(select(func.min(looked.c.seq), func.count()).select_from(looked))).one()
        if low is None:
            return FoundEvents((), None, None)
        query = (
            select(
                columns.seq,
                columns.at,
                columns.kind,
                func.substr(columns.summary, 1, _SUMMARY),
                columns.agent_id,
                columns.server_id,
                func.substr(columns.details, 1, _DETAILS),
            )
            .where(columns.seq < top, columns.seq >= low, wanted)
            .order_by(columns.seq.desc())
            .limit(limit)
        )
        rows = tuple(EventRow(*row) for row in await connection.execute(query))
        if len(rows) == limit:
            return FoundEvents(rows, rows[-1].seq, rows[-1].at)
        oldest = await connection.scalar(select(columns.at).where(columns.seq == low))
        return FoundEvents(rows, low if number == LOOKED_AT else None, oldest)
