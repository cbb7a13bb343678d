"""What schemas about one value leave of it, keyword by keyword. This file decides; it awaits nothing.

Law: a type or a value that may fit is never left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, floor, isfinite
from typing import Any, Final

from aggregator.wire.codec import encode_sorted

Facts = tuple[Any, ...]
"""Schemas about one value, which fits all of them."""

UPPER: Final = ("maximum", "exclusiveMaximum")
LOWER: Final = ("minimum", "exclusiveMinimum")
# The largest whole number that every JSON number passes exactly.
_EXACT: Final = 2**53 - 1
_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "boolean", type(None): "null", list: "array", dict: "object"}


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def properties_of(schema: Any) -> Mapping[str, Any]:
    return mapping_of(mapping_of(schema).get("properties"))


def required_of(facts: Iterable[Any]) -> set[str]:
    return {name for one in facts if isinstance(one.get("required"), list) for name in one["required"]}


def type_names(value: Any) -> frozenset[str]:
    return frozenset(value if isinstance(value, list) else [value])


def numbers_too(names: Iterable[str]) -> frozenset[str]:
    """Return types with `number` for whole numbers."""
    return frozenset("number" if name == "integer" else name for name in names)


def types_of(facts: Iterable[Any]) -> frozenset[str]:
    """Return the types of values that may fit; whole numbers are numbers."""
    left = _TYPES
    for one in facts:
        if "type" in one:
            left &= numbers_too(type_names(one["type"]))
    listed = values_of(facts)
    return left if listed is None else left & frozenset(map(_type_of, listed))


def values_of(facts: Iterable[Any]) -> list[Any] | None:
    """Return the values of a list that may fit; None without a list."""
    for one in facts:
        if "const" in one:
            return [one["const"]]
        if isinstance(one.get("enum"), list):
            return list(one["enum"])
    return None


def _type_of(value: Any) -> str:
    return _NAMES.get(type(value), "number")


def key_of(value: Any) -> tuple[str, Any]:
    """Return a value that is equal for equal JSON values: 1 and 1.0 are, 1 and true are not."""
    return ("number", value) if is_number(value) else ("", encode_sorted(value))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(facts: Iterable[Any], names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for one in facts:
        for name in names:
            if is_number(one.get(name)):
                yield name, one[name]


def keep_bound(facts: Facts, keyword: str, value: Any) -> bool:
    """Return whether numbers that fit the facts keep a bound."""
    upper, excludes = keyword in UPPER, keyword.startswith("exclusive")
    if not is_number(value):
        # A boolean of draft 4 makes another bound exclude its value.
        return value is False
    whole = any("type" in one and "number" not in type_names(one["type"]) for one in facts)
    if whole:
        value, excludes = whole_bound(value, upper=upper, excludes=excludes), False
        if value >= _EXACT if upper else value <= -_EXACT:
            return True
    listed = values_of(facts)
    if listed is not None:
        numbers = [one for one in listed if is_number(one)]
        return all(_keeps(one, value, upper=upper, excludes=excludes) for one in numbers)
    for name, bound in _numbers(facts, UPPER if upper else LOWER):
        if whole:
            bound = whole_bound(bound, upper=upper, excludes=name.startswith("exclusive"))
        if name.startswith("exclusive") or excludes is False:
            if bound <= value if upper else bound >= value:
                return True
        elif bound < value if upper else bound > value:
            return True
    return False


def whole_bound(bound: Any, *, upper: bool, excludes: bool) -> Any:
    """Return the last whole number that keeps a bound: more than 0 is at least 1."""
    if not isfinite(bound):
        return bound
    last = floor(bound) if upper else ceil(bound)
    return last if last != bound or not excludes else last - 1 if upper else last + 1


def _keeps(number: Any, bound: Any, *, upper: bool, excludes: bool) -> bool:
    if number == bound:
        return not excludes
    return bool(number < bound) if upper else bool(number > bound)


def are_multiples(facts: Facts, value: Any) -> bool:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return False
    listed = values_of(facts)
    if listed is not None:
        return all(one % value == 0 for one in listed if is_number(one))
    if value == 1 and any("number" not in type_names(one["type"]) for one in facts if "type" in one):
        return True
    steps = (one["multipleOf"] for one in facts if isinstance(one.get("multipleOf"), int))
    return any(step is not True and step % value == 0 for step in steps if step)
