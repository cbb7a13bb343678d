"""The tables of the vault in one database."""

import json
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import select

from aggregator.accounts.storage.client_rows import ClientRows
from aggregator.accounts.storage.connect_rows import ConnectRows
from aggregator.accounts.storage.grant_rows import GrantRows
from aggregator.accounts.storage.records import GRANTS_SUBJECT, Version
from aggregator.storage.engine.engine import Engine
from aggregator.storage.tables import changes

# Changes read at once; who has missed more looks again.
_PAGE: Final = 10_000


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
