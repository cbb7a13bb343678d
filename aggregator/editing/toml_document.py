"""TOML edited by replacing pieces of its text."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.text.error_text import error_text
from aggregator.editing.brackets import Bracketed, Piece, insertion, removal
from aggregator.editing.document import Path
from aggregator.editing.errors import EditError
from aggregator.editing.plain import has, nested
from aggregator.editing.text_document import TextDocument
from aggregator.editing.toml_scan import TomlStatement, scan_inline, statements

_LONGEST_BLANK: Final = 200
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TomlStyle:
    """The spacing of TOML in brackets."""

    newline: str = "\n"
    unit: str = "  "
    colon: str = " = "
    comma: str = ", "
    several_lines: bool = False
    comment: re.Pattern[str] = re.compile(r"#[^\r\n]*")
    line_comment: str = "#"

    def key(self, key: str) -> str:
        """Return a key as text, in quotes where it needs them."""
        return key if _BARE.fullmatch(key) else _quoted(key)

    def written(self, value: object, indent: str = "", *, one_line: bool = True) -> str:
        """Return a value as text on one line."""
        if isinstance(value, dict):
            pairs = (f"{self.key(key)} = {self.written(item)}" for key, item in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.written, value))}]"
        return _quoted(value) if isinstance(value, str) else json.dumps(value)


class TomlDocument(TextDocument):
    """A TOML text that is edited in place; a new object becomes a table of its own."""

    @property
    def _style(self) -> TomlStyle:
        return TomlStyle("\r\n" if "\r\n" in self._text else "\n")

    def _with(self, path: Path, value: Any) -> str:
        if _has_null(value):
            raise EditError(f"{self._name}: TOML has no null. Leave the value out.")
        found = statements(self._text)
        pair = _pair(found, path)
        if pair is not None:
            return self._spliced(self._in_pair(pair, path, value))
        if any(one.is_in(path) for one in found):
            # Tables and pairs have places of their own, so the one does not stand where the other did.
            return TomlDocument(self._spliced(_cuts(self._text, found, path)), self._name)._with(path, value)
        return self._spliced(self._added(found, path, value))

    def _without(self, path: Path) -> str:
        found = statements(self._text)
        pair = _pair(found, path)
        if pair is None or pair.path == path:
            return self._spliced(_cuts(self._text, found, path))
        container = self._inline(pair, path)
        return self._spliced(removal(self._text, container, _index(container.find(path[-1])), self._style))

    def _renamed(self, path: Path, key: str) -> str:
        found = statements(self._text)
        written = self._style.key(key)
        pair = _pair(found, path)
        if pair is not None and pair.path != path:
            container = self._inline(pair, path)
            member = container.members[_index(container.find(path[-1]))]
            return self._spliced([(member.start, member.key_end, written)])
        spans = (one.keys.get(len(path) - 1) for one in found if one.is_in(path))
        return self._spliced([(*span, written) for span in spans if span is not None])

    def _offset(self, path: Path) -> int:
        found = statements(self._text)
        pair = _pair(found, path)
        inside = (one.start for one in found if one.is_in(path))
        return pair.start if pair is not None else next(inside, 0)

    def _inline(self, pair: TomlStatement, path: Path) -> Bracketed:
        """Return the container, inside the value of a pair, of the value at a path."""
        assert pair.value is not None, "it is a pair"
        container = scan_inline(self._text, pair.value[0])
        for step in path[len(pair.path) : -1]:
            container = scan_inline(self._text, container.members[_index(container.find(step))].value)
        return container

    def _in_pair(self, pair: TomlStatement, path: Path, value: object) -> list[Piece]:
        """Return the pieces that set a value that is that of a pair, or inside it."""
        assert pair.value is not None, "it is a pair"
        start, end = pair.value
        for depth in range(len(pair.path), len(path)):
            container = scan_inline(self._text, start)
            at = container.find(path[depth])
            if at is None:
                return insertion(self._text, container, path[depth], nested(path[depth + 1 :], value), self._style)
            start, end = container.members[at].value, container.members[at].end
        return [(start, end, self._style.written(value))]

    def _added(self, found: list[TomlStatement], path: Path, value: object) -> list[Piece]:
        """Return the pieces that add a value where nothing is yet."""
        depth = next(depth for depth in range(len(path) - 1, -1, -1) if not depth or has(self._root, path[:depth]))
        parent, key, value = path[:depth], path[depth], nested(path[depth + 1 :], value)
        inside = [one for one in found if one.is_in(parent)]
        dotted = [one for one in inside if one.value is not None and len(one.table) < depth]
        if isinstance(key, str) and dotted:
            keys = (*(step for step in parent[len(dotted[-1].table) :]), key)
            return [self._line_after(dotted[-1], f"{self._dotted(keys)} = {self._style.written(value)}")]
        if isinstance(value, dict) or isinstance(key, int):
            if not isinstance(value, dict):
                raise EditError(f"{self._name}: a list of tables takes tables only. Edit it by hand.")
            return [self._section_after(inside if depth else found, self._section((*parent, key), value))]
        line = f"{self._style.key(key)} = {self._style.written(value)}"
        body = [one for one in found if one.table == parent and (one.value is not None or one.path == parent)]
        if body:
            return [self._line_after(body[-1], line)]
        if depth:
            return [self._section_after(inside, self._style.newline.join((f"[{self._dotted(parent)}]", line)))]
        return [(0, 0, line + self._style.newline * (2 if found else 1))]

    def _dotted(self, path: Path) -> str:
        return ".".join(self._style.key(step) for step in path if isinstance(step, str))

    def _section(self, path: Path, value: Mapping[str, Any]) -> str:
        name = self._dotted(path)
        lines = [f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]"]
        tables = [(key, item) for key, item in value.items() if isinstance(item, dict) and item]
        for key, item in value.items():
            if not (isinstance(item, dict) and item):
                lines.append(f"{self._style.key(key)} = {self._style.written(item)}")
        # The headers of the tables in it say enough.
        needed = len(lines) > 1 or not tables or isinstance(path[-1], int)
        parts = [self._style.newline.join(lines)] if needed else []
        parts += (self._section((*path, key), item) for key, item in tables)
        return (self._style.newline * 2).join(parts)

    def _line_after(self, before: TomlStatement, line: str) -> Piece:
        at, newline = before.line_end, self._style.newline
        if self._text[at - 1] == "\n":
            return at, at, line + newline
        return at, at, newline + line

    def _section_after(self, inside: list[TomlStatement], section: str) -> Piece:
        """Return the piece that puts a section after others, with a blank line before it."""
        text, newline = self._text, self._style.newline
        if not inside:
            at = len(text.rstrip(" \t\r\n"))
            if not at:
                return at, len(text), section + newline
            at = text.find("\n", at) + 1 or len(text)
        else:
            at = _after_comments(text, inside[-1].line_end)
        if text[at - 1] == "\n":
            return at, at, newline + section + newline
        return at, at, newline * 2 + section

    def _holds(self, root: dict[str, Any], expected: dict[str, Any]) -> bool:
        return _without_empty(root) == _without_empty(expected)

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except RecursionError:
            raise EditError(f"{self._name} is nested too deeply to be edited.") from None
        except ValueError as error:
            raise EditError(f"{self._name}: this is not TOML ({error_text(error)}). Correct it there.") from None


def _pair(found: list[TomlStatement], path: Path) -> TomlStatement | None:
    """Return the pair whose value is at a path, or has it inside."""
    return next((one for one in found if one.value is not None and one.path == path[: len(one.path)]), None)


def _index(found: int | None) -> int:
    if found is None:
        raise EditError("A key with dots in an inline table cannot be edited safely. Edit it by hand.")
    return found


def _cuts(text: str, found: list[TomlStatement], path: Path) -> Iterable[Piece]:
    """Yield the pieces that take out every statement that is a part of the value at a path."""
    run: list[TomlStatement] = []
    for one in (*found, None):
        if one is not None and one.is_in(path) and (one.value is None or run):
            run.append(one)
            continue
        if run:
            yield _cut(text, run[0].line, run[-1].line_end)
            run = []
        if one is not None and one.is_in(path):
            comment = text.find("#", one.end, one.line_end)
            yield (one.start, comment, "") if comment >= 0 else _cut(text, one.line, one.line_end, blank=one.line == 0)


def _cut(text: str, start: int, end: int, *, blank: bool = True) -> Piece:
    """Return the piece from line to line, with the blank line before it, or the line break before a last line."""
    before = text[max(start - _LONGEST_BLANK, 0) : start]
    if blank:
        above = re.search(r"(?<=\n)[ \t]*\r?\n\Z", before)
        if above is not None:
            start -= len(above[0])
        elif not start and (below := re.compile(r"[ \t]*\r?\n").match(text, end)):
            end = below.end()
    if end == len(text) and not text.endswith("\n") and start:
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
    return start, end, ""


def _after_comments(text: str, at: int) -> int:
    """Return the offset after the comment lines that follow a line, unless they stand above a table."""
    found = re.compile(r"(?:[ \t]*#[^\n]*(?:\n|\Z))*").match(text, at)
    end = found.end() if found else at
    return end if end == len(text) or re.compile(r"[ \t]*\r?\n").match(text, end) else at


def _without_empty(value: object) -> object:
    """Return a value without empty tables: a table without a header ends with the last one in it."""
    if isinstance(value, dict):
        parts = ((key, _without_empty(item)) for key, item in value.items())
        return {key: item for key, item in parts if item != {}}
    return value


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
