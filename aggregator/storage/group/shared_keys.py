"""The key of each group of replicas, made once."""

import secrets
import time

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import shared_keys


class SharedKeys:
    """The keys by group, each 256 random bits in hexadecimal."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def of_group(self, group: str) -> str:
        """Return the key of a group; it is created if there is none.

        Raises:
            StorageError: the database failed.
        """
        wanted = select(shared_keys.c.value).where(shared_keys.c.group_name == group)
        async with self._engine.read() as connection:
            found = await connection.scalar(wanted)
        if found is not None:
            return str(found)
        try:
            async with self._engine.write() as connection:
                new = {"group_name": group, "value": secrets.token_hex(32), "created": time.time()}
                await connection.execute(insert(shared_keys).values(new))
                return str(new["value"])
        except IntegrityError:
            # Another process was first.
            async with self._engine.read() as connection:
                return str(await connection.scalar(wanted))
