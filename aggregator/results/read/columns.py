"""The columns of a large text that is a table: its rows, and of columns that take few values each value with its count.

Law: one pass over the text; a text is a table only if its first lines have as many fields each.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

_LINES: Final = 20
# Characters of a header with spaces between its names.
_HEADER: Final = 400
_ROWS: Final = 100_000
# Values of a column that are counted, characters of one, and columns that are named.
_FEW: Final = 6
_LONG: Final = 40
_COLUMNS: Final = 40
_DELIMITERS: Final = ("\t", ";", "|", "│", ",")
_BARS: Final = ("|", "│")
RULE: Final = re.compile(r"[\s|:+\-\u2500-\u257f]*")
# As `kubectl` and `docker` print tables: names in capitals, with spaces between.
ALIGNED: Final = re.compile(r"[A-Z][A-Z0-9 _()%/.-]* {2,}[A-Z][A-Z0-9 _()%/.-]*")
GAP: Final = re.compile(r"\s{2,}|\t")


def columns(text: str) -> Iterator[str] | None:
    """Return lines about the columns of a table; None if the text is none."""
    if RULE.fullmatch(text[: max(0, text.find("\n"))]):
        # The upper edge.
        text = text[text.find("\n") + 1 :]
    lines = text[: _LINES * 1_000].split("\n")[:_LINES]
    if len(lines[0]) <= _HEADER and ALIGNED.fullmatch(lines[0].strip()):
        return _columns(GAP.split(line.strip()) for line in text.splitlines())
    for delimiter in _DELIMITERS:
        counts = {line.count(delimiter) for line in lines[1:] if line.strip() and not RULE.fullmatch(line)}
        names = lines[0].split(delimiter)
        # The first line has names, and they are no numbers.
        if len(lines) < _LINES or len(names) < 2 or any(name.strip()[:1].isdigit() for name in names):
            continue
        if _are_alike(lines, delimiter, counts):
            lines_of_rows = (line for line in text.splitlines() if line.strip() and not RULE.fullmatch(line))
            if delimiter in _BARS:
                # Quotes mean nothing in such a table.
                return _columns(line.split(delimiter) for line in lines_of_rows)
            return _columns(csv.reader(lines_of_rows, delimiter=delimiter))
    return None


def _are_alike(lines: Sequence[str], delimiter: str, counts: set[int]) -> bool:
    """Return True if lines have as many fields as the first: those in quotes may hold more delimiters."""
    names = lines[0].count(delimiter)
    if counts == {names}:
        return True
    rows = list(csv.reader([line for line in lines if line.strip()], delimiter=delimiter))
    return '"' in "".join(lines) and {len(row) for row in rows[:-1]} == {names + 1}


def _columns(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    try:
        names = [name.strip() for name in next(rows)]
        values: list[Counter[str] | None] = [Counter() for _ in names[:_COLUMNS]]
        count = 0
        for row in islice(rows, _ROWS):
            if len(row) != len(names):
                continue
            count += 1
            for column, value in enumerate(row[:_COLUMNS]):
                if (counted := values[column]) is not None:
                    counted[value.strip()[:_LONG]] += 1
                    if len(counted) > _FEW:
                        values[column] = None
    except (csv.Error, StopIteration):
        return
    yield f"{count:,} rows: {', '.join(name for name in names if name)}"
    for name, counted in zip(names, values, strict=False):
        if counted and name and 1 < len(counted) < count:
            said = (f"{times:,} {value or 'empty'}" for value, times in counted.most_common())
            yield f"{name}: {', '.join(said)}"
