"""The table of replicas: who is there, in which slot, at which address."""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import Beat, ReplicaRecord
from aggregator.storage.tables import replicas

# A row that was not written for so many leases belongs to a replica that ended without a word.
_FORGOTTEN: Final = 5


class ReplicaRows:
    """The replicas of one group."""

    def __init__(self, engine: Engine, group: str, lease: float) -> None:
        self._engine = engine
        self._group = group
        self._lease = lease

    async def beat(self, me: ReplicaRecord) -> Beat:
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
                found = tuple(_record(row) for row in (await connection.execute(rows)).mappings())
        except IntegrityError as error:
            # Another one took the slot at this moment: the next heartbeat takes another.
            raise StorageBusy("Another replica took the same slot at this moment.") from error
        there = tuple(one for one in found if one.seen > now - self._lease)
        return Beat(now, there, tuple(one for one in found if one not in there))

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


def _record(row: RowMapping) -> ReplicaRecord:
    facts = json.loads(row["facts"])
    named = ("id", "slot", "address", "version", "started", "seen")
    return ReplicaRecord(**{name: row[name] for name in named}, facts=facts if isinstance(facts, dict) else {})
