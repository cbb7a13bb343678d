"""The replicas of the group as this one sees them, kept up to date by a heartbeat."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from aggregator import __version__
from aggregator.replicas.group.clock import GroupClock
from aggregator.storage.errors import StorageError
from aggregator.storage.records import Heartbeat, ReplicaRecord

log = logging.getLogger(__name__)

# Seconds between two heartbeats.
EVERY: Final = 1.0


class HeartbeatTable(Protocol):
    """The table in which replicas write that they are there, such as `storage.group.ReplicaRows`."""

    async def beat(self, me: ReplicaRecord) -> Heartbeat: ...

    async def leave(self, id: str) -> None: ...

    async def last_seen(self) -> Mapping[str, float]: ...


# Returns the facts that this replica publishes about itself: plain JSON, small.
OwnReport = Callable[[], Mapping[str, Any]]
# Called when a replica joins or leaves.
OnReplicasChanged = Callable[[], None]
# Tells whether a replica is the wanted one.
ReplicaTest = Callable[[ReplicaRecord], bool]


class Membership:
    """The group of this process. `id` is its name in the group, new for each process.

    While the database is away, the last answer stands. `settled`: a heartbeat came through after that of `join`, so
    replicas that joined at the same time know each other.
    """

    def __init__(self, clock: GroupClock, lease: float) -> None:
        self.id = secrets.token_hex(8)
        self.clock = clock
        self.lease = lease
        self.address: str | None = None
        # The slot; 0 until the first heartbeat was written.
        self.slot = 0
        self.problem: str | None = None
        self.joined = asyncio.Event()
        self.settled = False
        # The first heartbeat since the last failure, and the last one that came through.
        self._steady: float | None = None
        self._beaten = 0.0
        self._rows: HeartbeatTable | None = None
        self._replicas: Mapping[str, ReplicaRecord] = {}
        # Replicas without a heartbeat for a lease that have not left: they may only be cut off from the database.
        self._silent: Mapping[str, ReplicaRecord] = {}
        # The number of heartbeats begun, the last that came through, and the event of the next.
        self._begun = self._through = 0
        self._next_through = asyncio.Event()
        self._facts: list[OwnReport] = []
        self._on_changed: list[OnReplicasChanged] = []

    def __repr__(self) -> str:
        return f"<Membership {self.id} in slot {self.slot}, {len(self._replicas)} replicas>"

    @property
    def joined_as(self) -> str | None:
        """The id of this process for others; None before its first heartbeat is written."""
        return self.id if self.joined.is_set() else None

    @property
    def count(self) -> int:
        """The number of live replicas, this one included."""
        return max(1, len(self._replicas))

    def all(self) -> tuple[ReplicaRecord, ...]:
        """Return every live replica, this one included, by slot."""
        return tuple(self._replicas.values())

    def others(self) -> tuple[ReplicaRecord, ...]:
        """Return every other live replica, by slot."""
        return tuple(one for one in self._replicas.values() if one.id != self.id)

    def get(self, id: str) -> ReplicaRecord | None:
        """Return a live replica, or None."""
        return self._replicas.get(id)

    def reachable(self, id: str) -> ReplicaRecord | None:
        """Return a replica that may answer a hop: a live or a silent one. None if it is gone."""
        return self._replicas.get(id) or self._silent.get(id)

    async def find(self, fits: ReplicaTest) -> ReplicaRecord | None:
        """Return the other replica that fits, live or silent. An unknown one may have joined a moment ago, so the
        answer is None only after a heartbeat that began after this call.

        While the database is away, this waits.
        """
        asked = self._begun
        while True:
            known = (*self._replicas.values(), *self._silent.values())
            found = next((one for one in known if one.id != self.id and fits(one)), None)
            if found is not None or self._through > asked:
                return found
            await self._next_through.wait()

    def say(self, facts: OwnReport) -> None:
        """Publish these facts with each heartbeat."""
        self._facts.append(facts)

    def on_changed(self, listener: OnReplicasChanged) -> None:
        """Call `listener` each time a replica joins or leaves."""
        self._on_changed.append(listener)

    async def join(self, rows: HeartbeatTable) -> None:
        """Enter the group.

        Raises:
            StorageError: the database failed; `run` tries again.
        """
        self._rows = rows
        await self._beat()

    async def gone(self, ids: Iterable[str]) -> frozenset[str]:
        """Return which of these replicas, of any group, have no heartbeat of the last `lease` seconds in the database.

        The answer is empty if the database was away until a moment ago: no replica could write its heartbeat.

        Raises:
            StorageError: the database cannot be read.
        """
        if self._rows is None or self._steady is None or time.monotonic() - self._steady < self.lease + 2 * EVERY:
            return frozenset()
        seen = await self._rows.last_seen()
        least = self.clock.now() - self.lease
        return frozenset(id for id in ids if id != self.id and seen.get(id, 0.0) < least)

    async def run(self) -> None:
        """Write heartbeats until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            if self._rows is None:
                continue
            try:
                await self._beat()
            except StorageError as error:
                if self.problem is None:
                    log.warning("the other replicas cannot be seen: %s", error)
                self.problem = str(error)

    async def leave(self) -> None:
        """Leave the group, so that the others need not wait out the lease."""
        if self._rows is not None:
            try:
                await self._rows.leave(self.id)
            except StorageError as error:
                log.info("the group could not be told of the end: %s", error)

    async def _beat(self) -> None:
        assert self._rows is not None, "a heartbeat comes after `join`"
        facts = {name: value for one in self._facts for name, value in one().items()}
        me = ReplicaRecord(self.id, self.slot, self.address, __version__, 0.0, 0.0, facts)
        before = time.monotonic()
        self._begun = begun = self._begun + 1
        beat = await self._rows.beat(me)
        self.clock.measure(before, beat.now, time.monotonic())
        now = time.monotonic()
        if self._steady is None or now - self._beaten > 2 * EVERY:
            self._steady = now
        self._beaten = now
        found = {one.id: one for one in beat.replicas}
        if self.problem is not None:
            log.info("the other replicas are seen again: %d in all", len(found))
            self.problem = None
        changed = found.keys() != self._replicas.keys()
        self._replicas = found
        self._silent = {one.id: one for one in beat.silent}
        self._through = begun
        self._next_through.set()
        self._next_through = asyncio.Event()
        if self.id in found:
            self.slot = found[self.id].slot
        self.settled = self.joined.is_set()
        self.joined.set()
        if changed:
            log.info("replicas: %s", ", ".join(f"{one.id} (slot {one.slot})" for one in found.values()))
            for listener in self._on_changed:
                listener()
