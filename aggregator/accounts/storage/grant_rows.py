"""The table of grants.

Law: new tokens replace only the tokens they were requested with: a version is stored once, also if a grant was ended
and the same account connected anew, perhaps by another user.
"""

import json
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from aggregator.accounts.storage.records import GRANTS_SUBJECT, GrantRecord
from aggregator.storage.engine import postgres
from aggregator.storage.engine.async_engine import AsyncConnection
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageBusy
from aggregator.storage.tables import oauth_grants

# Bits of the version that a new row begins with: no late answer for a row that was removed counts for it.
_FIRST_VERSION_BITS: Final = 48

_table = oauth_grants.c


class GrantRows:
    """The grants in one database. Every method raises StorageError if the database fails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, id: str) -> GrantRecord | None:
        """Return a grant, or None."""
        found = await self._read(_table.id == id)
        return found[0] if found else None

    async def of_account(self, account: str) -> tuple[GrantRecord, ...]:
        """Return the grants of one owner for one server, the newest first."""
        return await self._read(_table.account == account)

    async def of_server(self, server: str) -> tuple[GrantRecord, ...]:
        """Return the grants for one server, the newest first."""
        return await self._read(_table.server == server)

    async def all(self) -> tuple[GrantRecord, ...]:
        """Return every grant, the newest first."""
        return await self._read(None)

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return the versions of the existing ones of these grants."""
        if not ids:
            return {}
        async with self._engine.read() as connection:
            rows = await connection.execute(select(_table.id, _table.version).where(_table.id.in_(ids)))
            return {row.id: row.version for row in rows}

    async def put(self, grant: GrantRecord, by: str) -> int:
        """Store a user's grant, in place of the owner's earlier one for this server; return its version.

        by: names the process in the notification.
        """
        body = _news(grant, by, connected=True)
        values = _values(grant)
        try:
            async with self._engine.write(GRANTS_SUBJECT, body=body) as connection:
                other = and_(_table.account == grant.account, _table.id != grant.id)
                await connection.execute(delete(oauth_grants).where(other))
                before = await connection.scalar(select(_table.version).where(_table.id == grant.id))
                version = before + 1 if before is not None else 1 + secrets.randbits(_FIRST_VERSION_BITS)
                values["version"] = version
                if before is None:
                    await connection.execute(insert(oauth_grants).values(values))
                else:
                    values |= {"claimed_by": None, "claimed_until": None}
                    del values["created"]
                    await connection.execute(update(oauth_grants).where(_table.id == grant.id).values(values))
        except IntegrityError as error:
            raise StorageBusy("The same account was connected twice at this moment.") from error
        return int(version)

    async def claim(self, id: str, version: int, claimant: str, seconds: float) -> bool:
        """Claim a grant for some seconds; False if another process has, or if the version differs."""
        async with self._engine.write() as connection:
            now = await self._now(connection)
            free = or_(_table.claimed_until.is_(None), _table.claimed_until <= now)
            mine = and_(_same(id, version), free)
            values = {"claimed_by": claimant, "claimed_until": now + seconds}
            return (await connection.execute(update(oauth_grants).where(mine).values(values))).rowcount > 0

    async def release(self, id: str, claimant: str) -> None:
        """Give a claim back."""
        mine = and_(_table.id == id, _table.claimed_by == claimant)
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
            wanted = select(oauth_grants).where(_table.account == account)
            found = tuple(_record(row) for row in (await connection.execute(wanted)).mappings())
            await connection.execute(delete(oauth_grants).where(_table.account == account))
        return found

    async def _read(self, where: ColumnElement[bool] | None) -> tuple[GrantRecord, ...]:
        wanted = select(oauth_grants).order_by(_table.updated.desc(), _table.id)
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
    return and_(_table.id == id, _table.version == version)


def _values(grant: GrantRecord) -> dict[str, Any]:
    scopes = None if grant.scopes is None else json.dumps(grant.scopes)
    return {**asdict(grant), "scopes": scopes, "renewable": int(grant.renewable)}


def _record(row: RowMapping) -> GrantRecord:
    values = {name: row[name] for name in GrantRecord.__dataclass_fields__}
    scopes = None if row["scopes"] is None else tuple(json.loads(row["scopes"]))
    return GrantRecord(**{**values, "scopes": scopes, "renewable": bool(row["renewable"])})
