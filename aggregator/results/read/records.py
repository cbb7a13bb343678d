"""Large texts that are records one after the other: messages of a chat, commits, blocks of named fields, articles of a
contract or a law.

Law: the form of its lines tells the kind of a text, in one pass over the text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

# Records that are counted, and as few make no list of records.
_COUNTED: Final = 20_000
_FEWEST: Final = 5
# Values of a field that are counted, or characters of one.
_FEW: Final = 6
_LONG: Final = 40
_LONG_ZH: Final = 16
_HEADINGS: Final = 12
_LISTED: Final = 60
_OF_A_LINE: Final = 5

_TIME: Final = (
    r"\[?(?:\d{4}-\d\d-\d\d[T ]|\d{1,2}[./]\d{1,2}[./]\d{2,4},? )?\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?Z?(?: ?[AP]M)?\]?"
)
_TIME_ENDS: Final = r"\)?(?:[ \t]*$|:[ \t]|(?<=[)\]])[ \t])"
# `[10:02] Ann: text`, `10:02 Ann: text`, `Ann (10:02): text`, `Ann — 10:02`.
_MESSAGE: Final = re.compile(
    rf"^(?:(?P<time>{_TIME})[ \t]+(?:- )?(?P<who>[^\s:\[][^:\n]{{0,40}}):[ \t]"
    rf"|(?P<name>[^\s:\[][^:\n]{{0,40}}?)[ \t]+(?:[—–|-][ \t]+)?\(?(?P<at>{_TIME}){_TIME_ENDS})",
    re.MULTILINE,
)
_COMMIT: Final = re.compile(
    r"^commit [0-9a-f]{7,64}.*\n(?:Merge: .*\n)?Author: +(?P<who>.{0,100}?)(?: <.{0,200})?\n(?:.*Date: +(?P<time>.*)\n)"
    r"(?:Commit.*\n)*\n? *(?P<title>.*)",
    re.MULTILINE,
)
_ONE_LINE_COMMIT: Final = re.compile(r"^(?:[*|\\/ ]*)[0-9a-f]{7,12} (?P<title>\S.*)$", re.MULTILINE)
_FIELD: Final = re.compile(
    r"^[ \t]{0,4}(?:[-*] )?\**(?P<name>[A-Za-z][\w -]{0,30}?)\**:\**[ \t]+(?P<value>\S.*)$", re.MULTILINE
)
_PART: Final = (
    r"(?i:article|art\.|section|clause|chapter|annex|schedule|artikel|abschnitt|kapitel|artículo|capítulo|chapitre)"
    r"[ \t]+(?:\d{1,4}|[IVXLC]{1,7})[a-z]?\b|§{1,2} ?\d{1,4}[a-z]?\b|第[一二三四五六七八九十百千零〇\d]{1,8}[条章編编]"
)
_NEXT: Final = r"(?:(?=\n{1,3}(?P<next>[^\n]{1,60})$))?"
_ZH_PART: Final = re.compile(r"第.{1,8}?([条章編编])")
_ARTICLE: Final = re.compile(
    rf"^(?:#{{1,6}} |\*\*)?(?P<heading>(?:{_PART})(?P<rest>[^\n]{{0,60}}))[^\n]*+{_NEXT}", re.MULTILINE
)
_NUMBERED: Final = re.compile(r"^(?P<heading>\d{1,3}\.? (?P<rest>[A-Z][A-Z ,&/'()-]{2,60}))(?P<next>$)", re.MULTILINE)
# The line under the names of a table.
_RULE: Final = re.compile(r"^\|?[ \t]*:?-{2,}:?[ \t]*\|[-:| \t]*+$", re.MULTILINE)


def records(text: str) -> Iterator[str] | None:
    """Return lines about the records of a text, how many and of whom; None if its form is not known."""
    lines = text.count("\n") + 1
    messages = list(islice(_MESSAGE.finditer(text), _COUNTED))
    names = Counter(found["who"] or found["name"] for found in messages)
    if len(messages) >= _FEWEST and len(messages) * 4 >= lines and len(names) * 3 <= len(messages):
        times = [found["time"] or found["at"] for found in messages]
        return iter([f"{len(messages):,} messages, {times[0]} to {times[-1]}: {_counted(names)}"])
    commits = list(islice(_COMMIT.finditer(text), _COUNTED))
    if len(commits) >= _FEWEST:
        times = [found["time"].strip() for found in commits]
        people = _counted(Counter(found["who"] for found in commits))
        return iter([f"{len(commits):,} commits, {times[0]} to {times[-1]}: {people}", *_titles(commits)])
    short = list(islice(_ONE_LINE_COMMIT.finditer(text), _COUNTED))
    if len(short) >= _FEWEST and len(short) * 10 >= lines * 9:
        return iter([f"{len(short):,} commits; the last: {short[-1][0]}"])
    return _articles(text)


def markdown_tables(text: str) -> list[tuple[int, str]]:
    """Return for each table of a Markdown text its offset, and its rows and columns in words."""
    found = []
    for rule in islice(_RULE.finditer(text), _LISTED):
        start = text.rfind("\n", 0, max(0, rule.start() - 1)) + 1
        end = text.find("\n\n", rule.end())
        rows = text.count("\n", rule.end(), len(text.rstrip()) if end < 0 else end)
        names = [name.strip() for name in text[start : rule.start()].split("|")]
        found.append((start, f"table of {rows:,} rows: {', '.join(filter(None, names))}"))
    return found


def _articles(text: str) -> Iterator[str] | None:
    for pattern in (_ARTICLE, _NUMBERED):
        found = list(islice(pattern.finditer(text), _COUNTED))
        if len(found) >= _FEWEST:
            return _headings(found)
    return None


def _headings(found: Sequence[re.Match[str]]) -> Iterator[str]:
    """Yield the headings: a few with their offsets, of many the first and the last and then the names."""
    said = [_heading(one) for one in found]
    if len(found) <= _HEADINGS:
        yield from (f"offset {one.start()}: {heading}" for one, heading in zip(found, said, strict=True))
        return
    yield f"{len(found):,} parts, {said[0]} to {said[-1]}:"
    units = [_unit(one["heading"]) for one in found]
    # The chapters of many articles.
    rarest, count = Counter(units).most_common()[-1]
    if 1 < count < len(found):
        said = [heading for heading, unit in zip(said, units, strict=True) if unit == rarest]
    yield from (", ".join(said[at : at + _OF_A_LINE]) for at in range(0, min(len(said), _LISTED), _OF_A_LINE))


def _unit(heading: str) -> str:
    """Return the kind of a part: `article`, `条`."""
    numbered = _ZH_PART.match(heading)
    return numbered[1] if numbered else heading.strip(" #*").partition(" ")[0].casefold()


def _heading(found: re.Match[str]) -> str:
    """Return a heading of one line, or of a number and the line after it."""
    heading = found["heading"].strip(" #*")
    if heading[0] == "第":
        return heading[:_LONG_ZH]
    if not found["rest"].strip(" .:*—–-") and found["next"]:
        heading = f"{heading} {found['next'].strip()}"
    return heading if len(heading) <= _LONG else f"{heading[:_LONG]}…"


def blocks(text: str) -> Iterator[str] | None:
    """Return lines about blocks that have the same fields each, such as `Title: …` and `URL: …`."""
    fields = list(islice(_FIELD.finditer(text), _COUNTED))
    if len(fields) < _FEWEST:
        return None
    values: dict[str, list[str]] = {}
    for found in fields:
        values.setdefault(found["name"], []).append(found["value"].strip())
    count = len(values[fields[0]["name"]])
    names = [name for name, said in values.items() if count * 4 <= len(said) * 5 <= count * 6]
    if count < _FEWEST or len(names) < 2:
        return None
    return _block_lines(count, {name: values[name] for name in names})


def _block_lines(count: int, values: dict[str, list[str]]) -> Iterator[str]:
    yield f"{count:,} records {{{', '.join(values)}}}"
    counts = {name: Counter(value[:_LONG] for value in said) for name, said in values.items()}
    for name, said in sorted(values.items(), key=lambda field: len(counts[field[0]]) > _FEW):
        few = len(counts[name]) <= _FEW
        yield f"{name}: {_counted(counts[name]) if few else f'{said[0][:_LONG]} to {said[-1][:_LONG]}'}"


def _titles(found: Sequence[re.Match[str]]) -> Iterator[str]:
    yield from (f"offset {one.start()}: {one['title'].strip()}" for one in found[:_HEADINGS])


def _counted(counts: Counter[str]) -> str:
    more = f" and {len(counts) - _FEW:,} more" if len(counts) > _FEW else ""
    return ", ".join(f"{times:,} {name or 'empty'}" for name, times in counts.most_common(_FEW)) + more
