"""The tables of a new database, made at once, as the migrations would make them.

Alembic is slow to import and takes 12 MiB; so only a database of an older version pays for it.
"""

from typing import Final

from sqlalchemy import Connection, insert, inspect

from aggregator.storage.engine.stamp import STAMP
from aggregator.storage.tables import REVISION, audit_heads, metadata

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
