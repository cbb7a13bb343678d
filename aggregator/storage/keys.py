"""The table of API keys. A change is noticed by every process that watches."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import RowMapping, insert, select, update
from sqlalchemy.exc import IntegrityError

from aggregator.storage.engine.engine import Engine, Version
from aggregator.storage.errors import NoSuchRow
from aggregator.storage.records import KEYS_SUBJECT, KeyRecord
from aggregator.storage.tables import api_keys

SUBJECT: Final = KEYS_SUBJECT


class ApiKeys:
    """Keys without their secrets."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def version(self) -> Version:
        """Return a value that changes after any process made, revoked or changed a key."""
        return await self._engine.version(SUBJECT)

    async def all(self) -> list[KeyRecord]:
        """Return every key, the revoked and expired ones included, oldest first."""
        async with self._engine.read() as connection:
            rows = await connection.execute(select(api_keys).order_by(api_keys.c.created, api_keys.c.key_id))
            return [_record(row) for row in rows.mappings()]

    async def add(self, record: KeyRecord) -> None:
        """Store a new key.

        Raises:
            NoSuchRow: another row has its id.
            StorageError: the database failed.
        """
        values = {name: getattr(record, name) for name in api_keys.c.keys()}  # noqa: SIM118 - not a dictionary
        try:
            async with self._engine.write(SUBJECT) as connection:
                await connection.execute(insert(api_keys).values(values))
        except IntegrityError as error:
            raise NoSuchRow(f"There already is a key {record.key_id}; make another.") from error

    async def revoke(self, key_id: str, now: float) -> KeyRecord:
        """Revoke a key for good; a revoked key stays unchanged.

        Raises:
            NoSuchRow: there is no such key.
        """
        return await self._change(key_id, {"revoked": now}, api_keys.c.revoked.is_(None))

    async def expire(self, key_id: str, when: float | None) -> KeyRecord:
        """Let a key end at `when`, or never.

        Raises:
            NoSuchRow: there is no such key.
        """
        return await self._change(key_id, {"expires": when})

    async def touch(self, used: Mapping[str, float]) -> None:
        """Record the times of use of keys. No right changes, so no process is notified."""
        async with self._engine.write() as connection:
            for key_id, at in used.items():
                earlier = api_keys.c.last_used.is_(None) | (api_keys.c.last_used < at)
                mine = api_keys.c.key_id == key_id
                await connection.execute(update(api_keys).where(mine, earlier).values(last_used=at))

    async def _change(self, key_id: str, values: Mapping[str, Any], *conditions: Any) -> KeyRecord:
        mine = api_keys.c.key_id == key_id
        async with self._engine.write(SUBJECT) as connection:
            await connection.execute(update(api_keys).where(mine, *conditions).values(values))
            row = (await connection.execute(select(api_keys).where(mine))).mappings().first()
        if row is None:
            raise NoSuchRow(
                f"There is no key {key_id!r:.60} in the database. One that a policy file holds is ended there."
            )
        return _record(row)


def _record(row: RowMapping) -> KeyRecord:
    return KeyRecord(**row)
