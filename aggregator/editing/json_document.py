"""JSON with comments, trailing commas and repeated keys, edited by replacing pieces of its text."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aggregator.editing.brackets import Bracketed, Piece, indentation, insertion, removal, spliced
from aggregator.editing.document import Path
from aggregator.editing.errors import EditError
from aggregator.editing.json_scan import root_start, scan, without_comments
from aggregator.editing.json_style import JsonStyle, style_of
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
                self._edit(insertion(self._text, container, step, made, style), expected)
                return
            member = container.members[at]
            old = self._text[member.value : member.end]
            if depth + 1 == len(path) or old == "null":
                one_line = old[0] in "{[" and "\n" not in old and len(old) > 2
                new = style.written(
                    nested(path[depth + 1 :], value), indentation(self._text, member.start), one_line=one_line
                )
                self._edit([(member.value, member.end, new)], expected)
                return
            container = scan(self._text, member.value)

    def remove(self, path: Path) -> None:
        """Remove the value at a path with its key; a comment beside it stays."""
        expected = without(self._root, path, self._name)
        container, style = self._container(path)
        while (at := container.find(path[-1])) is not None:
            text = spliced(self._text, removal(self._text, container, at, style))
            if container.is_list:
                self._keep(text, expected)
                return
            # An earlier one with the same key would count now.
            self._text, container = text, scan(text, container.start)
        self._keep(self._text, expected)

    def rename(self, path: Path, key: str) -> None:
        """Rename the key at the end of a path, in its place."""
        expected = renamed(self._root, path, key, self._name)
        container, style = self._container(path)
        at = container.find(path[-1])
        assert at is not None, "`renamed` has looked"
        member = container.members[at]
        self._text = spliced(self._text, [(member.start, member.key_end, style.key(key))])
        container = scan(self._text, container.start)
        while (at := container.find(path[-1])) is not None:
            self._text = spliced(self._text, removal(self._text, container, at, style))
            container = scan(self._text, container.start)
        self._keep(self._text, expected)

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

    def _begin(self, path: Path, value: object, expected: dict[str, Any]) -> None:
        newline = "\r\n" if "\r\n" in self._text else "\n"
        style = JsonStyle("  ", newline, ": ", ", ")
        before = self._text if self._text.strip("\ufeff" + _BLANK) else self._text.strip(_BLANK)
        if before.strip("\ufeff") and not before.endswith("\n"):
            before += newline
        self._keep(before + style.written(nested(path, value), "", one_line=False) + newline, expected)

    def _edit(self, pieces: Iterable[Piece], expected: dict[str, Any]) -> None:
        self._keep(spliced(self._text, pieces), expected)

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
