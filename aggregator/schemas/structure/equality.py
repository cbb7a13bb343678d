"""Equality of JSON values: `1` is `1.0` and is not `true`; the order of properties does not matter."""

from typing import Any


def hashable(value: Any) -> Any:
    """Return a hashable value; two are equal exactly if the JSON values are."""
    if isinstance(value, bool) or value is None:
        return ("literal", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, hashable(part)) for key, part in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(hashable, value)))
    return value


def first_duplicate(values: list[Any]) -> int | None:
    """Return the index of the first value that was there before; None if all differ."""
    seen: set[Any] = set()
    for number, value in enumerate(values):
        key = hashable(value)
        if key in seen:
            return number
        seen.add(key)
    return None
