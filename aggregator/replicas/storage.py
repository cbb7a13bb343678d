"""The tables that the replicas of a group share: who is there, changes, leases, usage of limits, the key of the group.

Rule: a lease changes hands only by naming the row that it was seen as; of several that try at once one succeeds.
"""

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from aggregator.storage.engine import postgres
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine, OnChangesWritten
from aggregator.storage.engine.postgres_wake import ChangeWake, OnWoken
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import LEASES, Change, Heartbeat, LeaseRecord, ReplicaRecord, UsageRow, UsageTimes
from aggregator.storage.tables import changes, leases, limit_usage, replicas, shared_keys

# Rows read at once.
_PAGE: Final = 1_000
# A row that was not written for so many leases belongs to a replica that ended without a word.
_FORGOTTEN: Final = 5


class ChangeLog:
    """The log in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def newest(self) -> int:
        """Return the number of the newest change; 0 while there is none.

        Raises:
            StorageError: the database cannot be read. So with every method.
        """
        async with self._engine.read() as connection:
            return int(await connection.scalar(select(func.max(changes.c.seq))) or 0)

    async def after(self, seq: int) -> list[Change]:
        """Return the changes after a number, oldest first; a bounded number of them."""
        wanted = select(changes).where(changes.c.seq > seq).order_by(changes.c.seq).limit(_PAGE)
        async with self._engine.read() as connection:
            rows = (await connection.execute(wanted)).all()
        return [Change(row.seq, row.subject, row.origin, _change_body(row.body)) for row in rows]

    async def publish(self, subject: str, body: Mapping[str, Any] | None = None) -> None:
        """Write a change that every process is notified of."""
        await self._engine.publish(subject, body)

    async def run_wakes(self, wake: OnWoken) -> None:
        """Call `wake` soon after any process of a database server has written a change, until cancelled.

        Returns at once if that is impossible: processes on a file, or behind a pooler, poll by themselves.
        """
        server = self._engine.server
        if server is None or server.pooled:
            return
        waking = ChangeWake(server)
        self.on_written(waking.note_change)
        await waking.run(wake)

    def on_written(self, listener: OnChangesWritten) -> None:
        """Call `listener` each time this process has written a change."""
        self._engine.on_changes_written(listener)


def _change_body(text: str | None) -> Mapping[str, Any]:
    found = json.loads(text) if text is not None else {}
    return found if isinstance(found, dict) else {}


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


class ReplicaRows:
    """The replicas of one group."""

    def __init__(self, engine: Engine, group: str, lease: float) -> None:
        self._engine = engine
        self._group = group
        self._lease = lease

    async def beat(self, me: ReplicaRecord) -> Heartbeat:
        """Record that this replica is alive; it gets the smallest free slot if it has none, or lost its own.

        Raises:
            StorageError: the database failed.
        """
        values = {"seen": 0.0, "address": me.address, "facts": json.dumps(me.facts)}
        try:
            async with self._engine.write() as connection:
                now = values["seen"] = await self._now(connection)
                mine = update(replicas).where(replicas.c.id == me.id, replicas.c.group_name == self._group)
                if (await connection.execute(mine.values(values))).rowcount == 0:
                    await self._join(connection, me, values)
                rows = select(replicas).where(replicas.c.group_name == self._group).order_by(replicas.c.slot)
                found = tuple(_replica(row) for row in (await connection.execute(rows)).mappings())
        except IntegrityError as error:
            # Another one took the slot at this moment: the next heartbeat takes another.
            raise StorageBusy("Another replica took the same slot at this moment.") from error
        # One that was seen long after now was seen before the clock was set back, and has not been since.
        there = tuple(one for one in found if abs(now - one.seen) < self._lease)
        return Heartbeat(now, there, tuple(one for one in found if one not in there))

    async def leave(self, id: str) -> None:
        """Take a replica out: its slot is free at once.

        Raises:
            StorageError: the database cannot do it.
        """
        async with self._engine.write() as connection:
            await connection.execute(delete(replicas).where(replicas.c.id == id))

    async def last_seen(self) -> dict[str, float]:
        """Return when each replica was last seen, of every group on the database.

        Raises:
            StorageError: the database cannot be read.
        """
        async with self._engine.read() as connection:
            rows = await connection.execute(select(replicas.c.id, replicas.c.seen))
            return {row.id: row.seen for row in rows}

    async def _join(self, connection: AsyncConnection, me: ReplicaRecord, values: Mapping[str, Any]) -> None:
        if self._engine.path is None:
            await connection.execute(postgres.lock(f"replicas {self._group}"))
        now = values["seen"]
        same = replicas.c.group_name == self._group
        await connection.execute(delete(replicas).where(same, replicas.c.seen < now - _FORGOTTEN * self._lease))
        taken = set((await connection.execute(select(replicas.c.slot).where(same))).scalars())
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        row = {"id": me.id, "group_name": self._group, "slot": slot, "version": me.version, "started": now, **values}
        await connection.execute(insert(replicas).values(row))

    async def _now(self, connection: AsyncConnection) -> float:
        """Return the database's time. A file has none of its own: all who use it are on this machine."""
        if self._engine.path is not None:
            return time.time()
        return float(await connection.scalar(select(postgres.now())) or 0.0)


def _replica(row: RowMapping) -> ReplicaRecord:
    facts = json.loads(row["facts"])
    named = ("id", "slot", "address", "version", "started", "seen")
    return ReplicaRecord(**{name: row[name] for name in named}, facts=facts if isinstance(facts, dict) else {})


class LeaseRows:
    """The leases of one group."""

    def __init__(self, engine: Engine, group: str) -> None:
        self._engine = engine
        self._prefix = f"{group}/"

    async def read(self, names: Collection[str]) -> dict[str, LeaseRecord]:
        """Return the leases with these names that were ever taken.

        Raises:
            StorageError: the database cannot do it. So with every method.
        """
        wanted = select(leases).where(leases.c.name.in_([self._prefix + name for name in names]))
        async with self._engine.read() as connection:
            found = [self._record(row) for row in (await connection.execute(wanted)).mappings()]
        return {one.name: one for one in found}

    async def take(self, name: str, owner: str, seen: LeaseRecord | None, until: float) -> LeaseRecord | None:
        """Make `owner` the lease holder, if the lease is unchanged since `seen`; return it, or None if it has changed.

        seen: None if there was no row.
        """
        generation = seen.generation + 1 if seen is not None else 1
        values = {"owner": owner, "generation": generation, "renewals": 0, "until": until}
        try:
            async with self._engine.write() as connection:
                if seen is None:
                    await connection.execute(insert(leases).values(name=self._prefix + name, **values))
                else:
                    same = and_(leases.c.name == self._prefix + name, leases.c.generation == seen.generation)
                    same = and_(
                        same, leases.c.renewals == seen.renewals, leases.c.owner.is_not_distinct_from(seen.owner)
                    )
                    if (await connection.execute(update(leases).where(same).values(values))).rowcount == 0:
                        return None
        except IntegrityError:
            return None
        return LeaseRecord(name, owner, generation, 0, until)

    async def renew(self, owner: str, held: Mapping[str, int], until: float) -> frozenset[str]:
        """Renew the leases that `owner` holds by name and generation; return the names of those that still were its."""
        mine = self._mine(owner, held)
        async with self._engine.write() as connection:
            found = frozenset((await connection.execute(select(leases.c.name).where(mine))).scalars())
            await connection.execute(update(leases).where(mine).values(renewals=leases.c.renewals + 1, until=until))
        return frozenset(name.removeprefix(self._prefix) for name in found)

    async def release(self, owner: str, held: Mapping[str, int]) -> None:
        """Give leases up, so that others need not wait for their end."""
        async with self._engine.write() as connection:
            await connection.execute(update(leases).where(self._mine(owner, held)).values(owner=None))

    async def announce(self) -> None:
        """Make the others check now. Outside of the transactions: a lease waits for no writer of changes."""
        await self._engine.publish(LEASES)

    def _mine(self, owner: str, held: Mapping[str, int]) -> ColumnElement[bool]:
        rows = [
            and_(leases.c.name == self._prefix + name, leases.c.generation == generation)
            for name, generation in held.items()
        ]
        return and_(leases.c.owner == owner, or_(*rows))

    def _record(self, row: RowMapping) -> LeaseRecord:
        name = row["name"].removeprefix(self._prefix)
        return LeaseRecord(name, row["owner"], row["generation"], row["renewals"], row["until"])


class LimitUsage:
    """The rows in one database. `counter` is unique over all groups."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
        """Replace a replica's usage; `number` grows with each of its reports.

        It is committed on return.

        Raises:
            StorageError: the database failed; it may be written all the same.
        """
        new = self._engine.insert(limit_usage)
        statement = new.on_conflict_do_update(
            index_elements=["counter", "replica"],
            set_={name: new.excluded[name] for name in ("report", "used", "times", "expires")},
            where=limit_usage.c.report < new.excluded.report,
        )
        values = [
            {
                "counter": row.counter,
                "replica": replica,
                "report": number,
                "used": row.used,
                "times": json.dumps(row.times) if row.times is not None else None,
                "expires": row.expires,
            }
            for row in rows
        ]
        async with self._engine.write() as connection:
            await connection.execute(statement, values)

    async def of_others(self, replica: str, counters: Collection[str], now: float) -> Mapping[str, Sequence[UsageRow]]:
        """Return the other replicas' usage by counter, as far as it counts at `now`.

        Raises:
            StorageError: the database cannot be read.
        """
        table = limit_usage.c
        wanted = select(table.counter, table.used, table.times, table.expires).where(
            table.counter.in_(counters), table.replica != replica, table.expires > now
        )
        found: defaultdict[str, list[UsageRow]] = defaultdict(list)
        async with self._engine.read() as connection:
            for counter, used, times, expires in await connection.execute(wanted):
                found[counter].append(UsageRow(counter, used, _usage_times(times), expires))
        return found


def _usage_times(text: str | None) -> UsageTimes | None:
    found: Any = json.loads(text) if text is not None else None
    return tuple((float(at), int(calls)) for at, calls in found) if found is not None else None
