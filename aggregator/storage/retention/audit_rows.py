"""The count of audit rows that a trim would remove."""

from itertools import chain
from typing import Any, Final

from sqlalchemy import func, select

from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import audit_events, audit_heads, mcp_tool_call_log

_PAGE: Final = 10_000
# Where a trim by size stops, as in `AuditRows.trim`; tests hold the two together.
_TRIM_TO: Final = 0.9


async def count_to_trim(engine: Engine, *, before: float | None, keep_bytes: int | None) -> int:
    """Return how many rows `AuditRows.trim` would remove, called until there are none.

    Raises:
        StorageError: the database cannot be read.
    """
    if before is None and keep_bytes is None:
        return 0
    async with engine.read() as connection:
        size = await connection.scalar(select(func.coalesce(func.sum(audit_heads.c.bytes), 0))) or 0
        floor = None if keep_bytes is None or size <= keep_bytes else int(keep_bytes * _TRIM_TO)
        last = removed = freed = 0
        while page := await _page(connection, last):
            for row in page:
                old = before is not None and row.at < before
                if not old and (floor is None or size - freed <= floor):
                    return removed
                removed, freed = removed + 1, freed + row.bytes
            last = page[-1].seq
    return removed


async def _page(connection: AsyncConnection, last: int) -> list[Any]:
    """Return the next rows of the log, in order."""
    found = []
    for table, at in ((mcp_tool_call_log, mcp_tool_call_log.c.ended), (audit_events, audit_events.c.at)):
        query = select(table.c.seq, table.c.bytes, at.label("at")).where(table.c.seq > last).order_by(table.c.seq)
        found.append((await connection.execute(query.limit(_PAGE))).all())
    return sorted(chain(*found), key=lambda row: row.seq)[:_PAGE]
