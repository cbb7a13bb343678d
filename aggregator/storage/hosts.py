"""The tables about hosts that all replicas share: data of sessions beyond their ids, and the sealed states brought
back.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import SESSIONS_SUBJECT, HostSessionChange, HostSessionRecord
from aggregator.storage.tables import host_sessions, used_states

# Rows kept of one agent; beyond that, the earliest to expire are removed. It is checked after so many new ones.
_MOST_OF_ONE: Final = 10_000
_LOOK_AFTER: Final = 250
# Characters of the URIs of one session.
_LONGEST_STATE: Final = 64 * 1024

# Those that have expired are removed once with so many new ones.
_REMOVE_AFTER: Final = 100


class UsedStates:
    """The nonces of states that were used."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._added = 0

    async def use(self, nonce: str, expires: float, now: float) -> bool:
        """Return whether a state is used for the first time; it is used from now on.

        Raises:
            StorageError: the database cannot do it, so that it is not known.
        """
        try:
            async with self._engine.write() as connection:
                await connection.execute(insert(used_states).values(nonce=nonce, expires=expires))
                self._added += 1
                if self._added % _REMOVE_AFTER == 1:
                    await connection.execute(delete(used_states).where(used_states.c.expires < now))
        except IntegrityError:
            return False
        return True


class HostSessions:
    """The rows of sessions; most sessions never have one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._added: Counter[str] = Counter()

    async def read(self, ids: Collection[str]) -> dict[str, HostSessionRecord]:
        """Return the stored state of these sessions; a bounded number of them.

        Raises:
            StorageError: the database failed. So with every method.
        """
        async with self._engine.read() as connection:
            rows = (await connection.execute(select(host_sessions).where(host_sessions.c.id.in_(ids)))).all()
        found = {}
        for row in rows:
            state = _read(row.state)
            found[row.id] = HostSessionRecord(row.id, row.ended is not None, state["level"], tuple(state["uris"]))
        return found

    async def write(
        self, changes: Sequence[HostSessionChange], now: float, told: Mapping[str, Any] | None = None
    ) -> None:
        """Make changes, and tell all replicas of them; a session that has ended stays so.

        Raises:
            StorageBusy: another replica wrote of the same sessions at this moment; try again.
        """
        subjects = (SESSIONS_SUBJECT,) if told else ()
        added: Counter[str] = Counter()
        try:
            async with self._engine.write(*subjects, body=told) as connection:
                if changes:
                    added = await self._write(connection, changes)
                    await self._remove_old(connection, added, now)
        except IntegrityError as error:
            raise StorageBusy("Another replica wrote of the same session at this moment.") from error

    async def _write(self, connection: AsyncConnection, changes: Sequence[HostSessionChange]) -> Counter[str]:
        known = select(host_sessions).where(host_sessions.c.id.in_([one.id for one in changes])).with_for_update()
        before = {row.id: row for row in await connection.execute(known)}
        new = [one for one in changes if one.id not in before]
        if new:
            await connection.execute(insert(host_sessions), [_row(one, _read(None)) for one in new])
        for one in changes:
            row = before.get(one.id)
            if row is not None and row.ended is None:
                values = _row(one, _read(row.state))
                await connection.execute(update(host_sessions).where(host_sessions.c.id == one.id).values(values))
        return Counter(one.agent_id for one in new)

    async def _remove_old(self, connection: AsyncConnection, added: Mapping[str, int], now: float) -> None:
        """Bound the rows of each agent: sessions are opened and ended as hosts please."""
        self._added.update(added)
        for agent in [one for one in added if self._added[one] >= _LOOK_AFTER]:
            del self._added[agent]
            same = host_sessions.c.agent_id == agent
            newest = select(host_sessions.c.expires).where(same).order_by(host_sessions.c.expires.desc())
            least = await connection.scalar(newest.offset(_MOST_OF_ONE).limit(1))
            bound = max(now, least if least is not None else 0.0)
            await connection.execute(delete(host_sessions).where(same, host_sessions.c.expires <= bound))


def _row(change: HostSessionChange, before: Mapping[str, Any]) -> dict[str, Any]:
    uris = [*(uri for uri in before["uris"] if uri not in change.removed and uri not in change.added), *change.added]
    # The newest ones, as many as fit.
    while uris and sum(len(uri) for uri in uris) > _LONGEST_STATE:
        del uris[0]
    state = {"level": change.level or before["level"], "uris": uris}
    return {
        "id": change.id,
        "agent_id": change.agent_id,
        "expires": change.expires,
        "ended": change.ended,
        "state": json.dumps(state) if change.ended is None else None,
    }


def _read(state: str | None) -> dict[str, Any]:
    """Return the log level and the subscriptions in a state."""
    found = json.loads(state) if state is not None else {}
    level, uris = found.get("level"), found.get("uris")
    return {"level": level, "uris": uris if isinstance(uris, list) else []}
