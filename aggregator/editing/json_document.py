"""JSON with comments, trailing commas and repeated keys, edited by replacing pieces of its text."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aggregator.editing.document import Path
from aggregator.editing.errors import EditError
from aggregator.editing.json_scan import (
    JsonContainer,
    comments,
    root_start,
    scan,
    without_comments,
)
from aggregator.editing.json_style import JsonStyle, dumped, indentation, style_of
from aggregator.editing.plain import changed, nested, plain, renamed, without

_BLANK: Final = " \t\r\n"


class JsonDocument:
    """A JSON text that is edited in place; an empty one becomes an object with the first value."""

    def __init__(self, text: str, name: str) -> None:
        """Read a text; `name` is how errors call it. Raises EditError when it is not an object in JSON."""
        self._text, self._name = text, name
        self._root = self._parsed(text)

    @property
    def text(self) -> str:
        """The text, with all edits so far."""
        return self._text

    @property
    def root(self) -> Mapping[str, object]:
        """The values as plain objects; of a repeated key the last counts."""
        return self._root

    def put(self, path: Path, value: object) -> None:
        """Set the value at a path, in the place of the one that is there, else after the others."""
        value = plain(value)
        expected = changed(self._root, path, value, self._name)
        start = root_start(self._text)
        if start is None:
            self._begin(path, value, expected)
            return
        container, style = scan(self._text, start), style_of(self._text, start)
        for depth, step in enumerate(path):
            at = container.find(step)
            if at is None:
                made = nested(path[depth + 1 :], value)
                self._edit(_insertion(self._text, container, step, made, style), expected)
                return
            member = container.members[at]
            if depth + 1 == len(path):
                old = self._text[member.value : member.end]
                new = style.written(value, indentation(self._text, member.start), one_line="\n" not in old)
                self._edit([(member.value, member.end, new)], expected)
                return
            container = scan(self._text, member.value)

    def remove(self, path: Path) -> None:
        """Remove the value at a path with its key; a comment beside it stays."""
        expected = without(self._root, path, self._name)
        container = self._container(path)
        while (at := container.find(path[-1])) is not None:
            text = _spliced(self._text, _removal(self._text, container, at))
            if container.is_list:
                self._keep(text, expected)
                return
            # An earlier one with the same key would count now.
            self._text, container = text, scan(text, container.start)
        self._keep(self._text, expected)

    def rename(self, path: Path, key: str) -> None:
        """Rename the key at the end of a path, in its place."""
        expected = renamed(self._root, path, key, self._name)
        container = self._container(path)
        at = container.find(path[-1])
        assert at is not None, "`renamed` has looked"
        member = container.members[at]
        self._text = _spliced(self._text, [(member.start, member.key_end, dumped(key))])
        container = scan(self._text, container.start)
        while (at := container.find(path[-1])) is not None:
            self._text = _spliced(self._text, _removal(self._text, container, at))
            container = scan(self._text, container.start)
        self._keep(self._text, expected)

    def _container(self, path: Path) -> JsonContainer:
        """Return the container of the value at a path that is there."""
        start = root_start(self._text)
        assert start is not None, "the value is there"
        container = scan(self._text, start)
        for step in path[:-1]:
            at = container.find(step)
            assert at is not None, "the value is there"
            container = scan(self._text, container.members[at].value)
        return container

    def _begin(self, path: Path, value: object, expected: dict[str, Any]) -> None:
        newline = "\r\n" if "\r\n" in self._text else "\n"
        style = JsonStyle("  ", newline, ": ", ", ")
        before = self._text if self._text.strip("\ufeff" + _BLANK) else self._text.strip(_BLANK)
        if before.strip("\ufeff") and not before.endswith("\n"):
            before += newline
        self._keep(before + style.written(nested(path, value), "", one_line=False) + newline, expected)

    def _edit(self, pieces: Iterable[tuple[int, int, str]], expected: dict[str, Any]) -> None:
        self._keep(_spliced(self._text, pieces), expected)

    def _keep(self, text: str, expected: dict[str, Any]) -> None:
        """Take a text over if it holds what it must."""
        before = self._text
        try:
            root = self._parsed(text)
            same = root == expected
        except (EditError, RecursionError):
            same = False
        if not same:
            self._text = before
            raise EditError(f"{self._name} is written in a form that cannot be edited safely. Edit it by hand.")
        self._text, self._root = text, root

    def _parsed(self, text: str) -> dict[str, Any]:
        _check_text(text, self._name)
        bare = without_comments(text.removeprefix("\ufeff"))
        try:
            root: object = json.loads(bare, parse_constant=_refuse_constant, parse_int=_whole) if bare.strip() else {}
        except json.JSONDecodeError as error:
            where = f"{self._name}, line {error.lineno}, column {error.colno}"
            raise EditError(f"{where}: this is not JSON ({error.msg}). Correct it there.") from None
        except RecursionError:
            raise EditError(f"{self._name} is nested too deeply to be edited.") from None
        except ValueError as error:
            raise EditError(f"{self._name} holds a number that cannot be used: {error}.") from None
        if not isinstance(root, dict):
            raise EditError(f"{self._name}: expected an object at the root, in {{ }}.")
        return root


def _check_text(text: str, name: str) -> None:
    for number, line in enumerate(text.split("\n"), 1) if "\r" in text else ():
        if "\r" in line.removesuffix("\r") and "//" in line:
            raise EditError(f"{name}, line {number}: a comment holds a lone carriage return. Take it out.")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _whole(digits: str) -> int | float:
    """Return a whole number; one too long to be read exactly is as near as it gets."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _spliced(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    parts, at = [], 0
    for start, end, new in sorted(pieces):
        parts += text[at:start], new
        at = end
    return "".join((*parts, text[at:]))


def _insertion(
    text: str, container: JsonContainer, key: str | int, value: object, style: JsonStyle
) -> list[tuple[int, int, str]]:
    """Return the pieces that add a value after the others of a container."""
    named = dumped(key) + style.colon if isinstance(key, str) else ""
    if not container.members:
        return _first(text, container, named, value, style)
    last = container.members[-1]
    gap = text[slice(*container.gap(len(container.members) - 1))]
    indent = indentation(text, last.start)
    if "\n" not in gap:
        one_line = "\n" not in text[container.start : container.end]
        written = named + style.written(value, indentation(text, container.start), one_line=one_line)
        if last.comma is None:
            return [(last.end, last.end, style.comma + written)]
        return [(last.comma + 1, last.comma + 1, f"{style.comma[1:]}{written},")]
    written = style.newline + indent + named + style.written(value, indent, one_line=False)
    end = last.end if last.comma is None else last.comma + 1
    place = _behind_comments(text, end, container.end - 1)
    if last.comma is not None:
        return [(place, place, f"{written},")]
    return [(last.end, last.end, ","), (place, place, written)] if place > last.end else [(end, end, f",{written}")]


def _first(
    text: str, container: JsonContainer, named: str, value: object, style: JsonStyle
) -> list[tuple[int, int, str]]:
    """Return the piece that adds the first value of a container."""
    inner = container.start + 1, container.end - 1
    base = indentation(text, container.start)
    ends = [end for _, end in comments(text, *inner)]
    several = "\n" in text[slice(*inner)] or (not container.is_list and style.several_lines)
    if not several and not ends:
        return [(*inner, named + style.written(value, base, one_line=not style.several_lines))]
    indent = base + style.unit
    written = style.newline + indent + named + style.written(value, indent, one_line=False)
    if not ends:
        return [(*inner, written + style.newline + base)]
    closing = "" if "\n" in text[ends[-1] : inner[1]] else style.newline + base
    return [(ends[-1], ends[-1], written + closing)]


def _behind_comments(text: str, start: int, end: int) -> int:
    """Return the offset behind the comments that begin on the same line."""
    place = start
    for first, last in comments(text, start, end):
        if "\n" in text[place:first]:
            break
        place = last
    return place


def _removal(text: str, container: JsonContainer, at: int) -> list[tuple[int, int, str]]:
    """Return the pieces that take a member out, with the comma that goes with it."""
    member = container.members[at]
    inner = container.start + 1, container.end - 1
    if len(container.members) == 1 and not _has_comment(text, inner, member.start, member.end):
        return [(*inner, "")]
    pieces: list[tuple[int, int, str]] = []
    start, end = member.start, member.end
    if member.comma is None:
        before = container.members[at - 1].comma if at else None
        if before is not None:
            pieces.append((before, before + 1, ""))
    elif text[end : member.comma].strip(_BLANK):
        pieces.append((member.comma, member.comma + 1, ""))
    else:
        end = member.comma + 1
    pieces.append((*_with_blanks(text, container, at, start, end), ""))
    return pieces


def _has_comment(text: str, inner: tuple[int, int], start: int, end: int) -> bool:
    return any(True for _ in comments(text, inner[0], start)) or any(True for _ in comments(text, end, inner[1]))


def _with_blanks(text: str, container: JsonContainer, at: int, start: int, end: int) -> tuple[int, int]:
    """Return the piece to cut with the blanks that would be left over."""
    gap = container.gap(at)[0]
    line = max(text.rfind("\n", 0, start) + 1, gap)
    starts_line = line > gap and not text[line:start].strip(_BLANK)
    rest = end
    while text[rest] in " \t\r":
        rest += 1
    if text[rest] == "\n" and starts_line:
        return line, rest + 1
    if rest == container.end - 1 or (text[rest] == "\n" and not starts_line):
        # Up to the value or comment before it; a comment to the end of its line must keep that end.
        keep = gap
        for first, last in comments(text, gap, start):
            keep = last + 1 if text.startswith("//", first) else last
        return min(keep, start), end
    return start, start if rest < end else rest
