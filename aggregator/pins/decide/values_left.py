"""The number of values that a schema leaves to choose from. This file decides.

Counted are the values of `enum` and numbers between bounds. Empty texts, lists and objects carry no value, and are not.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor, inf, isfinite
from typing import Any, Final

from aggregator.wire.codec import encode_sorted

_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "boolean", type(None): "null", list: "array"}


def has_one_value(schema: Mapping[str, Any]) -> bool:
    """Return whether one value of `enum`, or one number, is all that fits the keywords of a schema itself."""
    listed = schema.get("enum")
    if isinstance(listed, list):
        return len({encode_sorted(one) for one in listed if fits(one, schema)}) == 1
    types = _types(schema)
    if types is not None and types.isdisjoint({"integer", "number"}):
        return False
    return _is_one_number(schema, whole=types is not None and "number" not in types)


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value fits the type and the bounds of a schema; True if they do not say."""
    number = _number(value)
    types = _types(schema)
    if types is not None and types.isdisjoint(_types_of(value, number)):
        return False
    if number is not None:
        low, high, excluded = _bounds(schema)
        step = _number(schema.get("multipleOf"))
        return low <= number <= high and number not in excluded and (not step or number % step == 0)
    if not isinstance(value, str | list | Mapping):
        return True
    unit = "Length" if isinstance(value, str) else "Items" if isinstance(value, list) else "Properties"
    least, most = _number(schema.get(f"min{unit}")), _number(schema.get(f"max{unit}"))
    return (least is None or len(value) >= least) and (most is None or len(value) <= most)


def _is_one_number(schema: Mapping[str, Any], *, whole: bool) -> bool:
    """Return whether the bounds of a schema leave one number; `whole` if only integers fit."""
    low, high, excluded = _bounds(schema)
    if isinstance(low, float) or isinstance(high, float):
        return False
    step = _number(schema.get("multipleOf"))
    if whole and (step is None or step.denominator > 1):
        step = Fraction(1) if step is None else Fraction(step.numerator)
    if not step or step < 0:
        return low == high and low not in excluded
    first, last = ceil(low / step), floor(high / step)
    fitting = last - first + 1 - sum(1 for one in excluded if low <= one <= high and one % step == 0)
    return fitting == 1


def _bounds(schema: Mapping[str, Any]) -> tuple[Fraction | float, Fraction | float, set[Fraction]]:
    """Return the lowest and the highest number, infinite if there is none, and the bounds that are excluded."""
    low, high = _number(schema.get("minimum")), _number(schema.get("maximum"))
    excluded = set[Fraction]()
    for name, bound in (("exclusiveMinimum", low), ("exclusiveMaximum", high)):
        # A boolean in draft 4.
        value = bound if schema.get(name) is True else _number(schema.get(name))
        if value is None:
            continue
        excluded.add(value)
        if name == "exclusiveMinimum":
            low = value if low is None else max(low, value)
        else:
            high = value if high is None else min(high, value)
    return -inf if low is None else low, inf if high is None else high, excluded


def _number(value: Any) -> Fraction | None:
    if isinstance(value, float):
        return Fraction(value) if isfinite(value) else None
    return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the types that a schema names; None if it names none."""
    named = schema.get("type")
    listed = named if isinstance(named, list) else [named]
    types = frozenset(one for one in listed if isinstance(one, str))
    return types or None


def _types_of(value: Any, number: Fraction | None) -> frozenset[str]:
    if number is not None:
        return frozenset({"number", "integer"} if number.denominator == 1 else {"number"})
    return frozenset({_NAMES.get(type(value), "object")})
