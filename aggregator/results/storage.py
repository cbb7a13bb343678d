"""The tables of kept results.

Law: a result is there with all its parts or not at all, and all of them together take no more than they may.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, func, insert, select

from aggregator.storage.engine import postgres
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import kept_result_parts, kept_results

# An owner's part of all that may be kept: a fourth.
OWNER_SHARE: Final = 4
# Results examined, and removed by one statement, in one step while space is made.
_STEP: Final = 200


class KeptResults:
    """The kept results of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add(
        self, id_: str, owner: str, parts: Sequence[bytes], *, now: float, expires: float, max_bytes: int
    ) -> bool:
        """Store a sealed result; the oldest make room for it, its owner's first. Return False if it is too large.

        It is committed on return. `id_` and `owner` are in hexadecimal, times in seconds since 1970.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        size = sum(map(len, parts))
        if size > max_bytes // OWNER_SHARE:
            return False
        row = {"id": id_, "owner": owner, "created": now, "expires": expires, "size": size, "parts": len(parts)}
        async with self._engine.write() as connection:
            if self._engine.path is None:
                await connection.execute(postgres.lock("kept results"))
            await self._make_room(connection, owner, max_bytes // OWNER_SHARE - size)
            await self._make_room(connection, None, max_bytes - size)
            await connection.execute(insert(kept_results).values(**row))
            for number, part in enumerate(parts):
                await connection.execute(insert(kept_result_parts).values(id=id_, part=number, sealed=part))
        return True

    async def parts(self, id_: str, owner: str, *, now: float) -> list[bytes] | None:
        """Return the parts of a result in order; None if its owner has no such result, or no longer.

        Raises:
            StorageError: the database cannot be read.
        """
        known = select(kept_results.c.parts).where(
            kept_results.c.id == id_, kept_results.c.owner == owner, kept_results.c.expires > now
        )
        wanted = (
            select(kept_result_parts.c.sealed).where(kept_result_parts.c.id == id_).order_by(kept_result_parts.c.part)
        )
        async with self._engine.read() as connection:
            count = await connection.scalar(known)
            if count is None:
                return None
            found = [bytes(part) for part in (await connection.execute(wanted)).scalars()]
        return found if len(found) == count else None

    async def _make_room(self, connection: AsyncConnection, owner: str | None, space: int) -> None:
        """Remove the oldest results, of one owner or of all, until the rest takes at most `space` bytes."""
        mine = [kept_results.c.owner == owner] if owner is not None else []
        total = select(func.coalesce(func.sum(kept_results.c.size), 0)).where(*mine)
        taken = int(await connection.scalar(total) or 0)
        oldest = select(kept_results.c.id, kept_results.c.size).where(*mine).order_by(kept_results.c.created)
        while taken > space:
            rows = (await connection.execute(oldest.limit(_STEP))).all()
            gone = []
            for row in rows:
                if taken <= space:
                    break
                gone.append(row.id)
                taken -= row.size
            await connection.execute(delete(kept_result_parts).where(kept_result_parts.c.id.in_(gone)))
            await connection.execute(delete(kept_results).where(kept_results.c.id.in_(gone)))
