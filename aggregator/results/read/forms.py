"""The forms of texts: JSON, JSON lines, rows of CSV, and any other; and whether an offset lies between quotes.

Law: a form decides only where to cut: with any form, no text is lost. The cost of every pass is linear or bounded.
"""

import csv
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

# So much of the beginning of a text says which form it has.
_LOOKED_AT: Final = 8_192
_BLANK: Final = "\ufeff \t\r\n"
# What JSON may begin with behind the bracket that opens it; NaN and Infinity come from Python.
_BEGINS: Final = re.compile(
    r'\[\s*+(?:["\[{\]]|(?:-?(?:\d[\d.eE+-]*+|Infinity)|true|false|null|NaN)\s*+(?:,|\]?\s*+\Z))'
    r'|\{\s*+(?:"(?:[^"\\\r\n]|\\.)*+"?\s*+(?::|\Z)|\})'
)
# JSON that words come before: "Found 20 items:", then the items on a line of their own.
_LINE: Final = re.compile(r"^[\[{]", re.MULTILINE)
_WORDS_BEFORE: Final = 1_000
_ROWS: Final = 3
# The distance of offsets that are known to be inside or outside quotes.
_APART: Final = 8_192
_DELIMITERS: Final = (",", "\t", ";")
_BACKSLASHES: Final = re.compile(r'\\++("?)')


class Form(Enum):
    """A form of text that this module recognises."""

    JSON = "JSON"
    JSON_LINES = "JSON lines"
    CSV = "rows"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text with one form."""

    start: int
    end: int
    form: Form


def spans(text: str, start: int, end: int) -> Iterator[TextSpan]:
    """Yield the spans of one text that lies in a longer one, in order and without a gap."""
    first = start
    while first < end and first - start < _LOOKED_AT and text[first] in _BLANK:
        first += 1
    if _is_json(text, first, end):
        if _has_json_lines(text, first, end):
            yield TextSpan(start, end, Form.JSON_LINES)
        else:
            yield from _json_spans(text, start, first, end)
        return
    if _is_csv(text[first : min(end, first + _LOOKED_AT)], whole=end - first <= _LOOKED_AT):
        yield TextSpan(start, end, Form.CSV)
        return
    for line in _LINE.finditer(text, first, min(end, first + _WORDS_BEFORE)):
        # An element that runs over the line is no log line in brackets.
        if _is_json(text, line.start(), end) and line.start() > start:
            yield TextSpan(start, line.start(), Form.PLAIN)
            yield from _json_spans(text, line.start(), line.start(), end)
            return
    yield TextSpan(start, end, Form.PLAIN)


class Quotes:
    """The quotes of one text: whether an offset lies in a string of JSON, or in a field of CSV.

    Offsets that do not go far back cost one pass over the text together.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._span = -1
        # Offsets counted up to, with the result for each.
        self._known: list[tuple[int, bool]] = []

    def around(self, span: TextSpan, at: int) -> bool:
        """Tell whether quotes are open at an offset of a span."""
        if span.form is Form.PLAIN:
            return False
        if span.start != self._span:
            self._span, self._known = span.start, [(span.start, False)]
        place = bisect_right(self._known, at, key=lambda known: known[0]) - 1
        start, quoted = self._known[place]
        # No line of JSON lines needs the one before it, which may be broken.
        line = self._text.rfind("\n", start, at) if span.form is Form.JSON_LINES else -1
        if line >= 0:
            start, quoted = line, False
        quoted ^= _quotes(self._text, start, at, escapes=span.form is not Form.CSV) % 2 == 1
        # A run of backslashes is counted as a whole.
        if place == len(self._known) - 1 and at >= self._known[-1][0] + _APART and self._text[at - 1] != "\\":
            self._known.append((at, quoted))
        return quoted


def _quotes(text: str, start: int, end: int, *, escapes: bool) -> int:
    quotes = text.count('"', start, end)
    if quotes and escapes and text.find("\\", start, end) >= 0:
        # The quote behind an odd number of backslashes is a character of the string.
        found = _BACKSLASHES.finditer(text, start, end)
        quotes -= sum(1 for run in found if run[1] and (run.end() - run.start()) % 2 == 0)
    return quotes


def _is_json(text: str, start: int, end: int) -> bool:
    return _BEGINS.match(text, start, min(end, start + _LOOKED_AT)) is not None


def _json_spans(text: str, start: int, first: int, end: int) -> Iterator[TextSpan]:
    """Yield the span of JSON that begins at `first`, and one of the words behind it, if any."""
    last = _json_end(text, first, end)
    yield TextSpan(start, last, Form.JSON)
    if last < end:
        yield TextSpan(last, end, Form.PLAIN)


def _json_end(text: str, start: int, end: int) -> int:
    """Return where JSON ends that words come after, such as "Done." or the end of a fence."""
    closing = {"{": "}", "[": "]"}[text[start]]
    # Its own bracket stands at the beginning of a line, or at the end of its only one.
    last = text.rfind(f"\n{closing}", start, end) + 2
    if last == 1:
        last = text.find("\n", start, end)
        last = last if last > 0 and text[last - 1] == closing else end
    return last if text[last : last + 1] in ("", "\n", "\r") and text[last:end].strip(_BLANK) else end


def _has_json_lines(text: str, start: int, end: int) -> bool:
    """Tell whether the first line is closed, and another value follows on the next."""
    line_end = text.find("\n", start, end)
    if line_end < 0:
        return False
    last = text[max(start, line_end - 2) : line_end].rstrip()[-1:]
    closed = {"{": "}", "[": "]"}[text[start]]
    follows = text[line_end : line_end + 16].strip()[:1]
    return last == closed and follows == text[start] and _quotes(text, start, line_end, escapes=True) % 2 == 0


def _is_csv(beginning: str, *, whole: bool) -> bool:
    """Tell whether a text begins with rows of as many fields each, one of them in quotes.

    Without quotes the lines are the rows, and it does not matter.
    """
    if '"' not in beginning:
        return False
    for delimiter in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(beginning.splitlines(keepends=True), delimiter=delimiter, strict=True)]
        except csv.Error:
            continue
        fields = [len(row) for row in (rows if whole else rows[:-1]) if row]
        if len(fields) >= _ROWS and fields[0] > 1 and len(set(fields)) == 1:
            return True
    return False
