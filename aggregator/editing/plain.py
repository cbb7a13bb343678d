"""Edits on plain objects: the expected content of a document after the same edit of its text."""

import json
from collections.abc import Mapping
from typing import Any

from aggregator.editing.document import Path
from aggregator.editing.errors import EditError


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
