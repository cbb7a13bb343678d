"""The keys that authenticate requests: loaded from the database and the policy files, and kept up to date.

Law: while it is not known whether there are keys, requests without a key are refused.
"""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from aggregator.domain.bounds.ticks import until_next
from aggregator.gateway.access import Access
from aggregator.gateway.views.views import Views
from aggregator.identity.keyring import REFRESH_EVERY, Keyring
from aggregator.identity.keys import parse_policy_line
from aggregator.storage.engine.files import set_aside_before
from aggregator.storage.errors import StorageBusy, StorageError
from aggregator.storage.locate import full_url, sqlite_path

if TYPE_CHECKING:
    from aggregator.storage.opening import Database

log = logging.getLogger(__name__)

# Seconds that a start waits for the database: of a process alone, and where others serve meanwhile.
PATIENCE: Final = 2.0
PATIENCE_BESIDE_OTHERS: Final = 30.0
_MEND: Final = "Make new keys with `aggregator keys new AGENT`"
_DAMAGED: Final = (
    "The database was damaged and is now {}: the keys in it are lost, so requests without a key are refused. "
    + _MEND
    + "; if there were none in it, move that file to another folder."
)
_DELETED: Final = (
    "The database {} was deleted and made anew: the keys in it are lost, so requests without a key are refused. "
    + _MEND
    + ", or start the aggregator again."
)


class KeyDatabase(Protocol):
    """The database that keeps keys; `url` is None without a database."""

    @property
    def url(self) -> str | None: ...

    async def open(self) -> "Database | None": ...


class KeySync:
    """The loader of the keyring of `access`.

    `wanted`: a frontend authenticates by key. `known`: the keys of the database have been read.
    """

    def __init__(
        self,
        access: Access,
        views: Views,
        database: KeyDatabase,
    ) -> None:
        self.wanted = self.known = False
        self._access = access
        self._views = views
        self._database = database
        self._path = sqlite_path(full_url(database.url)) if database.url is not None else None
        self._reading: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        # True if the file was replaced since the keys were read.
        self._outdated = False

    async def load(self, patience: float = PATIENCE) -> None:
        """Read the keys before a frontend that needs them opens; `run` continues if that takes longer.

        Raises:
            StorageError: the database cannot be used; without its keys, requests without a key would be accepted.
        """
        self.wanted = True
        self.use_policies()
        self._reading = asyncio.get_running_loop().create_task(self._read())
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._reading)
        except TimeoutError:
            self._lock("The database has not answered yet: it is being made ready, or another program has it locked.")
        except StorageBusy as error:
            self._lock(str(error))

    def look_now(self) -> None:
        """Read the keys at once: another process has changed them."""
        self._wake.set()

    async def run(self) -> None:
        """Keep the keys up to date until cancelled; the first key may be created while the process runs."""
        try:
            while not self.known:
                await self._try()
                if not self.known:
                    await asyncio.sleep(REFRESH_EVERY)
        finally:
            if self._reading is not None:
                self._reading.cancel()
        await self._access.keyring.run(pause=self._pause)

    async def _try(self) -> None:
        reading, self._reading = self._reading, None
        try:
            if reading is not None:
                await reading
            elif self._database_exists:
                await self._read()
            else:
                self._unlock()
        except StorageError as error:
            # There may be keys in the database by now.
            if self._database_exists:
                self._lock(str(error))
            else:
                self._unlock()

    async def _read(self) -> None:
        database = await self._database.open() if self._database_exists or self._views.rulebook is not None else None
        if database is not None:
            keyring = Keyring(database.keys)
            await keyring.refresh()
            self._access.keyring = keyring
            self._check_set_aside(database.set_aside)
            if self._access.locked is not None:
                log.warning("%s", self._access.locked)
            database.engine.on_file_replaced(self._replaced)
            self.known = True
        self.use_policies()
        if self.known:
            self._end_lock()

    def _lock(self, reason: str) -> None:
        """Refuse requests whose key is not known: it may be one of those that cannot be read."""
        if not self._access.unread:
            log.error("keys cannot be read, so every request without a known key is refused: %s", reason)
        self._access.locked, self._access.unread = reason, True

    def _unlock(self) -> None:
        """Take back the refusal: there is no database any more in which keys could be."""
        self._access.locked = None
        self._end_lock()

    def _end_lock(self) -> None:
        """Log which requests are accepted, now that keys can be read again."""
        if self._access.unread:
            self._access.unread = False
            log.info("keys can be read again: %s", self._access.keyless_text())

    def _replaced(self) -> None:
        """Refuse requests without a key: another file has replaced the database, and its keys are read next."""
        if len(self._access.keyring):
            self._access.locked = _DELETED.format(self._path)
            self._outdated = True
            self._wake.set()

    def _check_set_aside(self, set_aside: tuple[Path, ...]) -> None:
        """Set or clear the lock: keys may be in a damaged file, or may have been in one that is gone."""
        if set_aside:
            self._access.locked = _DAMAGED.format(set_aside[-1])
        elif len(self._access.keyring) or not self._access.keyring.ever:
            self._access.locked = None

    async def _pause(self, seconds: float) -> None:
        """Wait between two reads of the database; less where another process says that it changed keys."""
        self._outdated = False
        with suppress(TimeoutError):
            async with asyncio.timeout(until_next(seconds)):
                await self._wake.wait()
        self._wake.clear()
        # The keys of a file that was replaced meanwhile are no reason to let anyone in: they are read anew first.
        if self._access.locked is not None and self._path is not None and not self._outdated:
            self._check_set_aside(await asyncio.to_thread(set_aside_before, self._path))

    def use_policies(self) -> None:
        """Take the keys of the policy files in force."""
        rulebook = self._views.rulebook
        keys = []
        for agent_id, key in rulebook.keys if rulebook is not None else ():
            try:
                keys.append(parse_policy_line(key.line, agent_id))
            except ValueError as error:
                log.error("policies: a key of agent %s is not used: %s", agent_id, error)
        self._access.keyring.use_policy_keys(keys)

    @property
    def _database_exists(self) -> bool:
        """True if the database exists. It is not created only to find it empty."""
        return self._database.url is not None and (self._path is None or self._path.exists())
