"""The spacing of a JSON text: how it indents, ends lines and parts values, so that new values look like the others."""

import json
import re
from dataclasses import dataclass
from typing import Final

from aggregator.editing.brackets import Bracketed, indentation
from aggregator.editing.json_scan import COMMENT, scan

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
