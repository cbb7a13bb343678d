"""The table of the aggregator's client ids at issuers."""

from dataclasses import asdict

from sqlalchemy import delete, insert, select

from aggregator.accounts.storage.records import ClientRecord
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import oauth_clients

_table = oauth_clients.c


class ClientRows:
    """The client ids in one database. Every method raises StorageError if the database fails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, id: str) -> ClientRecord | None:
        """Return a client id, or None."""
        async with self._engine.read() as connection:
            row = (await connection.execute(select(oauth_clients).where(_table.id == id))).mappings().first()
        return ClientRecord(**row) if row is not None else None

    async def put(self, client: ClientRecord) -> None:
        """Store a client id, in place of one that is there."""
        async with self._engine.write() as connection:
            await connection.execute(delete(oauth_clients).where(_table.id == client.id))
            await connection.execute(insert(oauth_clients).values(asdict(client)))

    async def remove(self, id: str) -> None:
        """Forget a client id."""
        async with self._engine.write() as connection:
            await connection.execute(delete(oauth_clients).where(_table.id == id))
