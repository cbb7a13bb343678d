"""The table of accounts that are being connected: any process can finish what another began, and one does."""

from dataclasses import asdict
from typing import Final

from sqlalchemy import ColumnElement, delete, func, insert, select, update

from aggregator.accounts.storage.records import ConnectRecord
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import oauth_connects

_table = oauth_connects.c
# Beyond this, the oldest are removed.
_AT_MOST: Final = 20_000


class ConnectRows:
    """The accounts in the process of connecting. Every method raises StorageError if the database fails."""

    def __init__(self, engine: Engine, at_most: int = _AT_MOST) -> None:
        self._engine = engine
        self._at_most = at_most

    async def put(self, connect: ConnectRecord) -> None:
        """Store one; those that have expired, and the oldest of too many, go."""
        async with self._engine.write() as connection:
            await connection.execute(delete(oauth_connects).where(_table.expires <= connect.created))
            more = (await connection.scalar(select(func.count()).select_from(oauth_connects)) or 0) + 1 - self._at_most
            if more > 0:
                oldest = select(_table.id).order_by(_table.created).limit(more).scalar_subquery()
                await connection.execute(delete(oauth_connects).where(_table.id.in_(oldest)))
            await connection.execute(insert(oauth_connects).values(asdict(connect)))

    async def get(self, id: str, now: float) -> ConnectRecord | None:
        """Return one that has not expired."""
        return await self._first(_table.id == id, _table.expires > now)

    async def of_state(self, state_hash: str, now: float) -> ConnectRecord | None:
        """Return the one whose answer brings this state, if it has not expired."""
        return await self._first(_table.state_hash == state_hash, _table.expires > now)

    async def begin(self, id: str, state_hash: str | None, key_id: str, sealed: str) -> bool:
        """Write the expected values of the answer; False if it was removed meanwhile."""
        values = {"state_hash": state_hash, "key_id": key_id, "sealed": sealed}
        async with self._engine.write() as connection:
            done = await connection.execute(update(oauth_connects).where(_table.id == id).values(values))
            return done.rowcount > 0

    async def take_state(self, id: str, state_hash: str) -> bool:
        """Use up a state; False if it already was."""
        mine = (_table.id == id) & (_table.state_hash == state_hash)
        async with self._engine.write() as connection:
            done = await connection.execute(update(oauth_connects).where(mine).values(state_hash=None))
            return done.rowcount > 0

    async def remove(self, id: str) -> bool:
        """Remove one; False if it already was."""
        async with self._engine.write() as connection:
            done = await connection.execute(delete(oauth_connects).where(_table.id == id))
            return done.rowcount > 0

    async def _first(self, *where: ColumnElement[bool]) -> ConnectRecord | None:
        wanted = select(oauth_connects)
        for one in where:
            wanted = wanted.where(one)
        async with self._engine.read() as connection:
            row = (await connection.execute(wanted.limit(1))).mappings().first()
        return ConnectRecord(**row) if row is not None else None
