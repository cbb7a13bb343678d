"""Migrations of the schema. Alembic is heavy: this is loaded only when a file's stamp is not the newest."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageTooNew

FOLDER: Final = Path(__file__).parents[1] / "migrations"

# Alembic logs every step.
logging.getLogger("alembic").setLevel(logging.WARNING)


def upgrade(url: str, path: Path | None, stamp: str | None, revision: str) -> None:
    """Run the steps from `stamp` to `revision`, all or none of them. It takes a while: call it off the event loop.

    Raises:
        StorageTooNew: the stamp is not one we know.
        StorageError: the database cannot do it; nothing has changed.
    """
    asyncio.run(_upgrade(url, path, stamp, revision))


def upgrade_within(connection: Connection, revision: str) -> None:
    """Run the steps up to `revision` in the transaction that this connection is in."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def is_known(revision: str) -> bool:
    """Return whether there is a step to this revision."""
    return _known(_config(), revision)


def _config() -> Config:
    config = Config(attributes={})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


async def _upgrade(url: str, path: Path | None, stamp: str | None, revision: str) -> None:
    config = _config()
    if stamp is not None and not _known(config, stamp):
        raise StorageTooNew(
            f"The database {path or ''} was made by a newer version of aggregator (schema {stamp}). "
            "Use that version, or name another file with `storage`."
        )

    def run(connection: Connection) -> None:
        upgrade_within(connection, revision)

    # A step may rebuild a large table: it takes the time that it takes.
    engine = Engine(url, path, bounded=False)
    try:
        async with engine.write() as connection:
            if path is None:
                # One process at a time; later ones find nothing to do.
                await connection.execute(postgres.wait_for_locks(postgres.MIGRATING))
                await connection.execute(postgres.lock(postgres.SCHEMA))
            await connection.run_sync(run)
    finally:
        await engine.close()


def _known(config: Config, stamp: str) -> bool:
    try:
        return ScriptDirectory.from_config(config).get_revision(stamp) is not None
    except CommandError:
        return False
