"""The table of sealed states that a host has brought back, so that each counts once over all replicas."""

from typing import Final

from sqlalchemy import delete, insert
from sqlalchemy.exc import IntegrityError

from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import used_states

# Those that have expired are removed once with so many new ones.
_REMOVE_AFTER: Final = 100


class UsedStates:
    """The nonces of states that were used."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._added = 0

    async def use(self, nonce: str, expires: float, now: float) -> bool:
        """Return whether a state is used for the first time; it is used from now on.

        Raises:
            StorageError: the database cannot do it, so that it is not known.
        """
        try:
            async with self._engine.write() as connection:
                await connection.execute(insert(used_states).values(nonce=nonce, expires=expires))
                self._added += 1
                if self._added % _REMOVE_AFTER == 1:
                    await connection.execute(delete(used_states).where(used_states.c.expires < now))
        except IntegrityError:
            return False
        return True
