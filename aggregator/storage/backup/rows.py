"""Rows of tables as lines of JSON and back: one object a row, without its empty columns.

Rule: a row fits the schema, or it is refused with its table and its key; values are never converted.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Float, Integer, String, Table

from aggregator.storage.backup.errors import ArchiveBroken, BackupError

_LARGEST: Final = 2**63
_KEY_AT_MOST: Final = 60
Row = dict[str, str | int | float | None]


class RowFormat:
    """The form of the rows of one table. `names` are its columns, in their order."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.names: Final = tuple(column.name for column in table.columns)
        self._empty: Row = dict.fromkeys(self.names)
        self._key: Final = tuple(column.name for column in table.primary_key.columns)
        self._kinds: Final = {column.name: _kind(column.type) for column in table.columns}
        self._needed: Final = frozenset(column.name for column in table.columns if not column.nullable)
        self._encoder: Final = msgspec.json.Encoder()
        self._decoder: Final = msgspec.json.Decoder(Row)

    def __repr__(self) -> str:
        return f"<RowFormat of {self.table.name}>"

    def line(self, values: Sequence[Any]) -> bytes:
        """Return a row of the database as a line.

        Raises:
            BackupError: it holds what no row of ours does.
        """
        row = {name: value for name, value in zip(self.names, values, strict=True) if value is not None}
        try:
            fault = self._fault(row)
            if fault is None:
                return self._encoder.encode(row)
        except UnicodeEncodeError:
            fault = "a text that is not UTF-8"
        raise BackupError(
            f"The row {self._named(row)} of the table {self.table.name} holds {fault}, which no version of aggregator "
            "writes: another program changed the database. Repair the row, or copy the database with its own tools."
        )

    def rows(self, lines: Iterable[bytes], *, nul: bool) -> Iterator[Row]:
        """Yield the rows of an archive's lines, with every column. `nul` says whether texts may hold NUL.

        Raises:
            ArchiveBroken: a line is no row of this table.
        """
        name = self.table.name
        for number, line in enumerate(lines, 1):
            try:
                row = self._decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise ArchiveBroken(
                    f"Line {number} of a part of {name} in the backup is no row. Use another one."
                ) from None
            if not row.keys() <= self._empty.keys():
                raise ArchiveBroken(f"A row of {name} in the backup has a column that the table has not.")
            row = {column: value for column, value in row.items() if value is not None}
            fault = self._fault(row)
            if fault is None and not nul and (name_of := _with_nul(row)) is not None:
                raise BackupError(
                    f"The row {self._named(row)} of {name} has a text with NUL as `{name_of}`, which PostgreSQL cannot "
                    "hold. Remove the NUL in the database that it comes from, or stay with SQLite."
                )
            if fault is not None:
                raise ArchiveBroken(
                    f"The row {self._named(row)} of {name} in the backup holds {fault}. Use another one."
                )
            yield {**self._empty, **row}

    def _fault(self, row: Mapping[str, Any]) -> str | None:
        """Return the fault in the values of a row, if there is one."""
        kinds = self._kinds
        for name, value in row.items():
            kind, found = kinds[name], type(value)
            if found is not kind:
                if kind is float and found is int and abs(value) < _LARGEST:
                    continue
                return f"{_named_type(value)} as `{name}`"
            if found is float and not math.isfinite(value):
                return f"no finite number as `{name}`"
            if found is int and not -_LARGEST <= value < _LARGEST:
                return f"a number beyond 64 bits as `{name}`"
        if missing := self._needed - row.keys():
            return f"nothing as `{min(missing)}`"
        return None

    def _named(self, row: Mapping[str, Any]) -> str:
        """Return how a row is found: its key, in quotes and of a bounded length."""
        key = {name: row[name] for name in self._key if name in row}
        return repr(key)[:_KEY_AT_MOST]


def _with_nul(row: Mapping[str, Any]) -> str | None:
    """Return the first column whose text has NUL in it."""
    return next((name for name, value in row.items() if type(value) is str and "\0" in value), None)


def _kind(type_: object) -> type:
    if isinstance(type_, String):
        return str
    if isinstance(type_, Integer):
        return int
    if isinstance(type_, Float):
        return float
    raise BackupError(f"A table has a column of the type {type(type_).__name__}, which no backup has.")


def _named_type(value: object) -> str:
    return {str: "a text", int: "a whole number", float: "a fraction", bytes: "bytes"}.get(
        type(value), "something else"
    )
