"""The preview of an edit: a unified diff without secrets.

Law: a file of another program is full of its user's secrets, so every line is shown without them, whether it changes
or not. Of variables and headers every value is hidden, also under a name that says nothing.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path
from typing import Final

from aggregator.cli.runtime.tables import one_line
from aggregator.config.servers.secrets import secrets_in, secrets_in_address
from aggregator.domain.shell import split_line
from aggregator.redaction.field_names import NameVerdict, SecretNames, is_opaque, is_secret
from aggregator.redaction.redactor import REDACTED, SHORTEST, Redactor

# Objects of which every value is hidden, in the spelling of any host, folded.
_PRIVATE: Final = frozenset(
    {"env", "envs", "environment", "headers", "httpheaders", "requestinit", "oauth", "auth", "secrets", "credentials"}
)
# A text without a telling name counts as a key from this length on.
_LONG: Final = 16
_DIGITS: Final = 3
_DEEPEST: Final = 100
_WIDEST: Final = 300
_CONTEXT: Final = 2
_ELLIPSIS: Final = "…"
# Characters of a long line shown before the difference, and redacted in the shown part.
_LEAD: Final = 40
_LONGEST: Final = 4000
_PIECE: Final = 200
_SHORTEST_PART: Final = 3
_HUNK: Final = re.compile(r"([-+])(\d+)", re.ASCII)
# A text of JSON with letters written as numbers, which programs do for signs alone.
_WITH_NUMBERS: Final = re.compile(r'"((?:[^"\\]|\\.)*\\u00[2-7][0-9a-fA-F](?:[^"\\]|\\.)*)"')
_NAMES: Final = SecretNames()
_NOT_IN_KEYS: Final = re.compile(r"[/\s@]")


@dataclass(frozen=True, slots=True)
class Preview:
    """The diff of one file for display, with line breaks at line ends; `hidden`: whether a value was hidden in it."""

    diff: str
    hidden: bool


@dataclass(frozen=True, slots=True)
class HiddenValues:
    """The values to hide: `texts` wherever they stand, and short ones only behind the names that they have."""

    texts: frozenset[str]
    named: frozenset[tuple[str, str]]

    def folded(self) -> list[str]:
        """Return the texts that YAML may write on several lines, with single spaces."""
        return [" ".join(text.split()) for text in self.texts if " " in text or "\n" in text]

    def redactor(self, shown: str) -> Redactor:
        """Return a redactor of the values, leaving out those that a text surely does not hold."""
        lines = {line.strip() for text in self.texts for line in (text, *text.splitlines())}
        near = [line for line in lines if line and _head(line) in shown]
        also = [
            re.compile(rf"{re.escape(name)}[\"']?\s*[:=]\s*[\"']?({re.escape(value)})(?!\w)")
            for name, value in self.named
            if name in shown and value in shown
        ]
        # The redactor knows long values by their pieces, which overlap if a value repeats itself.
        whole = {form for line in near if len(line) > _PIECE for form in _forms(line) if form in shown}
        also += [re.compile(re.escape(form)) for form in sorted(whole, key=len, reverse=True)]
        return Redactor(near, also=[*also, *([_WITH_NUMBERS] if "\\u00" in shown else ())])


def hidden_values(*roots: object, own: Iterable[str] = ()) -> HiddenValues:
    """Return the possible secrets in the values of files; `own` are secrets that are known separately."""
    texts: set[str] = set(own)
    named: set[tuple[str, str]] = set()
    for root in roots:
        for name, value in _secrets(root, "", False, 0):
            (texts.add(value) if len(value) >= SHORTEST else named.add((name, value)))
    return HiddenValues(frozenset(filter(None, texts)), frozenset(pair for pair in named if all(pair)))


def preview(path: Path, before: str | None, after: str | None, hidden: HiddenValues) -> Preview:
    """Return the diff of a file; None: it is not there."""
    old, new = _lines(before), _lines(after)
    names = ["/dev/null" if text is None else str(path) for text in (before, after)]
    raw = list(_narrowed(list(_hunks(old, new)), path.suffix == ".json"))
    redact = hidden.redactor("\n".join(raw))
    folded = hidden.folded()
    clean = [line if line.startswith("@@") else line[:1] + redact(_without_parts(line[1:], folded)) for line in raw]
    found = any(line.count(REDACTED) > was.count(REDACTED) for line, was in zip(clean, raw, strict=True))
    shown = [f"--- {one_line(names[0])}", f"+++ {one_line(names[1])}", *map(_plain, clean)]
    return Preview("".join(f"{line}\n" for line in shown), found)


def _without_parts(line: str, folded: Iterable[str]) -> str:
    """Return a line, hidden whole if it is one of several that are folded into one value."""
    words = " ".join(line.split()).strip("\"'")
    if len(words) < _SHORTEST_PART or not any(words in text for text in folded):
        return line
    return f"{line[: len(line) - len(line.lstrip())]}{REDACTED}"


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff without its head; lines that both begin or end with are not compared."""
    same = _same(old, new)
    end = _same(old[same:][::-1], new[same:][::-1])
    start = max(same - _CONTEXT, 0)
    left = max(end - _CONTEXT, 0)
    middle = old[start : len(old) - left], new[start : len(new) - left]
    for line in list(unified_diff(middle[0], middle[1], n=_CONTEXT, lineterm=""))[2:]:
        yield _HUNK.sub(lambda found: f"{found[1]}{int(found[2]) + start}", line) if line.startswith("@@") else line


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """Count the items that two sequences have in common at their beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _lines(text: str | None) -> list[str]:
    lines = re.split(r"\r\n|\r|\n", (text or "").removeprefix("\ufeff"))
    return lines if lines[-1] else lines[:-1]


def _plain(line: str) -> str:
    """Return a line without terminal escapes and, if it is too long, without its end."""
    plain = "".join(c if c.isprintable() or c == "\t" else " " for c in line).rstrip()
    return plain if len(plain) <= _WIDEST else f"{plain[:_WIDEST]}{_ELLIPSIS}"


def _narrowed(lines: list[str], is_json: bool) -> Iterator[str]:
    """Yield the lines of a diff; for long removed and added lines, only the text near their difference."""
    at = 0
    while at < len(lines):
        line, following = lines[at], lines[at + 1] if at + 1 < len(lines) else ""
        pair = is_json and line.startswith("-") and following.startswith("+")
        if pair and max(len(line), len(following)) > _WIDEST:
            same = _same(line[1:], following[1:])
            yield from (long[0] + _cut(long[1:], same) for long in (line, following))
            at += 2
        else:
            yield line[0] + _cut(line[1:], 0)
            at += 1


def _cut(line: str, same: int) -> str:
    """Return a line from shortly before a place on. It is cut at quotes, across which no value of JSON reaches."""
    start = _last_quote(line, same - _LEAD)
    rest = f"{_ELLIPSIS if start else ''}{line[start:]}"
    most = max(same - start, 0) + _LONGEST
    return rest if len(rest) <= most else f"{rest[: _last_quote(rest, most)]}{_ELLIPSIS}"


def _last_quote(text: str, end: int) -> int:
    """Return the index of the last quote before a place that is not escaped; 0 for none."""
    at = end
    while at > 0:
        at = text.rfind('"', 0, at)
        if at <= 0:
            return 0
        before = text[max(at - _LONGEST, 0) : at]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return at
    return 0


def _forms(text: str) -> tuple[str, ...]:
    return text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _head(text: str) -> str:
    """Return the beginning of a text up to what files write in other characters."""
    plain = re.match(r"[\w.:+=@ -]{0,12}", text, re.ASCII)
    return plain[0] if plain else ""


def _secrets(value: object, name: str, private: bool, depth: int) -> Iterator[tuple[str, str]]:
    """Yield possible secrets, each with its key."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        entry = {str(key): item for key, item in value.items()}
        yield from ((name, secret) for secret in secrets_in(entry))
        for key, item in entry.items():
            yield from _secrets(item, key, private or _folded(key) in _PRIVATE, depth + 1)
    elif isinstance(value, list):
        words = [item for item in value if isinstance(item, str)]
        yield from ((name, secret) for secret in secrets_in({"args": words}))
        yield from ((flag, word) for flag, word in pairwise(words) if flag.startswith("-") and _tells(flag))
        for item in value:
            yield from _secrets(item, name, private, depth + 1)
    elif isinstance(value, str):
        if private or is_secret(_NAMES.verdict(name), value) or _is_key(value):
            yield name, value
        yield from ((name, secret) for secret in _in_text(value))
    elif private and isinstance(value, int | float) and not isinstance(value, bool):
        yield name, str(value)


def _in_text(value: str) -> Iterator[str]:
    """Yield the secrets in an address, or in a command line that is written as one text."""
    yield from secrets_in_address(value)
    if " -" in value and len(value) <= 10_000:
        try:
            words = split_line(value)
        except ValueError:
            words = value.split()
        yield from secrets_in({"args": words})


def _tells(flag: str) -> bool:
    return _NAMES.verdict(flag.lstrip("-")) is not NameVerdict.NOTHING


def _is_key(value: str) -> bool:
    digits = sum(map(str.isdigit, value[:200]))
    return len(value) >= _LONG and digits >= _DIGITS and not _NOT_IN_KEYS.search(value) and is_opaque(value)


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
