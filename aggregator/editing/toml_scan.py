"""The statements of a TOML text with their offsets: headers of tables, and pairs of a key and a value.

Law: the text has been parsed before; time is linear in its length.
"""

import re
import tomllib
from dataclasses import dataclass
from typing import Final

from aggregator.editing.brackets import Bracketed, Member
from aggregator.editing.document import Path

_TEXT: Final = r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:[^"\\\n]|\\.)*+"|' + r"'[^'\n]*'"
_NOTHING: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_KEY: Final = re.compile(r'[ \t]*("(?:[^"\\\n]|\\.)*+"|' + r"'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*(\.?)")
_VALUE: Final = re.compile(rf"(?s){_TEXT}|[^,\]}}#\n\r\[{{]+")
_NESTED: Final = re.compile(rf"(?s){_TEXT}|#[^\n]*|[\[\]{{}}]")
_PIECE: Final = re.compile(rf"(?s)(?P<text>{_TEXT})|(?P<comment>#[^\n]*)|[\[\]{{}},=.]|[^\s,\]}}#\[{{=.]+")
# The key of a member that is no single key, so that no path leads to it.
_DOTTED: Final = "\n"


@dataclass(frozen=True, slots=True)
class TomlStatement:
    """A header or a pair; `path` is that of its table or value, `table` that of the table it stands in.

    `keys` has the span of each key that it spells, by the index of the key in the path. `value` is None for a header.
    The line is from `line` to `line_end`, its line break included.
    """

    path: Path
    table: Path
    keys: dict[int, tuple[int, int]]
    value: tuple[int, int] | None
    line: int
    start: int
    end: int
    line_end: int

    def is_in(self, path: Path) -> bool:
        """Return whether this is the value at a path, or a part of it."""
        return self.path[: len(path)] == path


def statements(text: str) -> list[TomlStatement]:
    """Return the statements of a text in their order."""
    found: list[TomlStatement] = []
    lists: dict[Path, int] = {}
    table: Path = ()
    at = 0
    while (at := _after(_NOTHING, text, at)) < len(text):
        start = at
        brackets = len(text[at : at + 2]) - len(text[at : at + 2].lstrip("["))
        parts, at = _keys(text, at + brackets)
        if brackets:
            path, keys = _table(parts, lists, is_list=brackets == 2)
            table, value, at = path, None, text.index("]" * brackets, at) + brackets
        else:
            path = (*table, *(key for key, _ in parts))
            keys = {len(table) + number: span for number, (_, span) in enumerate(parts)}
            begin = _after_blanks(text, text.index("=", at) + 1)
            at = _value_end(text, begin)
            value = (begin, at)
        line_end = text.find("\n", at) + 1 or len(text)
        line = text.rfind("\n", 0, start) + 1
        found.append(TomlStatement(path, table, keys, value, line, start, at, line_end))
        at = line_end
    return found


def scan_inline(text: str, start: int) -> Bracketed:
    """Return the array or the inline table that begins at an offset."""
    members: list[Member] = []
    is_list, at = text[start] == "[", start + 1
    keys: list[tuple[str, int, int]] = []
    value: tuple[int, int] | None = None
    while True:
        found = _PIECE.search(text, at)
        assert found is not None, "the text was parsed"
        at, piece = found.end(), found[0]
        if found.lastgroup == "comment" or piece in ("=", "."):
            continue
        if piece in (",", "}", "]"):
            if value is not None:
                named: tuple[str | int, int, int] = (len(members), value[0], value[0])
                if not is_list:
                    named = keys[0] if len(keys) == 1 else (_DOTTED, keys[0][1], keys[-1][2])
                members.append(Member(*named, *value, found.start() if piece == "," else None))
            keys, value = [], None
            if piece != ",":
                return Bracketed(start, at, is_list, tuple(members))
        elif is_list or (keys and text[_after_blanks(text, keys[-1][2])] == "="):
            at = _value_end(text, found.start())
            value = (found.start(), at)
        else:
            keys.append((key_of(piece), found.start(), at))


def key_of(written: str) -> str:
    """Return the key that is written with or without quotes."""
    if written[0] not in "\"'":
        return written
    decoded: str = tomllib.loads(f"k={written}")["k"]
    return decoded


def _keys(text: str, at: int) -> tuple[list[tuple[str, tuple[int, int]]], int]:
    parts: list[tuple[str, tuple[int, int]]] = []
    while True:
        found = _KEY.match(text, at)
        assert found is not None, "the text was parsed"
        parts.append((key_of(found[1]), found.span(1)))
        at = found.end()
        if not found[2]:
            return parts, at


def _table(
    parts: list[tuple[str, tuple[int, int]]], lists: dict[Path, int], *, is_list: bool
) -> tuple[Path, dict[int, tuple[int, int]]]:
    path: Path = ()
    keys = {}
    for number, (key, span) in enumerate(parts, 1):
        keys[len(path)] = span
        path = (*path, key)
        if is_list and number == len(parts):
            lists[path] = lists.get(path, -1) + 1
        if path in lists:
            path = (*path, lists[path])
    return path, keys


def _value_end(text: str, start: int) -> int:
    if text[start] in "[{":
        return _closed(text, start + 1)
    found = _VALUE.match(text, start)
    assert found is not None, "the text was parsed"
    return start + len(found[0].rstrip())


def _closed(text: str, at: int) -> int:
    """Return the offset after the bracket that closes the one before an offset."""
    depth = 1
    for found in _NESTED.finditer(text, at):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    raise AssertionError("the text was parsed")


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at
