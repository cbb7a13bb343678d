"""Pages of a kept result: by offset, by a path into its value, by rows and columns, or by a search expression."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.conditions import json_of, row_filter_of
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.finding import CONTEXT_LINES, FindRequest, FoundText, find
from aggregator.results.read.forms import Form, Quotes, TextSpan, spans
from aggregator.results.read.page_end import page_of
from aggregator.results.read.path import BadRead, Step, parsed, text_at
from aggregator.results.read.table import ChosenRows, chosen, table_of

__all__ = ["BadRead", "ResultPage", "read_page"]

_USUAL: Final = 2_000
_MOST: Final = 10_000
_LEAST: Final = 100
# Tokens that the joint of a page and its note may add.
_JOINT: Final = 3


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A part of a document. `next` is the start of the next page; None at the end.

    `body` is a part of the document's text, of the value at a path or, for an expression, its matches; `note` tells in
    one line how to go on.
    """

    body: str
    note: str
    next: int | None

    @property
    def text(self) -> str:
        """The body and the note, as a model is shown them."""
        return f"{self.body}\n{self.note}" if self.body else self.note


def read_page(
    document: ResultDocument,
    *,
    offset: int | None = None,
    path: str | None = None,
    grep: str | None = None,
    limit: int | None = None,
    context: int | None = None,
    case: bool | None = None,
    count: bool | None = None,
    columns: Sequence[str] | str | None = None,
    where: str | Mapping[str, Any] | Sequence[Any] | None = None,
    usual: int = _USUAL,
    most: int = _MOST,
) -> ResultPage:
    """Return a page of at most `limit` tokens, as estimated, the note included.

    `offset` counts characters of the document's text, or of the value at `path` if given, and may be negative to count
    from the end. `path` is as `items[3].name` (results/read/path.py). `grep` is a regular expression without regard to
    capitals, unless `case`; with it, the search begins at `offset`, in the value at `path` if given, and `context` is
    the number of lines around each match; with `count` the matches are only counted. With `columns` or `where` the
    text is chosen rows of a table (results/read/table.py), in the value at `path` if given, as CSV. A `limit` of None
    means `usual`; it never exceeds `most`. Takes long for a large document: call it in a thread.

    Raises:
        BadRead: there is no such path or offset, or the expression is none.
    """
    tokens = min(max(usual if limit is None else limit, _LEAST), max(most, _LEAST))
    steps = parsed(path or "")
    text, parts, quotes = document.text, document.spans, document.quotes
    if steps:
        text = _value_at(document, path or "", steps)
        parts, quotes = tuple(spans(text, 0, len(text))), Quotes(text)
    chosen_rows = ""
    if columns or where:
        rows = _rows(document, text if steps else None, columns or (), where or "")
        text, chosen_rows = rows.text, f" {rows.count:,} of {rows.every:,} rows."
        parts, quotes = (TextSpan(0, len(text), Form.CSV),), Quotes(text)
    at = _start(text, offset or 0)
    given = [name for name, value in (("path", path), ("columns", columns), ("where", where)) if value]
    same = f" and the same {', '.join(given)}" if given else ""
    if grep is not None:
        path_of = _no_path if chosen_rows else partial(_path_below, path) if steps else document.path_of
        wanted = FindRequest(grep, CONTEXT_LINES if context is None else context, bool(case), bool(count))
        return _found(find(text, parts, quotes, path_of, wanted, at, tokens), at, len(text), same)
    budget = tokens - estimate(_note(len(text), len(text), len(text) + 1, same, chosen_rows)) - _JOINT
    end = page_of(text, parts, quotes, at, budget)
    return ResultPage(text[at:end], _note(at, end, len(text), same, chosen_rows), end if end < len(text) else None)


def _rows(
    document: ResultDocument,
    at_path: str | None,
    columns: Sequence[str] | str,
    where: str | Mapping[str, Any] | Sequence[Any],
) -> ChosenRows:
    """Return the chosen rows of a document, or of the text at a path."""
    condition = row_filter_of(where)
    if isinstance(columns, str):
        columns = found if isinstance(found := json_of(columns), list) else columns.split(",")
    names = [stripped for name in columns if (stripped := str(name).strip()) and stripped != "*"]
    value = at_path
    if value is None:
        value = document.text if document.data is msgspec.UNSET else document.data
    return chosen(table_of(value), names, condition)


def _no_path(span: TextSpan) -> None:
    """Return no path: chosen rows are no part of the value."""


def _value_at(document: ResultDocument, path: str, steps: Sequence[Step]) -> str:
    if document.data is msgspec.UNSET:
        raise BadRead(f"This result is no JSON, and has no path `{path}`. Read it by offset, or with grep.")
    return text_at(document.data, steps)


def _path_below(path: str | None, span: TextSpan) -> str | None:
    """Return the path to a part read at a path; None for one of several values, which has no path."""
    return path if path and span.start == 0 and not any(step.is_many for step in parsed(path)) else None


def _start(text: str, offset: int) -> int:
    at = offset if offset >= 0 else max(0, len(text) + offset)
    if at > len(text):
        raise BadRead(f"There are {len(text):,} characters, and offset {offset} is behind them. Ask for less.")
    return at


def _note(at: int, end: int, every: int, same: str, chosen_rows: str = "") -> str:
    if end >= every:
        return f"[Characters {at:,} to {end:,} of {every:,}: the end.{chosen_rows}]"
    return f"[Characters {at:,} to {end:,} of {every:,}.{chosen_rows} Read on with offset={end}{same}.]"


def _found(finding: FoundText, at: int, every: int, same: str) -> ResultPage:
    matches = "1 match" if finding.count == 1 else f"{finding.count:,} matches" if finding.count else "Nothing found"
    if finding.next is None:
        where = "to the end" if at == 0 else f"from offset {at:,} to the end"
        return ResultPage(finding.text, f"[{matches}; searched {where}.]", None)
    where = f"up to offset {finding.next:,} of {every:,}"
    note = f"[{matches} {where}. Go on with offset={finding.next}, the same grep{same}.]"
    return ResultPage(finding.text, note, finding.next)
