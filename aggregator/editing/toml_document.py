"""TOML edited in place with tomlkit, which keeps the spacing and the comments of all that is not edited."""

import re
import tomllib
from collections.abc import Callable
from typing import Any, Final

import tomlkit
from tomlkit.container import Container
from tomlkit.items import AoT, Array, Comment, Table

from aggregator.domain.text.error_text import error_text
from aggregator.editing.document import Path
from aggregator.editing.errors import EditError
from aggregator.editing.text_document import TextDocument, has, nested

# A key that no file has.
_MARK: Final = "aggregator-line-of-this-key"
_NEWLINE: Final = "\n"
_PLACE: Final = re.compile(r" \(at (line \d+, column \d+)\)\Z")
_END_OF_DOCUMENT: Final = re.compile(r" \(at end of document\)\Z")
_BLANK_LINE: Final = re.compile(r"(?<=\n)[ \t]*\n\Z")
_COMMENTS_ABOVE: Final = re.compile(r"(?:(?<=\n)|\A)(?:[ \t]*#[^\n]*\n)+\Z")
_COMMENTS_BELOW: Final = re.compile(r"(?:\n[ \t]*(?:#[^\n]*)?)+\Z")


class TomlDocument(TextDocument):
    """A TOML text that is edited in place; a new object becomes a table of its own."""

    def _edited(
        self, edit: Callable[[tomlkit.TOMLDocument], None], tidy: Callable[[str, str], str] = lambda _, made: made
    ) -> str:
        """Return the text after an edit of it; `tidy` gets the text before it and after it. Raises EditError."""
        # tomlkit ends new lines with a line feed; so does a text with both kinds of line end.
        whole = "\r\n" in self._text and not re.search(r"(?<!\r)\n", self._text)
        text = self._text.replace("\r\n", "\n") if whole else self._text
        try:
            document = tomlkit.parse(text)
            edit(document)
            made = tomlkit.dumps(document)
        except EditError:
            raise
        except Exception:  # its errors are of many kinds, and the text is as it was
            raise self._unsafe() from None
        made = tidy(text, made)
        return made.replace("\n", "\r\n") if whole else made

    def _with(self, path: Path, value: Any) -> str:
        if _has_null(value):
            raise EditError(f"{self._name}: TOML has no null. Leave the value out.")
        depth = next(depth for depth in range(len(path) - 1, -1, -1) if not depth or has(self._root, path[:depth]))
        key, new = path[depth], nested(path[depth + 1 :], value)

        def put(document: tomlkit.TOMLDocument) -> None:
            _put(_at(document, path[:depth]), key, new, self._name)

        return self._edited(put, _lines_put)

    def _without(self, path: Path) -> str:
        return self._edited(lambda document: _remove(_at(document, path[:-1]), path[-1]), _lines_removed)

    def _renamed(self, path: Path, key: str) -> str:
        return self._edited(lambda document: _rename(_at(document, path[:-1]), str(path[-1]), key))

    def _offset(self, path: Path) -> int:
        while path:
            if isinstance(path[-1], str) and has(self._root, path):
                marked = self._renamed(path, _MARK)
                if _MARK in marked:
                    return marked.index(_MARK)
            path = path[:-1]
        return 0

    def _holds(self, root: dict[str, Any], expected: dict[str, Any]) -> bool:
        return _without_empty(root) == _without_empty(expected)

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except RecursionError:
            raise EditError(f"{self._name} is nested too deeply to be edited.") from None
        except ValueError as error:
            why, place = _END_OF_DOCUMENT.sub("", error_text(error)), ""
            if found := _PLACE.search(why):
                why, place = why[: found.start()], f", {found[1]}"
            elif why != error_text(error):
                place = f", line {text.count(_NEWLINE) + 1}, column {len(text) - text.rfind(_NEWLINE)}"
            raise EditError(f"{self._name}{place}: this is not TOML ({why}). Correct it there.") from None


def _at(document: tomlkit.TOMLDocument, path: Path) -> Any:
    """Return the container at a path that is there."""
    found: Any = document
    for step in path:
        found = found[step]
    return found


def _put(container: Any, key: str | int, value: Any, name: str) -> None:
    if isinstance(container, AoT | Array):
        assert isinstance(key, int), "lists have indices"
        if isinstance(container, AoT) and not isinstance(value, dict):
            raise EditError(f"{name}: a list of tables takes tables only. Edit it by hand.")
        if key < len(container):
            container[key] = value
        else:
            container.append(value)
        return
    if key in container and isinstance(value, dict) != isinstance(container[key], dict):
        # Tables and pairs have places of their own, so the one does not stand where the other did.
        _remove(container, key)
    container[key] = value


def _remove(container: Any, key: str | int) -> None:
    """Remove a value; a comment on its line stays, which tomlkit would remove."""
    if isinstance(key, int) and isinstance(container, Array):
        group = container._value[container._index_map[key]]
        if group.comment is not None:
            group.value = group.comma = None
            return
    if isinstance(key, str) and isinstance(container, Container | Table):
        body = container.body if isinstance(container, Container) else container.value.body
        places = [at for at, (found, _) in enumerate(body) if found is not None and found.key == key]
        item = body[places[0]][1] if len(places) == 1 else None
        if item is not None and item.trivia.comment and not isinstance(item, Table | AoT):
            trivia = item.trivia.copy()
            del container[key]
            body[places[0]] = (None, Comment(trivia))
            return
    del container[key]


def _rename(container: Any, old: str, new: str) -> None:
    values = container if isinstance(container, Container) else container.value
    for key, item in values.body:
        if key is not None and key.key == old:
            # In its place, which no function of tomlkit does.
            key.key, key._original = new, tomlkit.key(new).as_string()
            if isinstance(item, Table | AoT):
                item.invalidate_display_name()


def _lines_put(before: str, after: str) -> str:
    """Return the text after lines were put in, with a blank line before a table, and comments left above theirs."""
    span = _lines(before, after)
    if span is None:
        return after
    content, head, tail = after[slice(*span)].strip("\n"), before[: span[0]], before[span[0] :]
    if tail.lstrip().startswith("[") and (above := _COMMENTS_ABOVE.search(head)):
        head, tail = head[: above.start()], head[above.start() :] + tail
    while head.endswith("\n\n"):
        head, tail = head[:-1], f"\n{tail}"
    if not head:
        return content + ("\n\n" if tail else "\n") + tail
    blank = "\n" if content.startswith("[") else ""
    return f"{head}{blank}{content}\n{tail}" if head.endswith("\n") else f"{head}\n{blank}{content}"


def _lines_removed(before: str, after: str) -> str:
    """Return the text after lines were removed: with the comments after them, without the blank line before a table."""
    span = _lines(after, before)
    if span is None:
        return _without_space(before, after)
    start = span[0] + len(before[slice(*span)]) - len(before[slice(*span)].lstrip("\n"))
    content = _COMMENTS_BELOW.sub("", before[start : span[1]])
    head, tail = before[:start], before[start + len(content) :]
    above = _BLANK_LINE.search(head) if content.startswith("[") else None
    if above is not None:
        head = head[: above.start()]
    if not tail:
        return head[:-1]
    return head + tail[1:] if head else tail[1:].removeprefix("\n")


def _without_space(before: str, after: str) -> str:
    """Return the text without the space that tomlkit puts before the brace after the last member is removed."""
    rest = _shared(before[::-1], after[::-1])
    brace, old, new = after[len(after) - rest :], before[: len(before) - rest], after[: len(after) - rest]
    return new[:-1] + brace if brace.startswith("}") and new.endswith(" ") and not old.endswith(" ") else after


def _lines(short: str, long: str) -> tuple[int, int] | None:
    """Return the span of the lines that a text has more than another one; None if they differ in another way."""
    more = len(long) - len(short)
    start = _shared(short, long)
    if more <= 0 or long[start + more :] != short[start:]:
        return None
    while start and long[start - 1] != "\n" and long[start - 1] == long[start + more - 1]:
        start -= 1
    at_line = not start or long[start - 1] == "\n" or start == len(short)
    return (start, start + more) if at_line and (start + more == len(long) or long[start + more - 1] == "\n") else None


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


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
