"""The tables in a backup, and the omitted ones with the reasons."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, MetaData, Table, inspect, select

from aggregator.storage.engine.stamp import STAMP
from aggregator.storage.errors import StorageError
from aggregator.storage.tables import metadata

# Tables whose rows are valid only briefly or for the life of a process, or can be recomputed.
LEFT_OUT: Final = {
    "changes": "processes tell each other what changed",
    "replicas": "the processes that run",
    "leases": "which of the processes does what only one may do",
    "kept_results": "results that models read on for an hour or so",
    "kept_result_parts": "the parts of those",
    "tool_vectors": "worked out again from the definitions of tools",
}
# The audit log and its records; a backup may omit them.
AUDIT: Final = frozenset({"mcp_tool_call_log", "audit_events", "audit_under_way", "audit_heads"})
# What is there in a database that holds nothing yet.
_FIRST_ROWS: Final = frozenset({"audit_heads", *LEFT_OUT})


def kept_tables(connection: Connection, *, audit: bool = True) -> list[Table]:
    """Return the tables of a backup as this database has them, each behind those that its rows refer to."""
    there = set(inspect(connection).get_table_names())
    wanted = [table.name for table in metadata.sorted_tables if table.name in there and table.name not in LEFT_OUT]
    found = MetaData()
    found.reflect(connection, only=wanted)
    return [found.tables[name] for name in wanted if audit or name not in AUDIT]


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the tables; None for a database in which there are none of ours.

    Raises:
        StorageError: they have no revision, or more than one.
    """
    there = inspect(connection).get_table_names()
    if STAMP.name not in there:
        if metadata.tables.keys().isdisjoint(there):
            return None
        raise StorageError("The database has tables of aggregator, but no schema version: something else changed it.")
    stamps = connection.execute(select(STAMP.c.version_num)).scalars().all()
    if len(stamps) > 1:
        raise StorageError("The database carries more than one schema version; it was changed by something else.")
    return stamps[0] if stamps else None


def tables_with_rows(connection: Connection, leave_out: Collection[str] = _FIRST_ROWS) -> list[str]:
    """Return the names of our tables that have a row, in the order of their names."""
    there = set(inspect(connection).get_table_names())
    ours = (table for name, table in sorted(metadata.tables.items()) if name in there and name not in leave_out)
    return [table.name for table in ours if connection.execute(select(1).select_from(table).limit(1)).first()]
