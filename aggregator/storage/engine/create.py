"""The tables of a new database, made at once: no file of ours exists that the migrations would have to change.

Alembic is slow to import and takes 12 MiB; so only a database of an older version pays for it.
"""

from typing import Final

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect

from aggregator.storage.tables import REVISION, audit_heads, metadata

# Alembic's own table.
STAMP: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_NO_DIGEST: Final = "0" * 64


def create_tables(connection: Connection) -> bool:
    """Create the tables of the newest migration; return False, without a change, if a table exists."""
    if not metadata.tables.keys().isdisjoint(inspect(connection).get_table_names()):
        return False
    metadata.create_all(connection, checkfirst=False)
    head = {"seq": 0, "digest": _NO_DIGEST, "trimmed_seq": 0, "trimmed_digest": _NO_DIGEST, "bytes": 0}
    connection.execute(insert(audit_heads).values(chain=0, **head))
    STAMP.create(connection, checkfirst=True)
    connection.execute(insert(STAMP).values(version_num=REVISION))
    return True
