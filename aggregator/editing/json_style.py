"""The spacing of a JSON text: how it indents, ends lines and parts values, so that new values look like the others."""

import json
import re
from dataclasses import dataclass
from typing import Final

from aggregator.editing.json_scan import JsonContainer, scan

_WIDTH: Final = 100
_DEEPEST_LOOK: Final = 4


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """The spacing of one text; `colon` and `comma` are written with the blanks behind them."""

    unit: str
    newline: str
    colon: str
    comma: str
    several_lines: bool = True

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
            brackets = "[]"
        else:
            rows = [dumped(key) + self.colon + self.written(item, inner, one_line=False) for key, item in value.items()]
            brackets = "{}"
        body = f",{self.newline}".join(inner + row for row in rows)
        return brackets[0] + self.newline + body + self.newline + indent + brackets[1]

    def _line(self, value: object) -> str:
        return dumped(value, (self.comma, self.colon))


def dumped(value: object, separators: tuple[str, str] | None = None) -> str:
    """Return a value as JSON on one line; half a character, which no encoding can write, as an escape."""
    return re.sub(
        "[\ud800-\udfff]",
        lambda half: f"\\u{ord(half[0]):04x}",
        json.dumps(value, ensure_ascii=False, separators=separators),
    )


def indentation(text: str, at: int) -> str:
    """Return the blanks at the start of the line of an offset."""
    line = text.rfind("\n", 0, at) + 1
    end = line
    while end < at and text[end] in " \t":
        end += 1
    return text[line:end]


def style_of(text: str, start: int) -> JsonStyle:
    """Return the spacing of a text whose root begins at an offset, as its first lines have it."""
    first = text.find("\n")
    newline = "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
    root = scan(text, start)
    unit, colon, comma = _unit(text, root), ": ", ", "
    if root.members:
        after = text[root.members[0].key_end : root.members[0].value]
        compact = after == ":"
        colon, comma = (":", ",") if compact else (": ", ", ")
    several = "\n" in text[root.start : root.end] or not root.members
    return JsonStyle(unit, newline, colon, comma, several)


def _unit(text: str, root: JsonContainer) -> str:
    """Return what one level is indented by: in the first container of which a value begins a line."""
    container = root
    for _ in range(_DEEPEST_LOOK):
        base = indentation(text, container.start)
        for member in container.members:
            line = indentation(text, member.start)
            if text[: member.start].endswith("\n" + line) and line.startswith(base) and line != base:
                return line[len(base) :]
        inside = [member for member in container.members if text[member.value] in "{["]
        if not inside:
            break
        container = scan(text, inside[0].value)
    return "  "
