"""Tables of PostgreSQL as a whole: locked, moved into another schema, and who serves from them."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import Connection, func, inspect, select, text

from aggregator.storage.engine import postgres
from aggregator.storage.tables import metadata, replicas

# Sequences that belong to no column, with the tables whose column `seq` is numbered by them.
_SEQUENCES: Final = {"audit_numbers": ("mcp_tool_call_log", "audit_events")}


def lock_tables(connection: Connection, names: Sequence[str]) -> None:
    """Let no other transaction read or write these tables until this one ends."""
    if names:
        connection.execute(text(f"LOCK TABLE {', '.join(map(_quoted, names))} IN ACCESS EXCLUSIVE MODE"))


def count_serving(connection: Connection, there: Collection[str], seen_for: float) -> int:
    """Return the number of replicas seen in the last seconds, if the table of replicas is `there`."""
    if replicas.name not in there:
        return 0
    recent = replicas.c.seen > postgres.now() - seen_for
    return connection.scalar(select(func.count()).select_from(replicas).where(recent)) or 0


def move_aside(connection: Connection, names: Sequence[str], schema: str) -> None:
    """Move tables, with all that belongs to them, into a new schema of the database."""
    connection.execute(text(f"CREATE SCHEMA {_quoted(schema)}"))
    for name in names:
        connection.execute(text(f"ALTER TABLE {_quoted(name)} SET SCHEMA {_quoted(schema)}"))
    for sequence in _SEQUENCES.keys() & set(inspect(connection).get_sequence_names()):
        connection.execute(text(f"ALTER SEQUENCE {_quoted(sequence)} SET SCHEMA {_quoted(schema)}"))


def count_on(connection: Connection, there: Collection[str]) -> None:
    """Advance the sequences past the numbers of existing rows."""
    sequences = inspect(connection).get_sequence_names()
    for sequence, tables in _SEQUENCES.items():
        if sequence in sequences:
            numbers = [select(func.max(metadata.tables[name].c.seq)) for name in tables if name in there]
            newest = max((connection.scalar(number) or 0 for number in numbers), default=0)
            connection.execute(select(func.setval(sequence, max(newest, 1), newest > 0)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
