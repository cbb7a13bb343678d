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

from aggregator.domain.text.error_text import error_text
from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageError

FOLDER: Final = Path(__file__).parents[1] / "migrations"

# Alembic logs every step.
logging.getLogger("alembic").setLevel(logging.WARNING)


def upgrade(url: str, path: Path | None, revision: str) -> None:
    """Run the steps that are missing up to `revision`, all or none. It takes a while: call it off the event loop.

    Raises:
        StorageError: the database cannot do it; nothing has changed.
    """
    asyncio.run(_upgrade(url, path, revision))


def upgrade_within(connection: Connection, revision: str) -> None:
    """Run the steps up to `revision` in the transaction that this connection is in."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def is_known(revision: str) -> bool:
    """Return whether there is a step to this revision."""
    try:
        return ScriptDirectory.from_config(_config()).get_revision(revision) is not None
    except CommandError:
        return False


def _config() -> Config:
    config = Config(attributes={})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


async def _upgrade(url: str, path: Path | None, revision: str) -> None:
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
    except CommandError as error:
        # No step leads from the stamp, which no version of the program wrote.
        raise StorageError(f"The database cannot be brought up to date: {error_text(error)}") from error
    finally:
        await engine.close()
