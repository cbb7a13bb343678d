"""The membership of a process in its group: the shared key, the heartbeat, the log of changes of the others.

Rule: a process alone on its database has the key and nothing else; it runs no loop. Nothing here is on the path of a
call.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aggregator.domain.bounds.kept_work import KeptWork, Work
from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.config import ReplicasConfig
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
from aggregator.storage.records import LEASES, Change

# Seconds between two looks if nothing wakes it before, and after a look that failed.
LOOK_EVERY: Final = 0.25

_AFTER_A_FAULT: Final = 1.0

# Seconds without a look after which changes may be gone: less than the database keeps them (`storage/retention`).
_MISSED_AFTER: Final = 1800.0

# Called for a change of its subject, of this replica or another. After the database was restored or replaced, or this
# process was halted for long, it is called once with an empty body: anything may have changed.
OnReplicaChange = Callable[[Change], None]

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
        """Wait at most so many seconds for the key of the group; return True if it has come."""
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


if TYPE_CHECKING:
    from aggregator.replicas.storage import ChangeLog


class ChangesTail:
    """The changes from now on. Call `listen` before `run`."""

    def __init__(self) -> None:
        self._changes: ChangeLog | None = None
        self._listeners: defaultdict[str, list[OnReplicaChange]] = defaultdict(list)
        self._seen = 0
        self._looked = time.time()
        self._wake = asyncio.Event()
        self._started = asyncio.Event()
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<ChangesTail at {self._seen}>"

    def listen(self, subject: str, listener: OnReplicaChange) -> None:
        """Call `listener` for each change of a subject."""
        self._listeners[subject].append(listener)

    def look_now(self) -> None:
        """Look now."""
        self._wake.set()

    async def publish(self, subject: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a change to every replica, and to the listeners of this one.

        Raises:
            StorageError: the database cannot store it, or is not open yet.
        """
        if self._changes is None:
            raise StorageError("The database is not open yet.")
        await self._changes.publish(subject, body)

    async def start(self, changes: "ChangeLog") -> None:
        """Begin at the newest change; a second time changes nothing.

        Raises:
            StorageError: the database cannot be read.
        """
        if self._changes is not None:
            return
        self._seen = await changes.newest()
        self._changes = changes
        changes.on_written(self.look_now)
        self._started.set()

    async def run_wakes(self) -> None:
        """Look at once when another replica has written a change, if the database can notify."""
        await self._started.wait()
        assert self._changes is not None
        await self._changes.run_wakes(self.look_now)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            pause = LOOK_EVERY
            if self._changes is not None:
                try:
                    await self._look(self._changes)
                except StorageError as error:
                    if self.problem is None:
                        log.warning("changes made by other replicas are not seen: %s", error)
                    self.problem, pause = str(error), _AFTER_A_FAULT
                else:
                    if self.problem is not None:
                        log.info("changes made by other replicas are seen again")
                    self.problem = None
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    async def _look(self, changes: "ChangeLog") -> None:
        before, self._looked = self._looked, time.time()
        found = await changes.after(self._seen)
        paused = abs(self._looked - before) > _MISSED_AFTER
        if paused or not found:
            newest = await changes.newest()
            if paused or newest < self._seen:
                # Changes may have been removed unread; or the database is another one, or was restored.
                self._seen = newest
                found = [Change(newest, subject, None, {}) for subject in self._listeners]
        for change in found:
            self._seen = max(self._seen, change.seq)
            for listener in self._listeners.get(change.subject, ()):
                self._call(listener, change)

    def _call(self, listener: OnReplicaChange, change: Change) -> None:
        try:
            listener(change)
        except Exception:
            # The body may come from another version: one listener's fault must not hold up the rest.
            log.exception("a change of %s was not taken", change.subject)
