"""An outline of a large result whose beginning says little: paths of JSON, levels of a log, headings of HTML, and the
parts of other texts.

Law: it has at most `MOST_TOKENS`, and its cost is linear in the text, or bounded.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from itertools import chain, islice
from typing import Any, Final

import msgspec

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.columns import columns
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.entries import entries
from aggregator.results.read.forms import Form
from aggregator.results.read.nesting import PLAIN_NAME
from aggregator.results.read.records import blocks, markdown_tables, records
from aggregator.results.read.sections import sections, tables, yaml
from aggregator.results.read.values import NoValue, opened

MOST_TOKENS: Final = 150
_END: Final = "..."
# Characters of a text that are gone through, and of one line of the outline.
_LOOKED_AT: Final = 4_000_000
_LINE: Final = 160
_TEXT: Final = 40
# Members and items that are looked at, names that are listed, and levels.
_MEMBERS: Final = 40
_OF_MANY: Final = 2
_ALIKE: Final = 4
_NAMES: Final = 8
_NAMES_LONG: Final = 100
_DEPTH: Final = 8
# Items whose values are counted: so many at most, and as few are no list of records; values that are a few.
_ITEMS: Final = 5_000
_FEWEST: Final = 10
_FEW: Final = 6
_FIRST: Final = "[0]"
# A larger JSON text is not opened: each of its values takes 50 bytes.
_OPENED: Final = 64_000_000

_TEXT_NUMBER: Final = re.compile(r"\[\d+\]")
_BASE64: Final = re.compile(r"(?:data:[\w/+.-]{1,60};base64,)?[A-Za-z0-9+/_-]{120}")
_HTML: Final = re.compile(
    r"\s*+(?:<\?xml[^>]{0,200}>\s*+)?<(?:!doctype html|html|head|body|main|div|p|section|article|table|ul|ol|h[1-6])\b",
    re.IGNORECASE,
)
_TAG: Final = re.compile(r"<(/?)(script|style|title|h[1-3]|[a-z!]\w{0,20})[^<>]{0,2000}>", re.IGNORECASE)
_UNSEEN: Final = frozenset({"script", "style", "nav", "svg", "noscript"})
_HEADINGS: Final = frozenset({"title", "h1", "h2", "h3"})
_HEADINGS_AT_MOST: Final = 12
_BODY: Final = 240
_LEVEL: Final = re.compile(
    r"^.{0,60}?\b(FATAL|CRITICAL|ERROR|ERR|WARNING|WARN|INFO|DEBUG|TRACE)\b.*+$", re.MULTILINE | re.IGNORECASE
)
_LEVELS: Final = {"ERR": "ERROR", "WARNING": "WARN", "CRITICAL": "FATAL"}
_BAD: Final = ("FATAL", "ERROR")
_JSON_LEVEL: Final = re.compile(
    r'^.{0,120}?"(?:level|severity|levelname|log_level)"\s{0,9}:\s{0,9}"(\w{1,20})".*+$', re.MULTILINE
)
# Lines of a web server's log, with the status.
_ACCESS: Final = re.compile(r'^\S.{0,200}?\[[^\]\n]{1,60}\] "[^"\n]*+" ([1-5]\d\d) .*+$', re.MULTILINE)
# Lines that say that something went wrong, in the output of programs.
_TROUBLE: Final = re.compile(
    r"^.{0,160}?(?:\b(?:error|ERR|fatal|panic|panicked|exception|traceback|FAIL|FAILED|failed|failure|killed|Killed|denied|refused|aborted"
    r"|[Oo]ut of memory|[Tt]imed out|segfault|unreachable)\b|(?:Error|Exception)\b).*+$",
    re.MULTILINE,
)
# Lines about errors that are shown.
_SHOWN: Final = 3
_MARKDOWN: Final = re.compile(r"^#{1,3} .*+$", re.MULTILINE)
# The first lines, which say what kind of text it is; and so many lines have an outline.
_FIRST_LINES: Final = 40
_FIRST_WORDS: Final = 60
_MANY_LINES: Final = 100


def outline(document: ResultDocument, end: int) -> str:
    """Return the outline of a result of which the text up to `end` is shown; empty if that says enough."""
    text, forms = document.text, {span.form for span in document.spans}
    lines: Iterator[str] = iter(())
    if len(document.parts) == 1 and len(text) <= _LOOKED_AT and Form.JSON not in forms:
        lines = _text_lines(text, is_json=forms == {Form.JSON_LINES})
    elif document.data is not msgspec.UNSET:
        lines = _json_lines(document, end)
    elif len(document.parts) > 1:
        return _within(_part_lines(document))
    return _within(chain(_resource_lines(document), lines))


def _text_lines(text: str, *, is_json: bool) -> Iterator[str]:
    """Yield lines about a text that is no JSON, or that has JSON on each line."""
    if _HTML.match(text):
        yield from _html_lines(text)
        yield from islice(tables(text), _HEADINGS_AT_MOST)
    elif _is_log(text, level := _JSON_LEVEL if is_json else _LEVEL):
        yield from _log_lines(text, level)
    elif not is_json and _is_log(text, _ACCESS):
        yield from _log_lines(text, _ACCESS, "status ")
    elif is_json:
        return
    elif _is_base64(text) and len(text.split(None, 1)[0]) > _LOOKED_AT // 1_000:
        yield f"base64, {len(text):,} characters"
    elif len(headings := list(islice(_MARKDOWN.finditer(text), _MEMBERS))) > 1:
        known = [(heading.start(), heading[0]) for heading in headings]
        yield from (f"offset {start}: {said}" for start, said in sorted(known + markdown_tables(text)))
    elif (parts := _known_parts(text)) is not None:
        yield from parts
    elif (count := text.count("\n")) > _MANY_LINES:
        yield from columns(text) or ()
        trouble = list(islice(_TROUBLE.finditer(text), _MEMBERS + 1))
        if trouble:
            many = f"more than {_MEMBERS}" if len(trouble) > _MEMBERS else f"{len(trouble):,}"
            yield f"Lines that tell of errors: {many} of {count + 1:,}"
            yield f"The first of them, at offset {trouble[0].start()}: {trouble[0][0]}"
        yield f"The last line: {_last_line(text)}"
        # Each may be the one that matters: "Caused by: ...".
        yield from (
            f"offset {line.start()}: {line[0]}" for line in trouble[1:_SHOWN] if line.end() < len(text.rstrip())
        )


def _known_parts(text: str) -> Iterable[str] | None:
    """Return lines about the parts of a text; None if its form is not known."""
    forms: tuple[Callable[[str], Iterable[str] | None], ...] = (entries, records, yaml, blocks, sections)
    for form in forms:
        if (parts := form(text)) is not None:
            return parts
    return None


def _part_lines(document: ResultDocument) -> Iterator[str]:
    """Yield where each of several texts begins, the resource that it is of, and its first words."""
    for number, part in enumerate(document.parts, 1):
        first = document.text[part.start : min(part.end, part.start + _LINE)]
        of = f" of {uri[:_LINE]}" if (uri := document.resource_of(part)) is not None else ""
        yield f"offset {part.start}: text {number}{of}, {part.end - part.start:,} characters: {first[:_FIRST_WORDS]}"


def _resource_lines(document: ResultDocument) -> Iterator[str]:
    """Yield the embedded resources that the texts are of: a model sees the texts alone."""
    several = len(document.parts) > 1
    for number, part in enumerate(document.parts[:_MEMBERS], 1):
        if (uri := document.resource_of(part)) is not None:
            yield f"text {number} of {uri}" if several else f"The text of {uri}"


def _within(lines: Iterator[str]) -> str:
    """Return the first lines that the tokens allow."""
    shown: list[str] = []
    left = MOST_TOKENS - estimate(_END)
    for line in lines:
        short = " ".join(line[: 2 * _LINE].split())
        short = short if len(short) <= _LINE else f"{short[:_LINE]}{_END}"
        left -= estimate(short) + 1
        if left < 0:
            shown.append(_END)
            break
        shown.append(short)
    return "\n".join(shown)


def _json_lines(document: ResultDocument, end: int) -> Iterator[str]:
    """Yield a line for each member, those of the outer objects first."""
    if len(document.text) > _OPENED:
        return
    root = _opened(document.data)
    if isinstance(root, str):
        yield _described(root)
        root = _inside(root)
    if isinstance(root, list) and len(document.parts) > 1 and document.result.get("structuredContent") is None:
        # The texts of the result.
        root = {f"[{number}]": text for number, text in enumerate(root)}
    if isinstance(root, list):
        # Whole items say what the others are.
        if not root or _is_shown(root[0], end):
            return
        yield f"{len(root):,} items; the first:"
    first = (_FIRST, root[0], 1, root) if isinstance(root, list) else ("", root, 0, [])
    waiting: deque[tuple[str, Any, int, list[Any]]] = deque([first])
    while waiting:
        path, value, depth, among = waiting.popleft()
        value = _opened(value)
        if not isinstance(value, dict):
            continue
        if len(value) > _MEMBERS:
            yield f"{path or 'the whole'}: {len(value):,} members"
            if depth == 0 and _is_shown(next(iter(value.values())), end):
                return
        counted = _few_values(among)
        for name, others, found in _grouped(islice(value.items(), _OF_MANY if len(value) > _MEMBERS else _MEMBERS)):
            below = _joined(path, name)
            if name in counted:
                yield f"{_joined(f'{path[: -len(_FIRST)]}[*]', name)}: {counted[name]}"
                continue
            yield f"{below}{f' and {others:,} like it' if others else ''}: {_described(found)}"
            inside = _inside(found)
            if others:
                continue
            if depth < _DEPTH and isinstance(inside, dict):
                waiting.append((below, inside, depth + 1, []))
            elif depth < _DEPTH and isinstance(found, list) and found and isinstance(_opened(found[0]), dict):
                waiting.append((f"{below}{_FIRST}", found[0], depth + 1, found))


def _few_values(items: Sequence[Any]) -> dict[str, str]:
    """Return for each member that takes a few values in the items, and more than one, each value with its count."""
    if not _FEWEST <= len(items) <= _ITEMS:
        return {}
    values: dict[str, Counter[str] | None] = {}
    for item in items:
        found = _opened(item)
        for name, value in found.items() if isinstance(found, dict) else ():
            counts = values.setdefault(name, Counter())
            if counts is None:
                continue
            written = bytes(memoryview(value)[: _TEXT + 2]) if isinstance(value, msgspec.Raw) else b"{"
            if written[:1] in (b"{", b"[") or len(written) > _TEXT or len(counts) > _FEW:
                values[name] = None
            else:
                counts[written.decode("utf-8", "replace")] += 1
    return {
        name: ", ".join(f"{times:,} {value}" for value, times in counts.most_common())
        for name, counts in values.items()
        if counts is not None and 1 < len(counts) <= _FEW
    }


def _grouped(members: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, int, Any]]:
    """Yield name and value of each member, and how many more objects there are with the same names in them.

    Fewer than `_ALIKE` that are alike stand for themselves.
    """
    opened_members = [(name, _opened(part)) for name, part in members]
    alike = Counter(tuple(found) for _, found in opened_members if isinstance(found, dict))
    seen = set[tuple[str, ...]]()
    for name, found in opened_members:
        form = tuple(found) if isinstance(found, dict) else ()
        if not form or alike[form] < _ALIKE:
            yield name, 0, found
        elif form not in seen:
            seen.add(form)
            yield name, alike[form] - 1, found


def _is_shown(value: Any, end: int) -> bool:
    """Return True if the first value of a result is surely shown whole."""
    return isinstance(value, msgspec.Raw) and len(memoryview(value)) < end


def _opened(value: Any) -> Any:
    try:
        return opened(value)
    except NoValue:
        return None


def _inside(value: Any) -> Any:
    """Return what a text holds as JSON; any other value unchanged."""
    is_json = isinstance(value, str) and value[:1] in ("{", "[") and len(value) <= _LOOKED_AT
    return _opened(msgspec.Raw(value.encode("utf-8", "surrogatepass"))) if is_json else value


def _joined(path: str, name: str) -> str:
    if not path and _TEXT_NUMBER.fullmatch(name):
        return name
    short = name if len(name) <= _TEXT else f"{name[:_TEXT]}{_END}"
    if not PLAIN_NAME.fullmatch(short):
        return f"{path}[{json.dumps(short, ensure_ascii=False)}]"
    return f"{path}.{short}" if path else short


def _described(value: Any) -> str:
    """Return a value in a few words."""
    if isinstance(value, dict):
        return _names(value)
    if isinstance(value, list):
        return _items(value)
    if isinstance(value, str) and len(value) > _TEXT:
        what = "base64" if _is_base64(value) else "HTML" if _HTML.match(value) else "text"
        if value[:1] in ("{", "["):
            inner = _inside(value)
            what = f"JSON text, {_described(inner)}" if isinstance(inner, dict | list) else what
        return f"{what}, {len(value):,} characters"
    return json.dumps(value, ensure_ascii=False)[: _TEXT + 2]


def _is_base64(text: str) -> bool:
    found = _BASE64.match(text)
    return found is not None and all(any(map(is_one, found[0])) for is_one in (str.isupper, str.islower, str.isdigit))


def _names(value: dict[str, Any]) -> str:
    shown = [name[:_TEXT] for name in islice(value, _NAMES)]
    while len(shown) > 1 and sum(map(len, shown)) > _NAMES_LONG:
        shown.pop()
    more = f" and {len(value) - len(shown):,} more" if len(value) > len(shown) else ""
    return f"{{{', '.join(shown)}{more}}}"


def _items(value: list[Any]) -> str:
    if not value:
        return "no items"
    first, last = _opened(value[0]), _opened(value[-1])
    if len(value) <= _NAMES and not isinstance(first, dict | list):
        return "[" + ", ".join(_described(_opened(item)) for item in value) + "]"
    count = f"{len(value):,} items" if len(value) > 1 else "1 item"
    if isinstance(first, dict):
        return f"{count} {_names(first)}"
    if isinstance(first, list):
        return f"{count}, each a list of {len(first):,}"
    return f"{count}, {_described(first)} to {_described(last)}"


def _is_log(text: str, level: re.Pattern[str]) -> bool:
    """Return True if at least half of the first lines name a level."""
    lines = text[: _FIRST_LINES * _LINE].split("\n")[:_FIRST_LINES]
    return len(lines) > 5 and sum(level.match(line) is not None for line in lines) * 2 >= len(lines)


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _log_lines(text: str, levels: re.Pattern[str], kind: str = "") -> Iterator[str]:
    """Yield the count of each level or status, the first error and the last line."""
    counts: Counter[str] = Counter()
    first: re.Match[str] | None = None
    for line in levels.finditer(text):
        level = line[1].upper()
        level = _LEVELS.get(level, level)
        counts[level] += 1
        if first is None and (level in _BAD or level[0] == "5"):
            first = line
    said = ", ".join(f"{count:,} {kind}{level}" for level, count in counts.most_common())
    yield f"A log of {text.count(chr(10)) + 1:,} lines: {said}"
    if first is not None:
        yield f"The first error, at offset {first.start()}: {first[0]}"
    yield f"The last line: {_last_line(text)}"


def _html_lines(text: str) -> Iterator[str]:
    """Yield the title and the headings with their offsets, then the beginning of the text."""
    headings: list[str] = []
    places: list[int] = []
    words: list[str] = []
    inside, unseen, at, length = "", "", 0, 0
    for tag in _TAG.finditer(text):
        name, closes = tag[2].lower(), bool(tag[1])
        if unseen:
            unseen = "" if closes and name == unseen else unseen
            at = tag.end()
            continue
        said = " ".join(unescape(text[at : min(tag.start(), at + 2_000)]).split())
        if inside and said:
            headings[-1] += f" {said}"
        elif said and length < _BODY:
            words.append(said)
            length += len(said)
        if name in _UNSEEN and not closes:
            unseen = name
        elif name in _HEADINGS:
            inside = "" if closes or len(headings) >= _HEADINGS_AT_MOST else name
            if inside:
                headings.append(f"{name}:")
                places.append(tag.start())
        at = tag.end()
        if length >= _BODY and len(headings) >= _HEADINGS_AT_MOST:
            break
    # Of many headings the offsets would take the place of the text.
    for place, heading in zip(places, headings, strict=True):
        if not heading.endswith(":"):
            few = len(headings) <= _NAMES and not heading.startswith("title")
            yield f"offset {place}: {heading}" if few else heading
    if words:
        yield f"Text: {' '.join(words)[:_BODY]}"
