"""The table of each replica's use of the limits: each writes its own rows and reads the others'."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from aggregator.storage.engine.engine import Engine
from aggregator.storage.group.usage_rows import Times, UsageRow
from aggregator.storage.tables import limit_usage


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
        dialect = sqlite if self._engine.path is not None else postgresql
        new = dialect.insert(limit_usage)
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
                found[counter].append(UsageRow(counter, used, _times(times), expires))
        return found


def _times(text: str | None) -> Times | None:
    found: Any = json.loads(text) if text is not None else None
    return tuple((float(at), int(calls)) for at, calls in found) if found is not None else None
