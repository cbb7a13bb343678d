"""A document whose text is edited by replacing pieces of it, then checked against the same edit of plain objects."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from aggregator.editing.brackets import Piece, spliced
from aggregator.editing.document import Path
from aggregator.editing.errors import EditError


class TextDocument(ABC):
    """A text with the values in it; a format says which pieces an edit replaces."""

    def __init__(self, text: str, name: str) -> None:
        """Read a text; `name` is how errors call it. Raises EditError when it is not an object in this format."""
        # A byte order mark stays before the text, outside of every edit.
        self._mark = text[: text.startswith("\ufeff")]
        self._text, self._name = text[len(self._mark) :], name
        self._root = self._parsed(self._text)

    @property
    def text(self) -> str:
        """The text, with all edits so far."""
        return self._mark + self._text

    @property
    def root(self) -> Mapping[str, object]:
        """The values as plain objects, with all edits so far; of a repeated key the last counts."""
        return self._root

    @property
    def every_value(self) -> object:
        """The values of the text; in place of one under a repeated key, the list of all of them."""
        return self._root

    def line(self, path: Path) -> int:
        """Return the line, from 1, on which the value at a path begins with its key; of none, that of what holds it."""
        return self._text.count("\n", 0, self._offset(path)) + 1

    def put(self, path: Path, value: object) -> None:
        """Set the value at a path, in the place of the one that is there, else after the others.

        An object that is there becomes equal to a new one key by key, and keeps the comments of what stays.

        Raises:
            EditError: the path leads through a value that is no object, or the text cannot be edited safely.
        """
        before = self._text, self._root
        try:
            self._put(path, plain(value))
        except EditError:
            self._text, self._root = before
            raise

    def remove(self, path: Path) -> None:
        """Remove the value at a path with its key. Raises KeyError when it is not there."""
        expected = without(self._root, path, self._name)
        self._keep(self._without(path), expected)

    def rename(self, path: Path, key: str) -> None:
        """Rename the key at the end of a path, in its place. Raises KeyError when it is not there."""
        expected = renamed(self._root, path, key, self._name)
        self._keep(self._renamed(path, key), expected)

    def _put(self, path: Path, value: Any) -> None:
        expected = changed(self._root, path, value, self._name)
        old = at_path(self._root, path) if has(self._root, path) else None
        if not (isinstance(value, dict) and value and isinstance(old, dict) and old):
            if old != value or type(old) is not type(value) or not has(self._root, path):
                self._keep(self._with(path, value), expected)
            return
        for key, item in value.items():
            if key not in old or old[key] != item:
                self._put((*path, key), item)
        for key in [key for key in old if key not in value]:
            self.remove((*path, key))

    def _keep(self, text: str, expected: dict[str, Any]) -> None:
        """Accept a text if it has the expected content."""
        try:
            text.encode()
            root = self._parsed(text)
            same = self._holds(root, expected)
        except (EditError, ValueError, RecursionError):
            same = False
        if not same:
            raise self._unsafe()
        self._text, self._root = text, root

    def _unsafe(self) -> EditError:
        return EditError(f"{self._name} is written in a form that cannot be edited safely. Edit it by hand.")

    def _holds(self, root: dict[str, Any], expected: dict[str, Any]) -> bool:
        return root == expected

    def _spliced(self, pieces: Iterable[Piece]) -> str:
        return spliced(self._text, pieces)

    @abstractmethod
    def _parsed(self, text: str) -> dict[str, Any]:
        """Return the values of a text. Raises EditError."""

    @abstractmethod
    def _offset(self, path: Path) -> int:
        """Return where the value at a path begins with its key; of none, what holds it."""

    @abstractmethod
    def _with(self, path: Path, value: Any) -> str:
        """Return the text with a value at a path."""

    @abstractmethod
    def _without(self, path: Path) -> str:
        """Return the text without the value at a path that is there."""

    @abstractmethod
    def _renamed(self, path: Path, key: str) -> str:
        """Return the text with the key at the end of a path renamed."""


def plain(value: object) -> Any:
    """Return a copy of a value that JSON can hold. Raises EditError for any other."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise EditError("A value that is to be written is not plain: use texts, numbers, lists and objects.") from None


def nested(path: Path, value: object) -> Any:
    """Return a value in new objects, and lists, as a path says."""
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def has(root: Mapping[str, Any], path: Path) -> bool:
    """Return whether there is a value at a path."""
    at: Any = root
    for step in path:
        if not _has_step(at, step):
            return False
        at = at[step]
    return True


def at_path(root: Mapping[str, Any], path: Path) -> Any:
    """Return the value at a path that is there."""
    at: Any = root
    for step in path:
        at = at[step]
    return at


def changed(root: Mapping[str, Any], path: Path, value: object, name: str) -> dict[str, Any]:
    """Return the root with a value set. Raises EditError if the path leads through a value that has no parts."""
    if not path:
        raise EditError(f"{name}: the root itself cannot be replaced.")
    made: dict[str, Any] = _changed(dict(root), path, 0, value, name)
    return made


def _changed(at: Any, path: Path, depth: int, value: object, name: str) -> Any:
    step, rest = path[depth], path[depth + 1 :]
    if rest:
        missing = not _has_step(at, step) or at[step] is None
        value = nested(rest, value) if missing else _changed(at[step], path, depth + 1, value, name)
    if isinstance(at, dict) and isinstance(step, str):
        return {**at, step: value}
    if isinstance(at, list) and isinstance(step, int) and step >= 0:
        return [*at[:step], value, *at[step + 1 :]]
    place = ".".join(str(part) for part in path[:depth]) or "the root"
    raise EditError(f"{name}: {place} is not {'an object' if isinstance(step, str) else 'a list'}. Correct it there.")


def without(root: Mapping[str, Any], path: Path, name: str) -> dict[str, Any]:
    """Return the root with a value removed. Raises KeyError when it is not there."""
    at = _container(root, path)
    if isinstance(at, list):
        assert isinstance(path[-1], int), "it is there"
        left: object = [*at[: path[-1]], *at[path[-1] + 1 :]]
    else:
        left = {key: value for key, value in at.items() if key != path[-1]}
    return _replaced(root, path[:-1], left, name)


def renamed(root: Mapping[str, Any], path: Path, key: str, name: str) -> dict[str, Any]:
    """Return the root with a key renamed. Raises KeyError when it is not there, EditError when the new one is."""
    at = _container(root, path)
    if not isinstance(at, dict):
        raise KeyError(path[-1])
    if key in at:
        raise EditError(f"{name}: {json.dumps(key)} is there already.")
    return _replaced(root, path[:-1], {key if old == path[-1] else old: value for old, value in at.items()}, name)


def _replaced(root: Mapping[str, Any], path: Path, value: Any, name: str) -> dict[str, Any]:
    return changed(root, path, value, name) if path else value


def _container(root: Mapping[str, Any], path: Path) -> Any:
    """Return the container of the value at a path. Raises KeyError when the value is not there."""
    at: Any = dict(root)
    for step in path[:-1]:
        if not _has_step(at, step):
            raise KeyError(step)
        at = at[step]
    if not path or not _has_step(at, path[-1]):
        raise KeyError(*path[-1:])
    return at


def _has_step(at: Any, step: str | int) -> bool:
    if isinstance(at, dict):
        return isinstance(step, str) and step in at
    return isinstance(at, list) and isinstance(step, int) and 0 <= step < len(at)
