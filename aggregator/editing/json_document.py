"""JSON with comments, trailing commas and repeated keys, edited by replacing pieces of its text.

New values are indented and spaced like those that the text has.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.text.error_text import error_text
from aggregator.editing.brackets import Bracketed, indentation, insertion, removal, spliced
from aggregator.editing.document import Path
from aggregator.editing.errors import EditError
from aggregator.editing.json_scan import COMMENT, root_start, scan, without_comments
from aggregator.editing.text_document import TextDocument, nested

_BLANK: Final = " \t\r\n"
_WIDTH: Final = 100
_DEEPEST_LOOK: Final = 4
# Half a character: it can be written as an escape only.
_HALF: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """The spacing of one text; `colon` and `comma` are written with the blanks after them."""

    unit: str
    newline: str
    colon: str = ": "
    comma: str = ", "
    several_lines: bool = True
    comment: re.Pattern[str] = COMMENT
    line_comment: str = "//"

    def key(self, key: str) -> str:
        """Return a key as text."""
        return self._line(key)

    def written(self, value: object, indent: str, *, one_line: bool) -> str:
        """Return a value as text; `indent` is that of the line it begins in."""
        if not isinstance(value, dict | list) or not value or one_line:
            return self._line(value)
        inner = indent + self.unit
        if isinstance(value, list):
            line = self._line(value)
            if not any(isinstance(item, dict | list) for item in value) and len(inner) + len(line) <= _WIDTH:
                return line
            rows = [self.written(item, inner, one_line=False) for item in value]
            start, end = "[]"
        else:
            items = value.items()
            rows = [self.key(key) + self.colon + self.written(item, inner, one_line=False) for key, item in items]
            start, end = "{}"
        body = f",{self.newline}".join(inner + row for row in rows)
        return start + self.newline + body + self.newline + indent + end

    def _line(self, value: object) -> str:
        text = json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))
        return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def style_of(text: str, start: int) -> JsonStyle:
    """Return the spacing of a text whose root begins at an offset, as its first lines have it."""
    first = text.find("\n")
    newline = "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
    root = scan(text, start)
    several = "\n" in text[root.start : root.end] or not root.members
    if root.members and text[root.members[0].key_end : root.members[0].value] == ":":
        return JsonStyle(_unit(text, root), newline, ":", ", " if several else ",", several)
    return JsonStyle(_unit(text, root), newline, several_lines=several)


def _unit(text: str, root: Bracketed) -> str:
    """Return the indent of one level: the indent of the first container in which a value begins a line."""
    container = root
    for _ in range(_DEEPEST_LOOK):
        base = indentation(text, container.start)
        for member in container.members:
            line = indentation(text, member.start)
            begins_line = member.start > len(line) and text[member.start - len(line) - 1] == "\n"
            if begins_line and line.startswith(base) and line != base:
                return line[len(base) :]
        inside = [member for member in container.members if text[member.value] in "{["]
        if not inside:
            break
        container = scan(text, inside[0].value)
    return "  "


class JsonDocument(TextDocument):
    """A JSON text that is edited in place; an empty one becomes an object with the first value."""

    def _with(self, path: Path, value: Any) -> str:
        start = root_start(self._text)
        if start is None:
            return self._begun(nested(path, value))
        container, style = scan(self._text, start), style_of(self._text, start)
        for depth, step in enumerate(path):
            at = container.find(step)
            if at is None:
                made = nested(path[depth + 1 :], value)
                return self._spliced(insertion(self._text, container, step, made, style))
            member = container.members[at]
            old = self._text[member.value : member.end]
            if depth + 1 == len(path) or old == "null":
                one_line = old[0] in "{[" and "\n" not in old and len(old) > 2
                indent = indentation(self._text, member.start)
                new = style.written(nested(path[depth + 1 :], value), indent, one_line=one_line)
                return self._spliced([(member.value, member.end, new)])
            container = scan(self._text, member.value)
        raise AssertionError("a path has an end")

    def _without(self, path: Path) -> str:
        text = self._text
        container, style = self._container(path)
        while (at := container.find(path[-1])) is not None:
            text = spliced(text, removal(text, container, at, style))
            if container.is_list:
                break
            # An earlier one with the same key would count now.
            container = scan(text, container.start)
        return text

    def _renamed(self, path: Path, key: str) -> str:
        container, style = self._container(path)
        at = container.find(path[-1])
        assert at is not None, "the value is there"
        member = container.members[at]
        text = self._spliced([(member.start, member.key_end, style.key(key))])
        container = scan(text, container.start)
        while (at := container.find(path[-1])) is not None:
            text = spliced(text, removal(text, container, at, style))
            container = scan(text, container.start)
        return text

    def _offset(self, path: Path) -> int:
        offset = value = root_start(self._text) or 0
        for step in path:
            if self._text[value : value + 1] not in ("{", "["):
                break
            container = scan(self._text, value)
            at = container.find(step)
            if at is None:
                break
            offset, value = container.members[at].start, container.members[at].value
        return offset

    def _container(self, path: Path) -> tuple[Bracketed, JsonStyle]:
        """Return the container of the value at a path that is there, and the style of the text."""
        start = root_start(self._text)
        assert start is not None, "the value is there"
        container, style = scan(self._text, start), style_of(self._text, start)
        for step in path[:-1]:
            at = container.find(step)
            assert at is not None, "the value is there"
            container = scan(self._text, container.members[at].value)
        return container, style

    def _begun(self, value: Any) -> str:
        """Return a text with its first value; it had none, but may have comments."""
        newline = "\r\n" if "\r\n" in self._text else "\n"
        before = self._text if self._text.strip(_BLANK) else ""
        if before and not before.endswith("\n"):
            before += newline
        return before + JsonStyle("  ", newline).written(value, "", one_line=False) + newline

    @property
    def every_value(self) -> object:
        bare = without_comments(self._text)
        return json.loads(bare, object_pairs_hook=_with_every) if bare.strip() else {}

    def _parsed(self, text: str) -> dict[str, Any]:
        for number, line in enumerate(text.split("\n"), 1) if "\r" in text else ():
            if "\r" in line.removesuffix("\r") and "//" in line:
                where = f"{self._name}, line {number}"
                raise EditError(f"{where}: a comment holds a carriage return without a line feed. Take it out.")
        bare = without_comments(text)
        try:
            root: object = json.loads(bare, parse_constant=_refuse_constant, parse_int=_whole) if bare.strip() else {}
        except json.JSONDecodeError as error:
            where = f"{self._name}, line {error.lineno}, column {error.colno}"
            raise EditError(f"{where}: this is not JSON ({error.msg}). Correct it there.") from None
        except RecursionError:
            raise EditError(f"{self._name} is nested too deeply to be edited.") from None
        except ValueError as error:
            raise EditError(f"{self._name} holds a number that cannot be used: {error_text(error)}.") from None
        if not isinstance(root, dict):
            raise EditError(f"{self._name}: expected an object at the root, in {{ }}.")
        return root


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _whole(digits: str) -> int | float:
    """Return a whole number; one too long to be read exactly is as near as it gets."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _with_every(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object with the list of all its values under each key that is repeated."""
    found: dict[str, list[object]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}
