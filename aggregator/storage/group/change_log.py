"""The log of changes that processes sharing a database notify each other with."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import delete, func, select

from aggregator.storage.engine.engine import Engine, OnChangesWritten
from aggregator.storage.engine.postgres_wake import ChangeWake, OnWoken
from aggregator.storage.records import Change
from aggregator.storage.tables import changes

# Rows read at once.
_PAGE: Final = 1_000


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
        return [Change(row.seq, row.subject, row.origin, _body(row.body)) for row in rows]

    async def publish(self, subject: str, body: Mapping[str, Any] | None = None) -> None:
        """Write a change that every process is notified of."""
        await self._engine.publish(subject, body)

    async def remove(self, before: float) -> int:
        """Remove old changes, but for the newest of each subject; return how many. `before`: seconds since 1970."""
        newest = select(func.max(changes.c.seq)).group_by(changes.c.subject)
        async with self._engine.write() as connection:
            old = delete(changes).where(changes.c.at < before, changes.c.seq.not_in(newest))
            return (await connection.execute(old)).rowcount

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


def _body(text: str | None) -> Mapping[str, Any]:
    found = json.loads(text) if text is not None else {}
    return found if isinstance(found, dict) else {}
