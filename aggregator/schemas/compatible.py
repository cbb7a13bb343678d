"""Compare the top level of two object schemas: find early which fallback tool cannot take another tool's arguments.

Names, required properties and types are compared, and nothing below them. Law: finding no misfit proves nothing; each
value is still checked against the schema before it is used.
"""

from collections.abc import Mapping
from typing import Any, Final

# With one of these a schema may name and require properties outside `properties` and `required`.
_ELSEWHERE: Final = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"})
_NUMBERS: Final = frozenset({"integer", "number"})


def misfit(inner: Any, outer: Any, *, named: bool = True) -> str | None:
    """Return why a value that fits `inner` may not fit `outer`, judged by their top level; None if it may fit.

    `named`: `outer` must name each property of `inner`, or declare that it takes others; else it would ignore them.
    """
    if not isinstance(inner, Mapping) or not isinstance(outer, Mapping):
        return None
    given = _names(inner)
    for name in _names(outer) if _ELSEWHERE.isdisjoint(inner) else ():
        if name not in given:
            return f"`{name}` is required there"
    properties, known = _properties(inner), _properties(outer)
    others = outer.get("additionalProperties", False if named else None)
    closed = others is False and _ELSEWHERE.isdisjoint(outer)
    for name, schema in properties.items():
        if name in known:
            why = _type_misfit(schema, known[name])
            if why is not None:
                return f"`{name}` {why}"
        elif closed:
            return f"`{name}` is not known there"
    return None


def _names(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _type_misfit(inner: Any, outer: Any) -> str | None:
    """Compare the declared types of a property; one that declares none may have any."""
    given, taken = _types(inner), _types(outer)
    if not given or not taken:
        return None
    if given & _NUMBERS == {"number"} and taken & _NUMBERS == {"integer"}:
        return "has to be a whole number there"
    surplus = given - taken - (_NUMBERS if "number" in taken else frozenset())
    return f"may be {' or '.join(sorted(surplus))}, which is not taken there" if surplus else None


def _types(schema: Any) -> frozenset[str]:
    declared = schema.get("type") if isinstance(schema, Mapping) else None
    listed = declared if isinstance(declared, list) else [declared]
    return frozenset(one for one in listed if isinstance(one, str))
