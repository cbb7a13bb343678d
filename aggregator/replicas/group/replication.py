"""The membership of a process in its group: the shared key, the heartbeat, the changes of the others.

Rule: a process alone on its database has the key and nothing else; it runs no loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aggregator.domain.bounds.kept_work import KeptWork, Work
from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.config import ReplicasConfig
from aggregator.replicas.group.changes_tail import ChangesTail
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.hop_client import HopClient
from aggregator.replicas.group.hops import HopSigner
from aggregator.replicas.group.lease_rules import LEASE
from aggregator.replicas.group.leases import Leases
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.replicas.group.shared_usage import SharedUsage
from aggregator.storage.errors import StorageError
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.storage.records import LEASES

if TYPE_CHECKING:
    from aggregator.storage.audit.log import AuditRows
    from aggregator.storage.opening import Database

log = logging.getLogger(__name__)

# Seconds that a start waits for the database, and between two tries after that.
_PATIENCE: Final = 2.0
# A replica waits longer: without the key, no other replica continues its sessions, nor it theirs.
_PATIENCE_OF_REPLICA: Final = 15.0
_AGAIN: Final = 1.0


class Replication:
    """A process as a member of its group. `enabled`: it is or may be one of several; set before `running`."""

    def __init__(self, config: ReplicasConfig, database: LazyDatabase) -> None:
        self.config = config
        self.enabled = False
        self.key = SharedKey()
        self.clock = GroupClock()
        self.membership = Membership(self.clock, LEASE)
        self.changes = ChangesTail()
        self.usage = SharedUsage(config.group, self.membership, self.clock)
        self.leases = Leases(self.membership.id, LEASE, self.clock)
        self.changes.listen(LEASES, lambda _: self.leases.look_now())
        self.hops = HopSigner(self.membership.id, self.key, self.clock)
        self.hop_client = HopClient(self.membership, self.hops)
        self._database = database
        self._started = self._ready = False
        self._entering = asyncio.Lock()
        self._known = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Replication {'on' if self.enabled else 'off'}, {self.membership!r}>"

    @property
    def stored(self) -> bool:
        """True if there is a database."""
        return self._database.url is not None

    @property
    def awaited(self) -> bool:
        """True until the key of the group is read: ids made by others are not recognized before."""
        return self._started and not self._ready and self.config.key is None

    async def entered(self, within: float) -> bool:
        """Wait at most so many seconds for the key of the group; return True if it is known."""
        try:
            async with asyncio.timeout(within):
                await self._known.wait()
        except TimeoutError:
            return False
        return True

    async def database(self) -> "Database":
        """Return the database.

        Raises:
            StorageError: no database is configured, or it cannot be used now.
        """
        database = await self._database.open() if self._ready else None
        if database is None:
            raise StorageError("The database is not open yet.")
        return database

    async def alone(self, name: str, work: Work) -> None:
        """Run some work until cancelled, in one replica of the group at a time."""
        if self.enabled:
            await self.leases.run_alone(name, work)
        else:
            await work()

    async def start(self) -> None:
        """Read the key of the group and join it, before a frontend opens; `running` continues if that takes long."""
        self.usage.on = self.enabled
        self._started = True
        if self.config.key is not None:
            self.key.use(self.config.key)
        try:
            async with asyncio.timeout(_PATIENCE_OF_REPLICA if self.enabled else _PATIENCE):
                await self._enter()
        except (TimeoutError, StorageError) as error:
            log.warning("the database has not answered yet, so this process is alone for now: %s", error)

    @asynccontextmanager
    async def running(self, kept: KeptWork) -> AsyncIterator[None]:
        """Keep in touch with the others inside; leave the group on the way out."""
        self.usage.on = self.enabled
        async with Tasks("the replica") as tasks, self.usage.running(kept):
            tasks.start(kept.keep("the entry into the group", self._keep_entering))
            if self.enabled:
                tasks.start(kept.keep("the heartbeat", self.membership.run))
                tasks.start(kept.keep("the look for changes of other replicas", self.changes.run))
                tasks.start(kept.keep("the news of other replicas", self.changes.run_wakes))
                tasks.start(self.leases.run(kept))
            try:
                yield
            finally:
                if self.enabled:
                    await self.usage.end()
                    await self.leases.close()
                    await self.membership.leave()
                await self.hop_client.close()

    async def audit_rows(self) -> "AuditRows":
        """Return the audit log, in which a replica writes the chain of its slot.

        Raises:
            StorageError: the database cannot be used.
        """
        rows = await self._database.audit_rows()
        rows.write_chain(self._slot)
        return rows

    def _slot(self) -> int:
        return self.membership.slot

    async def _keep_entering(self) -> None:
        while not self._ready:
            await asyncio.sleep(_AGAIN)
            try:
                await self._enter()
            except StorageError as error:
                log.debug("the group cannot be entered yet: %s", error)

    async def _enter(self) -> None:
        async with self._entering:
            if not self._ready:
                await self._enter_once()
                self._known.set()

    async def _enter_once(self) -> None:
        database = await self._database.open()
        if database is None:
            self._ready = True
            return
        if self.config.key is None:
            self.key.use(await database.shared_keys.of_group(self.config.group))
        if self.enabled:
            database.engine.origin = self.membership.id
            await self.changes.start(database.changes)
            self.leases.start(database.leases(self.config.group))
            await self.membership.join(database.replicas(self.config.group, LEASE))
            await self.usage.start(database.limit_usage)
        self._ready = True
