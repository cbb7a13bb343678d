"""The states that hosts have brought back: each counts once, over all replicas and across restarts.

Rule: if the database cannot tell whether a state was used, another replica may have used it; it is refused here.
"""

import asyncio
import logging
from typing import Final

from aggregator.replicas.group.replication import Replication
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

# States remembered here; beyond that, all states made so far become invalid.
USED_AT_MOST: Final = 100_000
# Seconds that an answer waits for the database.
_PATIENCE: Final = 2.0


class NotKnown(Exception):
    """The database cannot say now whether a state was used."""


class UsedOnce:
    """The states used at this replica, and those of all replicas in the database."""

    def __init__(self, group: Replication) -> None:
        self._group = group
        self._used: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<UsedOnce {len(self._used)} states>"

    def __len__(self) -> int:
        return len(self._used)

    def use_here(self, nonce: str, expires: float, made: float, now: float) -> bool:
        """Return whether a state that no other replica can use is used for the first time."""
        self._make_room(now)
        if nonce in self._used or made <= self._since:
            return False
        self._used[nonce] = expires
        return True

    async def use(self, nonce: str, expires: float, made: float, now: float, *, here: bool) -> bool:
        """Use a state; return whether this is its first use. Times are by the group's clock.

        `here`: it was made by this process.

        Raises:
            NotKnown: the database cannot tell now.
        """
        if not self.use_here(nonce, expires, made, now):
            return False
        group = self._group
        if not group.stored:
            return True
        try:
            async with asyncio.timeout(_PATIENCE):
                states = (await group.database()).used_states
                first = await states.use(nonce, expires, now)
                await self._write_rest(now)
        except (StorageError, TimeoutError) as error:
            if here and not group.enabled:
                # No other process can have used it. It is written later, for the one that runs after a restart.
                self._unwritten[nonce] = expires
                return True
            del self._used[nonce]
            raise NotKnown from error
        return first

    async def _write_rest(self, now: float) -> None:
        assert self._group is not None, "what was not written waits for a database"
        states = (await self._group.database()).used_states
        while self._unwritten:
            nonce, expires = self._unwritten.popitem()
            if expires > now:
                await states.use(nonce, expires, now)

    def _make_room(self, now: float) -> None:
        if len(self._used) < USED_AT_MOST:
            return
        self._used = {nonce: expires for nonce, expires in self._used.items() if expires >= now}
        if len(self._used) >= USED_AT_MOST:
            # Older states are refused from now on, so that none of them has to be remembered.
            self._since = now
            self._used.clear()
