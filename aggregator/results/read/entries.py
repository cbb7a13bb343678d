"""Outline texts that are many entries of a known form: subtitles, calendars and contacts, bibliographies, folders drawn
as a tree, tracebacks.

Law: the first entry, near the beginning, decides which form a text has. The cost is linear in the text.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

# Characters in which the first entry stands, and fewer entries than this are no list.
_NEAR: Final = 4_000
_FEWEST: Final = 5
# Places, names and values that are shown.
_PLACES: Final = 6
_NAMES: Final = 8
_VALUE: Final = 60
_TOP: Final = 40
_COUNTED: Final = 5_000

_TIME: Final = r"(?:\d{1,3}:)?\d\d:\d\d[.,]\d{3}"
_CUE: Final = re.compile(rf"^({_TIME}) --> ({_TIME})[^\n]*+\n([^\n]*+)", re.MULTILINE)
_SPEAKER: Final = re.compile(r"<v(?:\.[\w.]{1,40})? ([^<>\n]{1,40})>")
_BEGINS: Final = re.compile(r"^BEGIN:([A-Z-]{1,20})[ \r]*$", re.MULTILINE)
_PROPERTY: Final = re.compile(r"^([A-Z][A-Z-]{1,30})(?:;[^:\n]{0,200})?:([^\n]*+)", re.MULTILINE)
_FRAME: Final = frozenset({"BEGIN", "END", "VERSION", "PRODID"})
_REFERENCE: Final = re.compile(r"^[ \t]{0,8}@(\w{1,30})\{[ \t]{0,8}([^,\s{}]{1,80}),", re.MULTILINE)
_BRANCH: Final = re.compile(r"^([│| \u00a0]{0,240})(?:├──|└──|\|--|`--|\+--) ([^\n]*+)", re.MULTILINE)
_TRACEBACK: Final = re.compile(r"^[ \t]{0,20}Traceback \(most recent call last\):", re.MULTILINE)
_RAISED: Final = re.compile(
    r"^[ \t]{0,20}([A-Za-z_][\w.]{0,80}(?:Error|Exception|Warning|Exit|Interrupt)(?::[^\n]*+)?)$", re.MULTILINE
)


def entries(text: str) -> list[str] | None:
    """Return lines about the entries of a text; None if it has none of these forms."""
    for form in (_cues, _components, _references, _tree, _tracebacks):
        if (lines := form(text)) is not None:
            return lines
    return None


def _found(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the entries of a form; empty if the text has too few, or does not begin with one."""
    if pattern.search(text, 0, _NEAR) is None:
        return []
    found = list(pattern.finditer(text))
    return found if len(found) >= _FEWEST else []


def _cues(text: str) -> list[str] | None:
    cues = _found(_CUE, text)
    if not cues:
        return None
    lines = [f"{len(cues):,} cues, {cues[0][1]} to {cues[-1][2]}"]
    speakers = Counter(found[1] for found in _SPEAKER.finditer(text))
    if speakers:
        lines.append(_counts(speakers))
    return lines + _places(cues, lambda cue: f"{cue[1]} {cue[3]}")


def _components(text: str) -> list[str] | None:
    begun = _found(_BEGINS, text) if text.lstrip("\ufeff \n").startswith("BEGIN:") else []
    if not begun:
        return None
    names: Counter[str] = Counter()
    ends: dict[str, list[str]] = {}
    for found in _PROPERTY.finditer(text):
        name, value = found[1], found[2].strip()[:_VALUE]
        if name not in _FRAME:
            names[name] += 1
            least, most = ends.setdefault(name, [value, value])
            ends[name] = [min(least, value), max(most, value)]
    shown = [name for name, _ in names.most_common(_NAMES)]
    lines = [f"{_counts(Counter(found[1] for found in begun))} {{{', '.join(shown)}}}"]
    return lines + [f"{name}: {ends[name][0]} to {ends[name][1]}" for name in shown if ends[name][0] != ends[name][1]]


def _references(text: str) -> list[str] | None:
    found = _found(_REFERENCE, text)
    if not found:
        return None
    lines = [f"{len(found):,} entries: {_counts(Counter(one[1].lower() for one in found))}"]
    return lines + _places(found, lambda one: one[2])


def _tree(text: str) -> list[str] | None:
    branches = _found(_BRANCH, text)
    if not branches:
        return None
    top: list[tuple[re.Match[str], int]] = []
    for branch in branches:
        if not branch[1] or not top:
            top.append((branch, 0))
        else:
            top[-1] = (top[-1][0], top[-1][1] + 1)
    said = [f"{one[2].strip()[:_VALUE]}{f' ({below:,})' if below else ''}" for one, below in top[:_TOP]]
    return [f"{len(branches):,} entries, {len(top):,} at the top, with the count below each:", *_by_lines(said)]


def _tracebacks(text: str) -> list[str] | None:
    if not _found(_TRACEBACK, text):
        return None
    raised: Counter[str] = Counter()
    first: dict[str, int] = {}
    for found in _RAISED.finditer(text):
        said = found[1][:_VALUE]
        if said in first or len(first) < _COUNTED:
            raised[said] += 1
            first.setdefault(said, found.start())
    if not raised:
        return None
    lines = [f"{sum(raised.values()):,} errors in tracebacks, {len(raised):,} different:"]
    lines += [f"{count:,} {said}, the first at offset {first[said]}" for said, count in raised.most_common(_PLACES)]
    return [*lines, f"The last line: {text.rstrip().rpartition(chr(10))[2]}"]


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counter.most_common(_NAMES))


def _places(found: Sequence[re.Match[str]], said: Callable[[re.Match[str]], str]) -> list[str]:
    """Return lines about a few entries at even distances, with their offsets, the last one included."""
    at = sorted({number * (len(found) - 1) // (_PLACES - 1) for number in range(_PLACES)})
    return [f"offset {found[number].start()}: {said(found[number])[:_VALUE]}" for number in at]


def _by_lines(names: Sequence[str]) -> list[str]:
    return [", ".join(names[at : at + _NAMES]) for at in range(0, len(names), _NAMES)]
