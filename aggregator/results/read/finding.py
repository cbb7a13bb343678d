"""Matches of an expression in a text: the elements, each with its context before and after.

An element is a line; of a long line, such as JSON without line breaks, a few members or sentences. Law 1: the text is
read once. Parts without any match are skipped in large pieces. Law 2: only the engine without backtracking is used. A
model's expression never comes to Python's own.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Final

from jsonschema_rs import Draft202012Validator, RegexOptions

from aggregator.domain.text.tokens import estimate, reach
from aggregator.results.read.forms import Form, Quotes, TextSpan
from aggregator.results.read.nesting import Nesting
from aggregator.results.read.page_end import before, elements, page_end
from aggregator.results.read.path import BadRead

_SKIPPED: Final = 16_384
_LONG: Final = 400
# So short an element is shown whole.
_SHORT: Final = 160
# A match may run over the end of a piece by so much.
_OVERLAP: Final = _LONG
_CONTEXT: Final = 120
# Lines of context before and after a match, unless the reader wants another number, and at most.
CONTEXT_LINES: Final = 1
_CONTEXT_AT_MOST: Final = 20
# Matches up to this offset have paths: computing them takes seconds after it.
_PATHS_UP_TO: Final = 4_000_000
# A longer path is not told.
_PATH: Final = 200
# For the note of the page.
_NOTE: Final = 60

PathOf = Callable[[TextSpan], str | None]

EXPRESSION_AT_MOST: Final = 500
_KIB: Final = 1024
# Size of the compiled expression -> how many characters one page searches: a second or a few at the worst.
_SEARCHED: Final = ((8 * _KIB, 64_000_000), (64 * _KIB, 16_000_000), (512 * _KIB, 2_000_000))
_ESCAPE: Final = re.compile(r'(?:\\u[0-9a-fA-F]{4})++|\\["\\/bfnrt]')
_SIMPLE: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A search expression, and the number of characters that it may search at once."""

    validator: Draft202012Validator
    searched_at_most: int

    def is_in(self, text: str, *, escapes: bool) -> bool:
        """Tell whether the expression matches in a text, or, with `escapes`, in what its escapes of JSON stand for."""
        if self._is_in(text):
            return True
        return escapes and "\\" in text and self._is_in(_ESCAPE.sub(_unescaped, text))

    def _is_in(self, text: str) -> bool:
        try:
            return self.validator.is_valid(text)
        except UnicodeEncodeError:
            return self.validator.is_valid(text.encode("utf-8", "replace").decode())


@lru_cache(maxsize=64)
def compiled(pattern: str, *, case: bool = False) -> Expression:
    """Return an expression of a model. `case`: capitals and small letters differ.

    Raises:
        BadRead: it is none, or costs too much.
    """
    if not pattern:
        raise BadRead("`grep` is empty: give it a word or a regular expression.")
    if len(pattern) > EXPRESSION_AT_MOST:
        raise BadRead(f"`grep` has at most {EXPRESSION_AT_MOST} characters.")
    for size, searched in _SEARCHED:
        # `m`: the beginning and the end of a line, as in grep.
        schema = {"pattern": f"(?{'m' if case else 'im'}){pattern}"}
        try:
            options = RegexOptions(size_limit=size)
            return Expression(Draft202012Validator(schema, pattern_options=options, offline=True), searched)
        except ValueError:
            continue
    raise BadRead(
        f"`{pattern:.80}` is no regular expression that can be searched for: it is not valid, very large, or uses "
        "look-around or back-references. Put a backslash before each of `[](){}.*+?|^$` that is meant as it is."
    )


def _unescaped(found: re.Match[str]) -> str:
    written = found[0]
    if written[1] == "u":
        return bytes.fromhex(written.replace("\\u", "")).decode("utf-16-be", "replace")
    return _SIMPLE.get(written[1], written[1])


@dataclass(frozen=True, slots=True)
class FoundText:
    """Matches as text, how many they are, and where to go on; None if all was searched."""

    text: str
    count: int
    next: int | None


@dataclass(frozen=True, slots=True)
class FindRequest:
    """A search as its reader wants it: the pattern, the lines of context before and after each match, whether capitals
    and small letters differ, and whether matches are only counted.
    """

    pattern: str
    context: int = CONTEXT_LINES
    case: bool = False
    count: bool = False


def find(
    text: str, parts: Sequence[TextSpan], quotes: Quotes, path_of: PathOf, wanted: FindRequest, at: int, tokens: int
) -> FoundText:
    """Return the matches from an offset on, as many as `tokens` allow.

    `path_of` returns the path to the value of a span, or None.

    Raises:
        BadRead: the pattern is no regular expression.
    """
    expression = compiled(wanted.pattern, case=wanted.case)
    last = min(len(text), at + expression.searched_at_most)
    if last < len(text):
        # No line is searched in two parts.
        last = text.rfind("\n", at, last) + 1 or last
    places = _Places(text, parts, path_of)
    if wanted.count:
        count = sum(1 for _ in _matching(text, parts, quotes, expression, at, last))
        return FoundText("", count, last if last < len(text) else None)
    lines = min(max(wanted.context, 0), _CONTEXT_AT_MOST)
    shown: list[str] = []
    used, ended = _NOTE, -1
    for start, end in _matching(text, parts, quotes, expression, at, last):
        head = _before(text, start, lines) if start != ended else ""
        written = f"{places.of(start)}:\n{head}> {text[start:end].rstrip()}\n{_behind(text, end, lines)}".rstrip("\n")
        used += estimate(written) + 1
        if used > tokens:
            if shown:
                return FoundText("\n".join(shown), len(shown), start)
            return FoundText(written[: reach(written, 0, tokens - _NOTE)], 1, end if end < len(text) else None)
        shown.append(written)
        ended = end
    return FoundText("\n".join(shown), len(shown), last if last < len(text) else None)


def _matching(
    text: str, parts: Sequence[TextSpan], quotes: Quotes, expression: Expression, at: int, last: int
) -> Iterator[tuple[int, int]]:
    """Yield the spans of the elements that match."""
    escapes = any(span.form in (Form.JSON, Form.JSON_LINES) for span in parts)

    def is_in(start: int, end: int) -> bool:
        # `$` is before a line feed only.
        return expression.is_in(text[start:end].replace("\r\n", "\n"), escapes=escapes)

    def exact(start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield a line that matches, or the smallest elements of it that match, of those that are not short."""
        if "\n" in text[start:end]:
            yield start, end
            return
        inner = [element for element in elements(text, parts, quotes, start, end) if is_in(*element)]
        if end - start <= _SHORT or not inner or inner == [(start, end)]:
            yield start, end
            return
        for element in inner:
            yield from exact(*element)

    def together(run: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield two neighbours that match together, of those that do not match alone."""
        if is_in(run[0][0], run[-1][1]):
            yield from ((first[0], second[1]) for first, second in pairwise(run) if is_in(first[0], second[1]))

    while at < last:
        behind = _skipped_to(text, at, last)
        if not is_in(at, min(len(text), behind + _OVERLAP)):
            at = behind
            continue
        pieces = []
        while at < behind:
            end = min(_piece_end(text, parts, quotes, at), last)
            pieces.append((at, end))
            at = end
        # A match may begin in one piece, and end in the next: that of the last one is not among these.
        following = [(at, _piece_end(text, parts, quotes, at))] if at < len(text) else []
        for matches, run in groupby([*pieces, *following], lambda piece: is_in(*piece)):
            if matches:
                yield from (element for start, end in run if start < at for element in exact(start, end))
            else:
                yield from together(list(run))


def _skipped_to(text: str, at: int, last: int) -> int:
    """Return the end of a piece that is skipped if nothing in it matches: after a line or a comma, if there is one."""
    end = at + _SKIPPED
    if end >= last:
        return last
    line = text.find("\n", end, end + _SKIPPED)
    if line >= 0:
        return line + 1
    comma = text.rfind(",", at + _SKIPPED // 2, end)
    return comma + 1 if comma >= 0 else before(text, end, at)


def _piece_end(text: str, parts: Sequence[TextSpan], quotes: Quotes, at: int) -> int:
    line = text.find("\n", at, at + _LONG)
    return line + 1 if line >= 0 else page_end(text, parts, quotes, at, at + _LONG // 2, at + _LONG)


def _before(text: str, start: int, lines: int) -> str:
    """Return the end of the text before an element, as lines of context."""
    return _lines(text[max(0, start - lines * _CONTEXT) : start].rstrip().split("\n")[-lines:] if lines else [])


def _behind(text: str, end: int, lines: int) -> str:
    return _lines(text[end : end + lines * _CONTEXT].split("\n")[:lines])


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"  {line.rstrip()}\n" for line in lines if line.strip())


class _Places:
    """Descriptions of ascending offsets: the line number, and the path in JSON."""

    def __init__(self, text: str, parts: Sequence[TextSpan], path_of: PathOf) -> None:
        self._text, self._parts, self._path_of = text, parts, path_of
        self._line, self._counted = 1, 0
        self._span: TextSpan | None = None
        self._nesting: Nesting | None = None

    def of(self, at: int) -> str:
        """Return the words for an offset."""
        self._line += self._text.count("\n", self._counted, at)
        self._counted = at
        path = self._path(at)
        return f"offset {at}, line {self._line:,}" + (f", path `{path}`" if 0 < len(path) <= _PATH else "")

    def _path(self, at: int) -> str:
        number = bisect_right(self._parts, at, key=lambda span: span.start) - 1
        span = self._parts[number] if number >= 0 else None
        if span is None or at - span.start > _PATHS_UP_TO:
            return ""
        above = self._path_of(span)
        if above is None:
            return ""
        if span.form is Form.JSON_LINES:
            # Blank lines are no values.
            is_dense = self._text.find("\n\n", span.start, at) < 0
            return f"{above}[{self._text.count(chr(10), span.start, at)}]" if is_dense else ""
        if span is not self._span or self._nesting is None:
            self._span, self._nesting = span, Nesting(self._text, span.start)
        self._nesting.go_to(at)
        path = self._nesting.path()
        return f"{above}{'.' if above and path[:1] not in ('', '[') else ''}{path}"
