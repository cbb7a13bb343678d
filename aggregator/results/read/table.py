"""Tables in results: chosen columns of the rows that meet conditions, as CSV.

A table is an array of objects, an array of arrays under a row of names, an object of columns of one length, rows beside
their names (`{"columns": [...], "rows": [...]}`), CSV, a table of text with bars or aligned columns, or the only table
within an object. Law: every pass is linear and bounded; a condition of a model is data, and never code.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from aggregator.domain.names import loosened
from aggregator.results.read.columns import ALIGNED, GAP, RULE
from aggregator.results.read.conditions import RowFilter, holds
from aggregator.results.read.path import BadRead
from aggregator.results.read.values import NoValue, opened
from aggregator.wire.codec import Raw, encode

ROWS_AT_MOST: Final = 200_000
_COLUMNS_AT_MOST: Final = 100
# Rows from which the names of columns are taken: later ones may lack some.
_LOOKED_AT: Final = 1_000
_NAMED: Final = 40
_NAME: Final = 60
_DELIMITERS: Final = (",", "\t", ";", "|")
_NAMES_OF_COLUMNS: Final = ("columns", "fields", "headers", "header", "schema")
_NAMES_OF_ROWS: Final = ("rows", "data", "values", "records", "items")
_INSIDE: Final = re.compile(r"[.\[]")
# Between the cells of a table of text; Markdown writes a bar in a cell with a backslash.
_BAR: Final = re.compile(r"(?<!\\)[|│]")
_NAME_ABOVE: Final = re.compile(r"\S+(?: \S+)*")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the names of its columns, and its rows, each a mapping of names to values."""

    names: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Chosen rows as CSV, the number of them, and of all rows."""

    text: str
    count: int
    every: int


def table_of(value: Any) -> Table:
    """Return the table that a value is; `value` may be JSON text (`msgspec.Raw`), or CSV as a text.

    Raises:
        BadRead: it is no table, or has too many rows.
    """
    try:
        found = _table(opened(value), deeper=True)
    except NoValue as problem:
        raise BadRead(f"`columns` and `where` cannot be read here: {problem}.") from None
    if found is None:
        raise BadRead(
            "There is no table to choose from: `columns` and `where` take an array of objects, CSV, or a table of "
            "text. Give the `path` to it, or read by offset, or with grep."
        )
    if len(found.rows) > ROWS_AT_MOST:
        raise BadRead(f"The table has more than {ROWS_AT_MOST:,} rows. Take fewer, with a path as `rows[0:1000]`.")
    return found


def chosen(table: Table, columns: Sequence[str], where: RowFilter | None) -> ChosenRows:
    """Return the columns, all without any, of the rows that meet the condition.

    Raises:
        BadRead: there is no such column; the message has the names.
    """
    known = {name: name for name in table.names}
    loose = {loosened(name): name for name in reversed(table.names)}

    def column(written: str) -> str:
        found = known.get(written) or loose.get(loosened(written))
        if found is None and _INSIDE.search(written) and (outer := _INSIDE.split(written, maxsplit=1)[0]):
            # A path into the values of a column.
            inner = known.get(outer) or loose.get(loosened(outer))
            found = inner + written[len(outer) :] if inner is not None else None
        if found is None:
            raise BadRead(f"There is no column `{written[:_NAME]}`. The columns are {_listed(table.names)}.")
        return found

    if len(columns) > _COLUMNS_AT_MOST:
        raise BadRead(f"`columns` has at most {_COLUMNS_AT_MOST} names.")
    names = [column(name) for name in columns] or list(table.names)
    if where is not None:
        where = where.renamed(column)
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(names)
    count = 0
    for row in table.rows:
        if where is None or holds(where, partial(_value, row)):
            writer.writerow([_cell(_value(row, name)) for name in names])
            count += 1
    return ChosenRows(written.getvalue().rstrip("\n"), count, len(table.rows))


def _table(value: Any, *, deeper: bool) -> Table | None:
    if isinstance(value, str):
        if value.lstrip()[:1] in ("{", "["):
            try:
                return _table(opened(Raw(value.encode("utf-8", "surrogatepass"))), deeper=deeper)
            except NoValue:
                return None
        return _of_bars(value) or _of_aligned(value) or _of_csv(value)
    if isinstance(value, list):
        return _of_list(value)
    if not isinstance(value, dict):
        return None
    members = {name: opened(one) for name, one in value.items()}
    found = _of_columns_and_rows(members) or _of_columns(members)
    if found is not None or not deeper:
        return found
    inner = (_table(one, deeper=False) for one in members.values() if isinstance(one, list | dict | str))
    return max((one for one in inner if one is not None), key=lambda table: len(table.rows), default=None)


def _of_list(value: list[Any]) -> Table | None:
    rows = [opened(one) for one in value[: ROWS_AT_MOST + 1]]
    if rows and all(isinstance(row, dict) for row in rows):
        names = dict.fromkeys(name for row in rows[:_LOOKED_AT] for name in row)
        return Table(tuple(names), rows)
    if len(rows) > 1 and all(isinstance(row, list) for row in rows):
        names_of = [opened(one) for one in rows[0]]
        if names_of and all(isinstance(name, str) for name in names_of):
            return _under(names_of, rows[1:])
    return None


def _of_columns_and_rows(members: Mapping[str, Any]) -> Table | None:
    """Return the table of an object that has the names and the rows apart."""
    for key in _NAMES_OF_COLUMNS:
        names = members.get(key)
        if not isinstance(names, list) or not names:
            continue
        texts = [_column_name(opened(one)) for one in names]
        rows = next((members[one] for one in _NAMES_OF_ROWS if isinstance(members.get(one), list)), None)
        if rows is None or None in texts:
            continue
        opened_rows = [opened(one) for one in rows[: ROWS_AT_MOST + 1]]
        if all(isinstance(row, list) for row in opened_rows):
            return _under([text for text in texts if text is not None], opened_rows)
    return None


def _column_name(value: Any) -> str | None:
    if isinstance(value, dict):
        value = next((opened(value[key]) for key in ("name", "title", "id", "label") if key in value), None)
    return value if isinstance(value, str) else None


def _of_columns(members: Mapping[str, Any]) -> Table | None:
    """Return the table of an object whose members are columns of one length."""
    lengths = {len(one) if isinstance(one, list) else -1 for one in members.values()}
    if len(members) < 2 or len(lengths) != 1 or min(lengths) < 1:
        return None
    if any(isinstance(opened(one[0]), dict | list) for one in members.values()):
        return None
    names = tuple(members)
    cells = list(members.values())
    count = min(len(cells[0]), ROWS_AT_MOST + 1)
    return Table(names, [dict(zip(names, (column[at] for column in cells), strict=True)) for at in range(count)])


def _of_bars(text: str) -> Table | None:
    """Return the longest table of a text with bars between cells and a rule below the names, or None.

    Markdown, `psql`, `mysql` and terminals write tables so.
    """
    if "|" not in text and "│" not in text:
        return None
    names, rows, above, longest = list[str](), list[list[str]](), list[str](), Table((), ())
    for line in (*text.split("\n"), ""):
        if RULE.fullmatch(line) and line.strip(" |│\r\t"):
            names, above = names or above, []
            continue
        cells = _between_bars(line)
        if names and len(cells) == len(names):
            rows.append(cells)
            continue
        if len(rows) > len(longest.rows):
            longest = _under(names, rows)
        names, rows, above = [], [], cells if len(cells) > 1 else []
    return longest if longest.rows else None


def _between_bars(line: str) -> list[str]:
    line = line.strip()
    if not _BAR.search(line):
        return []
    line = line.removeprefix(line[0] if line[0] in "|│" else "")
    cells = _BAR.split(line[:-1] if line[-1:] in ("|", "│") and line[-2:-1] != "\\" else line)
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _of_aligned(text: str) -> Table | None:
    """Return the table of a text with names in capitals above aligned columns, as `kubectl` prints them, or None."""
    head, _, rest = text.strip("\n").partition("\n")
    if not rest or not ALIGNED.fullmatch(head.strip()):
        return None
    starts = [found.start() for found in _NAME_ABOVE.finditer(head)]
    rows = [cells for line in rest.split("\n") if (cells := _below(line, starts))]
    return _under(GAP.split(head.strip()), rows) if rows else None


def _below(line: str, starts: Sequence[int]) -> list[str]:
    """Return the cells of a line that begin below the names, or between wide gaps if one reaches over a beginning."""
    if any(line[start - 1 : start].strip() for start in starts[1:]):
        cells = GAP.split(line.strip())
        return cells if len(cells) == len(starts) else []
    return [line[start:end].strip() for start, end in zip(starts, (*starts[1:], None), strict=True)]


def _of_csv(text: str) -> Table | None:
    """Return the table of a text with a line of names and lines of as many fields."""
    lines = text.lstrip("\ufeff").strip("\n").split("\n")
    head = lines[0]
    delimiter = max(_DELIMITERS, key=head.count)
    if len(lines) < 2 or delimiter not in head:
        return None
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return None
    names = [name.strip() for name in rows[0]]
    same = sum(len(row) == len(names) for row in rows)
    return _under(names, [row for row in rows[1:] if row]) if same * 10 >= len(rows) * 9 else None


def _under(names: Iterable[str], rows: Iterable[Sequence[Any]]) -> Table:
    names = tuple(names)
    return Table(names, [dict(zip(names, row, strict=False)) for row in rows])


def _value(row: Mapping[str, Any], name: str) -> Any:
    """Return a value of a row by the name of a column, or by a path from it; None if it is not there."""
    if name in row:
        return _whole(row[name])
    parts = [part for part in re.split(r"[.\[\]]+", name) if part]
    value: Any = row
    for part in parts:
        value = opened(value) if isinstance(value, msgspec.Raw) else value
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and len(part) < 10 and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return _whole(value)


def _whole(value: Any) -> Any:
    """Return a value, decoded if it is no array and no object."""
    if isinstance(value, msgspec.Raw) and bytes(memoryview(value)[:1]) not in (b"{", b"["):
        try:
            return opened(value)
        except NoValue:
            return bytes(value).decode("utf-8", "replace")
    return value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return (bytes(value) if isinstance(value, msgspec.Raw) else encode(value)).decode("utf-8", "replace")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(f"`{name[:_NAME]}`" for name in names[:_NAMED]) + more
