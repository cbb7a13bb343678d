"""Insertion of audit rows, many in one statement: as lists of values on SQLite, so that threads change rarely; as one
array for each column on PostgreSQL, where each row costs the event loop.

Rule: a row of chain 0 does not name its chain, which saves its cost.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Table

from aggregator.storage.audit.chain import CALL, ChainEntry, ChainKey, Head, link
from aggregator.storage.tables import audit_events, mcp_tool_call_log

# What rows have besides their own columns.
PLACE: Final = ("seq", "bytes", "previous", "digest")
CHAIN: Final = "chain"
# Every SQLite takes so many values in one statement.
_VALUES: Final = 999
# To place so many rows takes a tenth of a millisecond.
_FEW: Final = 32
# Rows in the arrays of one statement: to make them keeps the event loop busy for a millisecond.
_IN_ARRAYS: Final = 250
_ARRAYS: Final[Mapping[type, str]] = {str: "text[]", float: "double precision[]", int: "bigint[]"}
# Rows have few sets of columns.
_STATEMENTS: Final = 200
# The rows of each set of columns, one after another: their values in the order of the columns.
RowsByColumns = Mapping[tuple[str, ...], list[Any]]


def placed(
    head: Head,
    entries: Sequence[ChainEntry],
    numbers: Sequence[int],
    key: ChainKey | None,
    chain: int = 0,
    pause: Callable[[], None] = lambda: None,
) -> tuple[RowsByColumns, Head]:
    """Return the rows in their places behind `head`, with these numbers, and the head after them. `pause` is called
    after every few.

    Each has only the columns that are not empty: to bind a None takes `sqlite3` as long as to bind several texts.
    """
    rows: dict[tuple[str, ...], list[Any]] = {}
    seq, previous = head
    # Most rows have the same columns as the row before them.
    names: tuple[str, ...] = ()
    flat: list[Any] = []
    place = PLACE if not chain else (*PLACE, CHAIN)
    for at, (seq, (kind, values, content, size)) in enumerate(zip(numbers, entries, strict=True)):
        if at % _FEW == _FEW - 1:
            pause()
        digest = link(previous, seq, content, key)
        own = tuple(values) if kind == CALL else (*values, "kind")
        if own != names:
            names = own
            flat = rows.setdefault((*own, *place), [])
        flat += values.values()
        if kind != CALL:
            flat.append(kind)
        flat += (seq, size, previous, digest)
        if chain:
            flat.append(chain)
        previous = digest
    return rows, Head(seq, previous)


def insert_rows(connection: Connection, rows: RowsByColumns) -> None:
    """Insert rows that have their places."""
    insert = _insert_lists if connection.dialect.name == "sqlite" else _insert_arrays
    for names, flat in rows.items():
        insert(connection, audit_events if "kind" in names else mcp_tool_call_log, names, flat)


def _insert_lists(connection: Connection, table: Table, names: tuple[str, ...], flat: list[Any]) -> None:
    one, many, step = _statements(table, names)
    together, width = len(flat) // step * step, len(names)
    if together:
        connection.exec_driver_sql(many, [tuple(flat[at : at + step]) for at in range(0, together, step)])
    if together < len(flat):
        single = [tuple(flat[at : at + width]) for at in range(together, len(flat), width)]
        connection.exec_driver_sql(one, single)


def _insert_arrays(connection: Connection, table: Table, names: tuple[str, ...], flat: list[Any]) -> None:
    statement, width = _statement_of_arrays(table, names), len(names)
    step = _IN_ARRAYS * width
    for first in range(0, len(flat), step):
        part = flat[first : first + step]
        connection.exec_driver_sql(statement, tuple(part[at::width] for at in range(width)))


@lru_cache(_STATEMENTS)
def _statements(table: Table, names: tuple[str, ...]) -> tuple[str, str, int]:
    """Return the statements that insert one row and many rows, and how many values the second takes."""
    columns = ", ".join(table.c[name].name for name in names)
    marks = f"({', '.join('?' * len(names))})"
    one = f"INSERT INTO {table.name} ({columns}) VALUES {marks}"  # noqa: S608 - the names are those of our tables
    count = max(1, _VALUES // len(names))
    return one, one + f", {marks}" * (count - 1), count * len(names)


@lru_cache(_STATEMENTS)
def _statement_of_arrays(table: Table, names: tuple[str, ...]) -> str:
    """Return the statement that inserts rows of an array for each column. No cast may cut a text off."""
    columns = ", ".join(table.c[name].name for name in names)
    arrays = ", ".join(f"${at}::{_ARRAYS[table.c[name].type.python_type]}" for at, name in enumerate(names, 1))
    return f"INSERT INTO {table.name} ({columns}) SELECT * FROM unnest({arrays})"  # noqa: S608 - our own names
