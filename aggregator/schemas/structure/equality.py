"""When two JSON values are the same: `1` is `1.0` and is not `true`; the order of properties does not matter."""

from typing import Any


def frozen(value: Any) -> Any:
    """A hashable stand-in that is equal exactly where the JSON values are."""
    if isinstance(value, bool) or value is None:
        return ("literal", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, frozen(part)) for key, part in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(frozen, value)))
    return value


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return bool(frozen(one) == frozen(other))


def distinct(values: list[Any]) -> int | None:
    """None where all differ; else the number of the first that was there before."""
    seen: set[Any] = set()
    for number, value in enumerate(values):
        key = frozen(value)
        if key in seen:
            return number
        seen.add(key)
    return None
