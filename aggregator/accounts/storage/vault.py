"""The tables of the vault in one database: grants, client ids, and accounts that are being connected.

Law: new tokens replace only the tokens they were requested with: a version is stored once, also if a grant was ended
and the same account connected anew, perhaps by another user.
"""

import json
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from aggregator.accounts.storage.records import GRANTS_SUBJECT, ClientRecord, ConnectRecord, GrantRecord, Version
from aggregator.storage.engine import postgres
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageBusy
from aggregator.storage.tables import changes, oauth_clients, oauth_connects, oauth_grants

# Changes read at once; who has missed more looks again.
_PAGE: Final = 10_000

_clients = oauth_clients.c

_connects = oauth_connects.c

# Beyond this, the oldest are removed.
_AT_MOST: Final = 20_000

# Bits of the version that a new row begins with: no late answer for a row that was removed counts for it.
_FIRST_VERSION_BITS: Final = 48

_grants = oauth_grants.c


class GrantRows:
    """The grants in one database. Every method raises StorageError if the database fails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, id: str) -> GrantRecord | None:
        """Return a grant, or None."""
        found = await self._read(_grants.id == id)
        return found[0] if found else None

    async def of_account(self, account: str) -> tuple[GrantRecord, ...]:
        """Return the grants of one owner for one server, the newest first."""
        return await self._read(_grants.account == account)

    async def of_server(self, server: str) -> tuple[GrantRecord, ...]:
        """Return the grants for one server, the newest first."""
        return await self._read(_grants.server == server)

    async def all(self) -> tuple[GrantRecord, ...]:
        """Return every grant, the newest first."""
        return await self._read(None)

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return the versions of the existing ones of these grants."""
        if not ids:
            return {}
        async with self._engine.read() as connection:
            rows = await connection.execute(select(_grants.id, _grants.version).where(_grants.id.in_(ids)))
            return {row.id: row.version for row in rows}

    async def put(self, grant: GrantRecord, by: str) -> int:
        """Store a user's grant, in place of the owner's earlier one for this server; return its version.

        by: names the process in the notification.
        """
        body = _news(grant, by, connected=True)
        values = _values(grant)
        try:
            async with self._engine.write(GRANTS_SUBJECT, body=body) as connection:
                other = and_(_grants.account == grant.account, _grants.id != grant.id)
                await connection.execute(delete(oauth_grants).where(other))
                before = await connection.scalar(select(_grants.version).where(_grants.id == grant.id))
                version = before + 1 if before is not None else 1 + secrets.randbits(_FIRST_VERSION_BITS)
                values["version"] = version
                if before is None:
                    await connection.execute(insert(oauth_grants).values(values))
                else:
                    values |= {"claimed_by": None, "claimed_until": None}
                    del values["created"]
                    await connection.execute(update(oauth_grants).where(_grants.id == grant.id).values(values))
        except IntegrityError as error:
            raise StorageBusy("The same account was connected twice at this moment.") from error
        return int(version)

    async def claim(self, id: str, version: int, claimant: str, seconds: float) -> bool:
        """Claim a grant for some seconds; False if another process has, or if the version differs."""
        async with self._engine.write() as connection:
            now = await self._now(connection)
            free = or_(_grants.claimed_until.is_(None), _grants.claimed_until <= now)
            mine = and_(_same(id, version), free)
            values = {"claimed_by": claimant, "claimed_until": now + seconds}
            return (await connection.execute(update(oauth_grants).where(mine).values(values))).rowcount > 0

    async def release(self, id: str, claimant: str) -> None:
        """Give a claim back."""
        mine = and_(_grants.id == id, _grants.claimed_by == claimant)
        async with self._engine.write() as connection:
            free = {"claimed_by": None, "claimed_until": None}
            await connection.execute(update(oauth_grants).where(mine).values(free))

    async def renew(self, grant: GrantRecord) -> bool:
        """Replace the tokens of `grant.version`; False if there are newer ones, or none any more."""
        values = {name: value for name, value in _values(grant).items() if name not in ("id", "account", "created")}
        values |= {"version": grant.version + 1, "claimed_by": None, "claimed_until": None}
        async with self._engine.write() as connection:
            same = _same(grant.id, grant.version)
            return (await connection.execute(update(oauth_grants).where(same).values(values))).rowcount > 0

    async def mark(self, grant: GrantRecord, problem: str, by: str) -> bool:
        """Record that a user has to connect again; False if the version differs by now."""
        values = {"problem": problem, "version": grant.version + 1, "claimed_by": None, "claimed_until": None}
        body = _news(grant, by, connected=False)
        async with self._engine.write(GRANTS_SUBJECT, body=body) as connection:
            values["updated"] = time.time()
            done = await connection.execute(update(oauth_grants).where(_same(grant.id, grant.version)).values(values))
            return done.rowcount > 0

    async def remove(self, server: str, owner: str, account: str, by: str) -> tuple[GrantRecord, ...]:
        """Remove the grants of one owner for one server, and return them."""
        async with self._engine.write(
            GRANTS_SUBJECT, body={"server": server, "owner": owner, "connected": False, "by": by}
        ) as connection:
            wanted = select(oauth_grants).where(_grants.account == account)
            found = tuple(_record(row) for row in (await connection.execute(wanted)).mappings())
            await connection.execute(delete(oauth_grants).where(_grants.account == account))
        return found

    async def _read(self, where: ColumnElement[bool] | None) -> tuple[GrantRecord, ...]:
        wanted = select(oauth_grants).order_by(_grants.updated.desc(), _grants.id)
        if where is not None:
            wanted = wanted.where(where)
        async with self._engine.read() as connection:
            return tuple(_record(row) for row in (await connection.execute(wanted)).mappings())

    async def _now(self, connection: AsyncConnection) -> float:
        """Return the database's time. A file has none of its own: all who use it are on this machine."""
        if self._engine.path is not None:
            return time.time()
        return float(await connection.scalar(select(postgres.now())) or 0.0)


def _news(grant: GrantRecord, by: str, *, connected: bool) -> dict[str, Any]:
    return {"server": grant.server, "owner": grant.owner, "connected": connected, "by": by}


def _same(id: str, version: int) -> ColumnElement[bool]:
    return and_(_grants.id == id, _grants.version == version)


def _values(grant: GrantRecord) -> dict[str, Any]:
    scopes = None if grant.scopes is None else json.dumps(grant.scopes)
    return {**asdict(grant), "scopes": scopes, "renewable": int(grant.renewable)}


def _record(row: RowMapping) -> GrantRecord:
    values = {name: row[name] for name in GrantRecord.__dataclass_fields__}
    scopes = None if row["scopes"] is None else tuple(json.loads(row["scopes"]))
    return GrantRecord(**{**values, "scopes": scopes, "renewable": bool(row["renewable"])})


class ConnectRows:
    """The accounts in the process of connecting. Every method raises StorageError if the database fails."""

    def __init__(self, engine: Engine, at_most: int = _AT_MOST) -> None:
        self._engine = engine
        self._at_most = at_most

    async def put(self, connect: ConnectRecord) -> None:
        """Store one; those that have expired, and the oldest of too many, go."""
        async with self._engine.write() as connection:
            await connection.execute(delete(oauth_connects).where(_connects.expires <= connect.created))
            more = (await connection.scalar(select(func.count()).select_from(oauth_connects)) or 0) + 1 - self._at_most
            if more > 0:
                oldest = select(_connects.id).order_by(_connects.created).limit(more).scalar_subquery()
                await connection.execute(delete(oauth_connects).where(_connects.id.in_(oldest)))
            await connection.execute(insert(oauth_connects).values(asdict(connect)))

    async def get(self, id: str, now: float) -> ConnectRecord | None:
        """Return one that has not expired."""
        return await self._first(_connects.id == id, _connects.expires > now)

    async def of_state(self, state_hash: str, now: float) -> ConnectRecord | None:
        """Return the one whose answer brings this state, if it has not expired."""
        return await self._first(_connects.state_hash == state_hash, _connects.expires > now)

    async def begin(self, id: str, state_hash: str | None, key_id: str, sealed: str) -> bool:
        """Write the expected values of the answer; False if it was removed meanwhile."""
        values = {"state_hash": state_hash, "key_id": key_id, "sealed": sealed}
        async with self._engine.write() as connection:
            done = await connection.execute(update(oauth_connects).where(_connects.id == id).values(values))
            return done.rowcount > 0

    async def take_state(self, id: str, state_hash: str) -> bool:
        """Use up a state; False if it already was."""
        mine = (_connects.id == id) & (_connects.state_hash == state_hash)
        async with self._engine.write() as connection:
            done = await connection.execute(update(oauth_connects).where(mine).values(state_hash=None))
            return done.rowcount > 0

    async def remove(self, id: str) -> bool:
        """Remove one; False if it already was."""
        async with self._engine.write() as connection:
            done = await connection.execute(delete(oauth_connects).where(_connects.id == id))
            return done.rowcount > 0

    async def _first(self, *where: ColumnElement[bool]) -> ConnectRecord | None:
        wanted = select(oauth_connects)
        for one in where:
            wanted = wanted.where(one)
        async with self._engine.read() as connection:
            row = (await connection.execute(wanted.limit(1))).mappings().first()
        return ConnectRecord(**row) if row is not None else None


class ClientRows:
    """The client ids in one database. Every method raises StorageError if the database fails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, id: str) -> ClientRecord | None:
        """Return a client id, or None."""
        async with self._engine.read() as connection:
            row = (await connection.execute(select(oauth_clients).where(_clients.id == id))).mappings().first()
        return ClientRecord(**row) if row is not None else None

    async def put(self, client: ClientRecord) -> None:
        """Store a client id, in place of one that is there."""
        async with self._engine.write() as connection:
            await connection.execute(delete(oauth_clients).where(_clients.id == client.id))
            await connection.execute(insert(oauth_clients).values(asdict(client)))

    async def remove(self, id: str) -> None:
        """Forget a client id."""
        async with self._engine.write() as connection:
            await connection.execute(delete(oauth_clients).where(_clients.id == id))


class Vault:
    """The vault: one attribute for each of its tables."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.grants = GrantRows(engine)
        self.clients = ClientRows(engine)
        self.connects = ConnectRows(engine)

    def __repr__(self) -> str:
        return "<Vault>"

    async def version(self) -> Version:
        """Return a value that differs as soon as any process has connected an account or ended a grant.

        Raises:
            StorageError: the database cannot be read.
        """
        return await self._engine.version(GRANTS_SUBJECT)

    async def changes_after(self, number: int) -> list[Mapping[str, Any]]:
        """Return what processes have told since the change of that number, oldest first.

        Raises:
            StorageError: the database cannot be read.
        """
        table = changes.c
        wanted = select(table.body).where(table.subject == GRANTS_SUBJECT, table.seq > number)
        async with self._engine.read() as connection:
            bodies = (await connection.execute(wanted.order_by(table.seq).limit(_PAGE))).scalars().all()
        found = [json.loads(body) for body in bodies if body is not None]
        return [body for body in found if isinstance(body, dict)]
