"""The table of leases: which replica alone may do something, and since which generation.

Rule: a lease changes hands only by naming the row that it was seen as; of several that try at once one succeeds.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import ColumnElement, RowMapping, and_, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from aggregator.storage.engine.engine import Engine
from aggregator.storage.records import LEASES, LeaseRecord
from aggregator.storage.tables import leases


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

    async def all(self) -> tuple[LeaseRecord, ...]:
        """Return every lease of the group, by name."""
        wanted = select(leases).where(leases.c.name.startswith(self._prefix, autoescape=True)).order_by(leases.c.name)
        async with self._engine.read() as connection:
            return tuple(self._record(row) for row in (await connection.execute(wanted)).mappings())

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
