"""The end of a page: after the element at the shallowest depth of its structure that still fills the page.

A page splits no visible character in two (UAX #29, without its rarer rules). Law: only the second half of the page is
read; counts of quotes describe the text before it.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from aggregator.domain.text.tokens import reach_half
from aggregator.results.read.forms import Form, Quotes, TextSpan

# Depths of elements, shallow to deep; of JSON the brackets that open before a place are added to _MEMBER.
_RECORD: Final = -1_000_000_000
_HEADING: Final = 0
_PARAGRAPH: Final = 10
_LINE: Final = 20
_MEMBER: Final = 100
_SENTENCE: Final = 1_000
_WORD: Final = 1_001
# Deeper than this no line is indented.
_INDENTED_AT_MOST: Final = 40

_JSON: Final = re.compile(
    r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,[ \t]*+(?:\r\n?|\n)?)'
    r"|(?P<line>\r\n?|\n)",
    re.DOTALL,
)
_STRING_END: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_LINE_END: Final = re.compile(r"\r\n?|\n")
_NEXT_LINE: Final = re.compile(
    r"(?P<indent>[ \t]{0,40})(?:(?P<heading>#{1,6}) |(?P<blank>[ \t]*+(?=[\r\n]))|(?P<fence>```))?"
)
_CSV: Final = re.compile(r'"|(?P<line>\r\n?|\n)')
_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u")
_FENCE: Final = "\n```"
# A sentence, an escaped line break in a string of JSON, or a word; of scripts without blanks, every character.
_INSIDE: Final = re.compile(
    r"(?P<sentence>[.!?\u2026][\"'\u201d\u2019)\]]*+\s++|[\u3002\uff01\uff1f\uff1b][\u201d\u2019\u300d\uff09]*+|\\n)"
    r"|(?P<word>\s++|[\u2e80-\ud7ff\uf900-\uffef\U00020000-\U0003ffff])"
)

_JOINER: Final = "\u200d"

# Marks belong to the letter before them: combining, enclosing and spacing ones.
_MARKS: Final = frozenset({"Mn", "Me", "Mc"})

# No character of any language is as long; a text of marks alone is cut even so.
_LONGEST: Final = 64

# Before this no character needs its neighbour but a line feed after a carriage return.
_FIRST_MARK: Final = "\u0300"


def page_of(text: str, parts: Sequence[TextSpan], quotes: Quotes, start: int, tokens: int) -> int:
    """Return the end of a page of at most so many estimated tokens; it has at least one character, if there is one.

    `parts` and `quotes` are as for `page_end`.
    """
    half, end = reach_half(text, start, tokens)
    return end if end == len(text) else page_end(text, parts, quotes, start, half, max(end, start + 1))


def page_end(text: str, parts: Sequence[TextSpan], quotes: Quotes, start: int, half: int, end: int) -> int:
    """Return the end of a page that begins at `start`: in (start, end], and at `half` or later if possible.

    `parts` are the spans of the text, in order; text between two of them separates them. `quotes` are the quotes of the
    text.
    """
    if end >= len(text):
        return len(text)
    half = min(max(half, start + 1), end)
    at = bisect_right(parts, end, key=lambda part: part.start) - 1
    if at < 0:
        return end
    part = parts[at]
    if part.start >= half:
        return part.start
    if part.end <= end:
        return max(part.end, half)
    return _cut_in(text, part, quotes, max(start, part.start), half, end)


def elements(text: str, parts: Sequence[TextSpan], quotes: Quotes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the elements at the shallowest depth of a part of a text; sentences are the deepest."""
    at = bisect_right(parts, start, key=lambda part: part.start) - 1
    found: list[tuple[int, int]] = []
    if at >= 0:
        found = list(_elements(text, parts[at], quotes, start, start, end))
        found = found or [word for word in _words(text, start, end) if word[0] == _SENTENCE]
    shallowest = min((depth for depth, _ in found), default=0)
    first = start
    for depth, place in found:
        if depth == shallowest and first < place < end and not joined(text, place):
            yield first, place
            first = place
    yield first, end


def _cut_in(text: str, span: TextSpan, quotes: Quotes, start: int, half: int, end: int) -> int:
    found = _elements(text, span, quotes, start, half, end)
    best = _shallowest(text, found, half, end) or _shallowest(text, _words(text, half, end), half, end)
    return best if best is not None else _anywhere(text, start, end, escapes=span.form is not Form.PLAIN)


def _elements(text: str, span: TextSpan, quotes: Quotes, start: int, half: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield depth and end of the elements that end between `half` and `end`, where `start` is the page's."""
    match span.form:
        case Form.JSON | Form.JSON_LINES:
            lines = span.form is Form.JSON_LINES
            return _members(text, half, end, quoted=quotes.around(span, half), lines=lines)
        case Form.CSV:
            return _rows(text, half, end, quoted=quotes.around(span, half))
        case Form.PLAIN:
            return _lines(text, start, half, end)


def _shallowest(text: str, found: Iterator[tuple[int, int]], half: int, end: int) -> int | None:
    """Return the last place of the least depth."""
    best: tuple[int, int] | None = None
    for depth, place in found:
        if half <= place <= end and (best is None or depth <= best[0]) and not joined(text, place):
            best = depth, place
    return best and best[1]


def _members(text: str, at: int, end: int, *, quoted: bool, lines: bool) -> Iterator[tuple[int, int]]:
    """Yield the places behind the commas of arrays and objects; `quoted`: the text begins within a string."""
    if quoted:
        inside = _STRING_END.match(text, at, end)
        at = min(end, inside.end() + 1) if inside else at
    depth = _MEMBER
    for token in _JSON.finditer(text, at, end):
        match token.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth -= 1
            case "comma":
                yield depth, token.end()
            case "line" if lines:
                depth = _MEMBER
                yield _RECORD, token.end()


def _rows(text: str, at: int, end: int, *, quoted: bool) -> Iterator[tuple[int, int]]:
    for token in _CSV.finditer(text, at, end):
        if token.lastgroup is None:
            quoted = not quoted
        elif not quoted:
            yield _LINE, token.end()


def _lines(text: str, start: int, half: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the places behind lines: sections, paragraphs, and lines by how far the next one is indented."""
    fenced = text.count(_FENCE, start, half) % 2 == 1
    after_blank = False
    for line in _LINE_END.finditer(text, max(start, half - 2), end):
        following = _NEXT_LINE.match(text, line.end())
        assert following is not None, "the expression matches no characters too"
        if following["blank"] is not None:
            after_blank = True
            continue
        if following["fence"]:
            fenced = not fenced
        if following["heading"] and not fenced:
            yield _HEADING + len(following["heading"]), line.end()
        elif after_blank and not fenced:
            yield _PARAGRAPH, line.end()
        else:
            yield _LINE + min(len(following["indent"].expandtabs(4)), _INDENTED_AT_MOST), line.end()
        after_blank = False


def _words(text: str, half: int, end: int) -> Iterator[tuple[int, int]]:
    for found in _INSIDE.finditer(text, half, end):
        yield (_SENTENCE if found.lastgroup == "sentence" else _WORD), found.end()


def _anywhere(text: str, start: int, end: int, *, escapes: bool) -> int:
    """Return the last place that cuts neither a character in two nor, in JSON, an escape."""
    place = before(text, end, start)
    if not escapes:
        return place
    # Two escapes of four digits may be one character.
    for _ in range(2):
        backslash = text.rfind("\\", max(start, place - 6), place)
        if backslash <= start or not _begins_escape(text, backslash, start):
            break
        ends = backslash + (6 if text[backslash + 1 : backslash + 2] == "u" else 2)
        if ends < place or (ends == place and not _is_half(text, backslash)):
            break
        place = backslash
    return place


def _begins_escape(text: str, backslash: int, start: int) -> bool:
    first = backslash
    while first > start and text[first - 1] == "\\":
        first -= 1
    return (backslash - first) % 2 == 0


def _is_half(text: str, escape: int) -> bool:
    """Tell whether an escape is the first of two for one character."""
    return _PAIR.match(text, escape) is not None


def before(text: str, at: int, first: int) -> int:
    """Return the last offset up to `at`, and after `first`, that splits no character; `at` if there is none.

    A line break of two characters stays whole in any case, if there is room for it.
    """
    for place in range(at, max(first, at - _LONGEST), -1):
        if not joined(text, place):
            return place
    return at - 1 if text[at - 1 : at + 1] == "\r\n" and at - 1 > first else at


def joined(text: str, at: int) -> bool:
    """Tell whether the characters on both sides of an offset form one visible character."""
    if not 0 < at < len(text):
        return False
    left, right = text[at - 1], text[at]
    if right < _FIRST_MARK:
        return right == "\n" and left == "\r"
    if left == _JOINER or right in (_JOINER, "\u200c") or _is_mark(right) or _is_modifier(right):
        return left not in "\r\n"
    if _is_flag(left) and _is_flag(right):
        return _flags_before(text, at) % 2 == 1
    return _is_surrogate_pair(left, right) or _is_syllable(left, right)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in _MARKS


def _is_modifier(character: str) -> bool:
    """Tell whether it is the colour of an emoji's skin, or a tag of a flag."""
    return "\U0001f3fb" <= character <= "\U0001f3ff" or "\U000e0020" <= character <= "\U000e007f"


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    """Return how many letters of flags end at an offset: two make one flag."""
    start = at
    while start > max(0, at - _LONGEST) and _is_flag(text[start - 1]):
        start -= 1
    return at - start


def _is_surrogate_pair(left: str, right: str) -> bool:
    return "\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff"


def _is_syllable(left: str, right: str) -> bool:
    """Tell whether two letters of Hangul are one syllable: only the parts of old texts are letters of their own."""
    if "\u1100" <= left <= "\u115f":
        return "\u1100" <= right <= "\u11a7" or "\uac00" <= right <= "\ud7a3"
    return "\u1160" <= right <= "\u11ff" and ("\u1160" <= left <= "\u11ff" or "\uac00" <= left <= "\ud7a3")
