"""The stamp of a database, which is the revision of its tables, and the stamps that this version cannot use."""

from pathlib import Path
from typing import Final

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table

from aggregator.domain.shell import move_file
from aggregator.storage.errors import StorageTooNew, StorageTooOld
from aggregator.storage.tables import FIRST_REVISION, REVISION

# Alembic's own table.
STAMP: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_ANOTHER: Final = "name another database with `storage`"


def refuse_unusable(stamp: str, path: Path | None, database: str = "") -> None:
    """Refuse the stamp of a file, or of the `database` on a server. Revisions are numbers of four digits.

    Raises:
        StorageTooNew, StorageTooOld: this version cannot use the database.
    """
    refuse_newer(stamp, _named(path, database), f"Use that version, or {_ANOTHER}.")
    refuse_old_database(stamp, path, database)


def refuse_old_database(stamp: str, path: Path | None, database: str = "") -> None:
    """Refuse the stamp of a file, or of the `database` on a server, from before the first release.

    Raises:
        StorageTooOld: it is one.
    """
    way = f"Run `{move_file(path, f'{path}.old')}`, or" if path is not None else "Make an empty one, and"
    fix = f"{way} {_ANOTHER}: the next start makes the tables. Keys and approvals have to be made again."
    refuse_older(stamp, _named(path, database), fix)


def refuse_newer(stamp: str, named: str, fix: str = "Use that version.") -> None:
    """Refuse the stamp of a newer version; `named` begins the message.

    Raises:
        StorageTooNew: a newer version made the tables.
    """
    if stamp > REVISION:
        raise StorageTooNew(f"{named} was made by a newer version of aggregator (schema {stamp}). {fix}")


def refuse_older(stamp: str, named: str, fix: str) -> None:
    """Refuse the stamp of a version from before the first release; `named` begins the message, `fix` ends it.

    Raises:
        StorageTooOld: such a version made the tables.
    """
    if stamp < FIRST_REVISION:
        raise StorageTooOld(
            f"{named} was made by a version of aggregator before the first release (schema {stamp}), "
            f"which cannot be upgraded. {fix}"
        )


def _named(path: Path | None, database: str) -> str:
    return f"The database {path or database}"
