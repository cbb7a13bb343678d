"""The keys that open the doors: those of the database and of the policy files, learned and kept up with.

Law: as long as it is not known whether there are keys, whoever has none stays outside.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.gateway.access import Access
from aggregator.gateway.views import Views
from aggregator.identity.keyring import FOLLOW_EVERY, Keyring
from aggregator.identity.keys import parse_policy_line
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.storage.opening import Database

log = logging.getLogger(__name__)


class Keys:
    """`path` is the file of the database, None where it is none; `opened` opens it, if there is to be one.

    `wanted`: some door asks for keys. `known`: those of the database have been read.
    """

    def __init__(
        self,
        access: Access,
        views: Views,
        path: Path | None,
        opened: "Callable[[], Awaitable[Database | None]]",
        *,
        stored: bool,
    ) -> None:
        self.wanted = self.known = False
        self._access = access
        self._views = views
        self._path = path
        self._opened = opened
        self._stored = stored

    async def learn(self) -> None:
        """Read them. Before a door is opened that asks for one.

        Raises:
            StorageError: the database cannot be used; to open the door all the same would let anybody in.
        """
        self.wanted = True
        database = await self._opened() if self._kept or self._views.rulebook is not None else None
        if database is not None:
            keyring = Keyring(database.keys)
            await keyring.refresh()
            # Nothing is awaited until those of the policy files are in it too: no key is missing at any moment.
            self._access.keyring, self._access.locked = keyring, bool(database.set_aside)
            self.known = True
        self.use_policies()

    async def follow(self) -> None:
        """Keep up with them, for ever; the first one may be made while we run."""
        while not self.known:
            try:
                if self._kept:
                    await self.learn()
                    break
                self._access.locked = False
            except StorageError as error:
                # There may be keys in it by now.
                if self._kept and not self._access.locked:
                    log.error("keys cannot be read, so the doors are closed to whoever has none: %s", error)
                self._access.locked = self._kept
            await asyncio.sleep(FOLLOW_EVERY)
        await self._access.keyring.follow()

    def use_policies(self) -> None:
        """Take those of the policy files that are in force."""
        book = self._views.rulebook
        keys = []
        for agent_id, key in book.keys if book is not None else ():
            try:
                keys.append(parse_policy_line(key.line, agent_id))
            except ValueError as error:
                log.error("policies: a key of agent %s is not used: %s", agent_id, error)
        self._access.keyring.use_policy_keys(keys)

    @property
    def _kept(self) -> bool:
        """Whether somebody has made the database; it is not made only to find it empty."""
        return self._stored and (self._path is None or self._path.exists())
