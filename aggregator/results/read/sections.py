"""The parts of a large text, each with the offset at which it begins: files of a diff, sections of settings,
definitions of a program, documents and names of YAML, folders, elements of XML and of a page.

Law: the form of its lines tells the kind of a text, in one pass over the text.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aggregator.results.read.records import blocks

# The first lines say what kind of text it is.
_LOOKED_AT: Final = 8_000
_LINES: Final = 40
# Parts that are listed, and names that are counted.
_LISTED: Final = 60
_COUNTED: Final = 10_000
_NAMES: Final = 12
_OF_A_LINE: Final = 5
_LONG: Final = 60

_DIFF: Final = re.compile(r"^(?:diff --git |--- |\+\+\+ |Index: )", re.MULTILINE)
_HUNK: Final = re.compile(r"^@@ -", re.MULTILINE)
_CHANGED: Final = re.compile(
    r"^(?:(?P<git>diff --git \S+ (?:b/)?(?P<path>.+))|--- .+\n\+\+\+ (?:b/)?(?P<file>[^\t\n]+).*+"
    r"|(?P<sign>[+-])(?!\+\+ |-- ))",
    re.MULTILINE,
)
_SETTINGS: Final = re.compile(r"^\[{1,2}[^\[\]\n]{1,80}\]{1,2}[ \t]*$", re.MULTILINE)
_SETTING: Final = re.compile(r"^[\w.\"' -]{1,80}[=:]", re.MULTILINE)
# At the beginning of a line, with a name, and with what goes on behind it.
_DEFINITION: Final = re.compile(
    r"^(?:[a-z]+(?:\([a-z]+\))?[ \t]+){0,4}"
    r"(?:class|def|function\*?|func|fn|struct|interface|impl|trait|enum|module|namespace|type|object|record)\b"
    r"[ \t]+[\w(<&*].*[{:(,;)=]$",
    re.MULTILINE,
)
_CREATED: Final = re.compile(r"^CREATE [A-Z].*+", re.MULTILINE)
_FOLDER: Final = re.compile(r"(?:\A|(?<=\n\n))[^\s:][^\n]{0,200}:$", re.MULTILINE)
_YAML_NAME: Final = re.compile(r"^(?P<name>[A-Za-z_][\w./-]{0,60}):(?:[ \t]+(?P<value>[^\s#|>&].*))?$", re.MULTILINE)
_YAML_LINE: Final = re.compile(r"(?:[A-Za-z_][\w./-]{0,60}:(?:\s|$)|---|#|\s|-\s|$)")
_YAML_INNER: Final = re.compile(r"\s*+(?:- |(?:- )?[\w./\"'-]{1,60}:(?:\s|$))")
_YAML_DOCUMENT: Final = re.compile(r"^---(?:[ \t].*)?\n", re.MULTILINE)
# A page as screen readers and browser tools describe it: `- button "Send" [ref=e12]`.
_ROLE: Final = re.compile(r"^\s*+- '?(\w+)\b.*\[ref=.*+", re.MULTILINE)
_XML: Final = re.compile(r"\ufeff?\s*+(?:<\?xml\b|<[A-Za-z_][\w.-]*(?::[\w.-]+)?(?:\s[^<>]*)?/?>)")
_ELEMENT: Final = re.compile(r"<([A-Za-z_][\w.:-]*+)[^<>]*+>(?:([^<>\n]{1,60})</)?")
_TABLE: Final = re.compile(r"<(?:(table)|(tr)|t[hd])\b[^<>]*+>([^<>]{0,60})", re.IGNORECASE)


def sections(text: str) -> Iterator[str] | None:
    """Return lines about the parts of a text, the one that says most first; None if its form is not known."""
    beginning = text[:_LOOKED_AT]
    if _DIFF.match(beginning) and _HUNK.search(beginning):
        return _files(text)
    if len(_ROLE.findall(beginning)) > _LINES // 2:
        return _roles(text)
    if _XML.match(text):
        return _elements(text)
    lines = beginning.split("\n")[:_LINES]
    if len(_SETTINGS.findall(text, 0, _LOOKED_AT)) and len(_SETTING.findall(beginning)) * 2 > len(lines):
        return _beginnings(_SETTINGS, text)
    for pattern in (_DEFINITION, _CREATED, _FOLDER):
        if sum(1 for _ in islice(pattern.finditer(text), 3)) > 2:
            return _beginnings(pattern, text)
    return None


def yaml(text: str) -> Iterator[str] | None:
    """Return lines about the documents of YAML, or about the outer names of the only one; None if a text is none."""
    lines = text[:_LOOKED_AT].split("\n")[:_LINES]
    inner = sum(_YAML_INNER.match(line) is not None or line.startswith(("#", "---")) or not line for line in lines)
    if not all(map(_YAML_LINE.match, lines)) or inner * 4 < len(lines) * 3:
        return None
    if len(list(islice(_YAML_NAME.finditer(text), 2))) < 2:
        return None
    if len(list(islice(_YAML_DOCUMENT.finditer(text), 2))) > 1:
        return _documents(text)
    return blocks(text) or _beginnings(_YAML_NAME, text)


def tables(text: str) -> Iterator[str]:
    """Yield a line for each table of a page: its rows, and the first of them."""
    start, rows, cells = -1, 0, list[str]()
    for tag in islice(_TABLE.finditer(text), _COUNTED * _NAMES):
        if tag[1]:
            if rows > 1:
                yield f"offset {start}: table of {rows:,} rows: {', '.join(cells)}"
            start, rows, cells = tag.start(), 0, []
        elif tag[2]:
            rows += 1
        elif rows == 1 and len(cells) < _NAMES and tag[3].strip():
            cells.append(tag[3].strip())
    if rows > 1 and start >= 0:
        yield f"offset {start}: table of {rows:,} rows: {', '.join(cells)}"


def _beginnings(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the first line of each part: of many without the offsets, which `grep` finds."""
    found = list(islice(pattern.finditer(text), _COUNTED))
    if len(found) <= _NAMES:
        yield from (f"offset {part.start()}: {part[0].strip()}" for part in found)
        return
    yield f"{len(found):,} parts:"
    names = [part[0].strip()[:_LONG] for part in found[:_LISTED]]
    yield from (", ".join(names[at : at + _OF_A_LINE]) for at in range(0, len(names), _OF_A_LINE))


def _files(text: str) -> Iterator[str]:
    """Yield a line for each file of a diff, with the lines that it gains and loses."""
    files: list[tuple[int, str]] = []
    changed: list[Counter[str]] = []
    for line in _CHANGED.finditer(text):
        if line["sign"]:
            if changed:
                changed[-1][line["sign"]] += 1
        elif line["git"] or not (files and _HUNK.search(text, files[-1][0], line.start()) is None):
            files.append((line.start(), line["path"] or line["file"]))
            changed.append(Counter())
    total = sum(changed, Counter[str]())
    yield f"{len(files):,} files changed, +{total['+']:,} -{total['-']:,}"
    for (start, path), lines in zip(files, changed, strict=True):
        yield f"offset {start}: {path} +{lines['+']:,} -{lines['-']:,}"


def _roles(text: str) -> Iterator[str]:
    """Yield the count of each role, then of each rare one the lines."""
    found = list(islice(_ROLE.finditer(text), _COUNTED))
    counts = Counter(line[1] for line in found)
    yield f"Elements: {_counted(counts)}"
    for line in sorted(found, key=lambda line: (counts[line[1]], line.start()))[:_LISTED]:
        if counts[line[1]] <= _NAMES:
            yield f"offset {line.start()}: {line[0].strip()}"


def _elements(text: str) -> Iterator[str]:
    """Yield the count of each element, and the text of those that stand alone."""
    found = list(islice(_ELEMENT.finditer(text), _COUNTED * _NAMES))
    counts = Counter(element[1] for element in found)
    yield f"Elements: {_counted(counts)}"
    for element in found:
        if counts[element[1]] == 1 and (element[2] or "").strip():
            yield f"offset {element.start()}: {element[1]}: {element[2].strip()}"


def _counted(counts: Counter[str]) -> str:
    more = f" and {len(counts) - _NAMES:,} more" if len(counts) > _NAMES else ""
    return ", ".join(f"{count:,} {name[:_LONG]}" for name, count in counts.most_common(_NAMES)) + more


def _documents(text: str) -> Iterator[str]:
    """Yield what the documents of YAML differ in, with the offset of the first of each."""
    starts = [line.end() for line in islice(_YAML_DOCUMENT.finditer(text), _COUNTED)]
    if text[: starts[0]].count("\n") > 1:
        starts.insert(0, 0)
    members = [
        {name["name"]: name["value"] for name in _YAML_NAME.finditer(text, start, end) if name["value"]}
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
    ]
    yield f"{len(starts):,} documents"
    # The member that most have, with the fewest values: `kind`, `type`.
    values: dict[str, set[str]] = {}
    for member in members:
        for name, value in member.items():
            values.setdefault(name, set()).add(value)
    telling = min((name for name in values if len(values[name]) > 1), key=lambda name: len(values[name]), default="")
    kinds = Counter(member.get(telling, "") for member in members)
    seen = set[str]()
    for start, member in zip(starts, members, strict=True):
        kind = member.get(telling, "")
        if kind not in seen or not telling:
            seen.add(kind)
            said = f"{telling}: {kind}" if kind else ", ".join(f"{name}: {value}" for name, value in member.items())
            yield f"offset {start}: {said}{f', {kinds[kind]:,} times' if kinds[kind] > 1 and telling else ''}"
