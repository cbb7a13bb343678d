"""The users signed in at the console, and links that sign in once. Secrets are stored as digests."""

import secrets
from hashlib import sha256
from typing import Final, NamedTuple

from sqlalchemy import delete, insert, select, update

from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import NoSuchRow
from aggregator.storage.records import ConsoleRole, ConsoleSession
from aggregator.storage.tables import console_links, console_sessions

# Seconds that a link for signing in is good for, a session lasts without a request, and at most.
LINK_FOR: Final = 60.0
IDLE_FOR: Final = 3600.0
LASTS_FOR: Final = 12 * 3600.0
# Seconds to which the time of the last request is kept: each page would be a write otherwise.
_SEEN_TO_THE: Final = 60.0
# Sessions and unused links at the same time; with more, the oldest end.
_MOST: Final = 1_000


class SignInLink(NamedTuple):
    """The user and role that a link signs in."""

    person: str
    role: ConsoleRole


def new_secret() -> str:
    """Return 256 random bits, as they stand in a cookie or a link."""
    return secrets.token_urlsafe(32)


class ConsoleSessions:
    """The sessions and links of one database. `now` is the time in seconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add_link(self, secret: str, person: str, role: ConsoleRole, *, now: float) -> None:
        """Keep a link, which is good once and for `LINK_FOR` seconds.

        Raises:
            StorageError: the database cannot do it. So with every method.
        """
        values = {"hash": _hashed(secret), "person": person, "role": role, "expires": now + LINK_FOR}
        async with self._engine.write() as connection:
            await connection.execute(delete(console_links).where(console_links.c.expires <= now))
            await connection.execute(insert(console_links).values(values))

    async def take_link(self, secret: str, *, now: float) -> SignInLink | None:
        """Use up a link: exactly one caller gets it. None if it is used, expired or unknown."""
        mine = console_links.c.hash == _hashed(secret)
        async with self._engine.write() as connection:
            row = (await connection.execute(select(console_links).where(mine))).first()
            if row is None:
                return None
            await connection.execute(delete(console_links).where(mine))
        return SignInLink(row.person, row.role) if row.expires > now else None

    async def begin(
        self, secret: str, person: str, role: ConsoleRole, key_id: str | None, *, now: float
    ) -> ConsoleSession:
        """Sign a user in; `key_id` names the API key that identified them, if any."""
        made = ConsoleSession(secrets.token_hex(6), person, role, key_id, now, now, now + LASTS_FOR)
        values = {name: getattr(made, name) for name in made.__slots__}
        sessions = console_sessions
        async with self._engine.write() as connection:
            gone = (sessions.c.expires <= now) | (sessions.c.last_seen <= now - IDLE_FOR)
            await connection.execute(delete(sessions).where(gone))
            kept = select(sessions.c.hash).order_by(sessions.c.last_seen.desc()).limit(_MOST - 1)
            await connection.execute(delete(sessions).where(sessions.c.hash.not_in(kept)))
            await connection.execute(insert(sessions).values(hash=_hashed(secret), **values))
        return made

    async def find(self, secret: str, *, now: float) -> ConsoleSession | None:
        """Return the session of a cookie, and record its use; None if it has ended."""
        mine = console_sessions.c.hash == _hashed(secret)
        async with self._engine.read() as connection:
            row = (await connection.execute(select(console_sessions).where(mine))).mappings().first()
        if row is None:
            return None
        session = ConsoleSession(**{name: value for name, value in row.items() if name != "hash"})
        if session.expires <= now or session.last_seen <= now - IDLE_FOR:
            return None
        if session.last_seen < now - _SEEN_TO_THE:
            async with self._engine.write() as connection:
                await connection.execute(update(console_sessions).where(mine).values(last_seen=now))
        return session

    async def holds(self, id: str, *, now: float) -> bool:
        """Return whether a session is still good, which does not count as a use of it."""
        query = select(console_sessions.c.expires, console_sessions.c.last_seen).where(console_sessions.c.id == id)
        async with self._engine.read() as connection:
            row = (await connection.execute(query)).first()
        return row is not None and row.expires > now and row.last_seen > now - IDLE_FOR

    async def all(self, *, now: float) -> list[ConsoleSession]:
        """Return the sessions that have not ended, newest first."""
        sessions = console_sessions
        lasting = (sessions.c.expires > now) & (sessions.c.last_seen > now - IDLE_FOR)
        columns = [column for column in sessions.c if column.name != "hash"]
        async with self._engine.read() as connection:
            rows = await connection.execute(select(*columns).where(lasting).order_by(sessions.c.created.desc()))
            return [ConsoleSession(**row) for row in rows.mappings()]

    async def end(self, id: str) -> None:
        """End a session now.

        Raises:
            NoSuchRow: there is none such.
        """
        async with self._engine.write() as connection:
            done = await connection.execute(delete(console_sessions).where(console_sessions.c.id == id))
        if not done.rowcount:
            raise NoSuchRow(f"There is no session {id!r:.40} of the console.")


def _hashed(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
