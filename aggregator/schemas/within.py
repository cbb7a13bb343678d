"""Whether whatever fits one schema fits another too, as far as that can be told at a glance.

Law: `None` is said only where it is so; where it cannot be told, that is the answer. Properties that only the other
schema names, or neither, are left out of account: whoever relies on this still checks each value before it is used.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggregator.schemas.structure.equality import equal, frozen
from aggregator.schemas.structure.local import at_pointer, followed

# The larger, or the smaller, the fewer values they let through; and of which type these are.
_LEAST: Final[Mapping[str, str]] = {
    "minimum": "number",
    "exclusiveMinimum": "number",
    "minLength": "string",
    "minItems": "array",
    "minProperties": "object",
}
_MOST: Final[Mapping[str, str]] = {
    "maximum": "number",
    "exclusiveMaximum": "number",
    "maxLength": "string",
    "maxItems": "array",
    "maxProperties": "object",
}
# What is not weighed: it has to be the same. None: it is about values of every type.
_SAME: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("not", "if", "then", "else"), None),
    "multipleOf": "number",
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"), "string"),
    **dict.fromkeys(("uniqueItems", "contains", "minContains", "maxContains", "prefixItems"), "array"),
    **dict.fromkeys(("additionalItems", "unevaluatedItems"), "array"),
    **dict.fromkeys(("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"), "object"),
    **dict.fromkeys(("dependencies", "unevaluatedProperties"), "object"),
}
_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# Of use to people only.
_REMARKS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_FROM_NOTHING: Final = frozenset({"minLength", "minItems", "minProperties", "minContains"})
# Both bound a comparison, whatever the schemas are.
_DEPTH: Final = 40
_STEPS: Final = 5_000
_TOO_LARGE: Final = "the schemas are too large to be compared"


def misfit(inner: Any, outer: Any, *, named: bool = True) -> str | None:
    """Why something that fits `inner` may not fit `outer`; None where it does.

    `named`: a property of `inner` has to be one that `outer` names, or takes by its own word: it would be lost else.
    """
    try:
        return _Comparison(inner, outer, named).misfit(inner, outer, "", 0)
    except RecursionError:
        return _TOO_LARGE


class _Comparison:
    """Of two roots, in each of which `$ref` is followed. `at` is a place as people write it, empty for the whole."""

    def __init__(self, inner: Any, outer: Any, named: bool) -> None:
        self._inner, self._outer, self._named = inner, outer, named
        self._under_way: set[tuple[int, int]] = set()
        self._steps = 0

    def misfit(self, inner: Any, outer: Any, at: str, depth: int) -> str | None:
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            return _TOO_LARGE
        inner = followed(inner, self._inner)
        if isinstance(outer, Mapping) and "$ref" in outer:
            return self._referred(inner, outer, at, depth)
        if outer is True or outer == {} or inner is False:
            return None
        if outer is False:
            return f"{at or 'it'} is not taken there"
        inner = {} if inner is True else inner
        if not isinstance(inner, Mapping) or not isinstance(outer, Mapping):
            return f"{at or 'it'} has a schema that is none"
        both = id(inner), id(outer)
        if both in self._under_way:
            # Schemas that hold themselves fit if nothing else speaks against it.
            return None
        self._under_way.add(both)
        try:
            return next(self._misfits(inner, outer, at, depth + 1), None)
        finally:
            self._under_way.discard(both)

    def _referred(self, inner: Any, outer: Mapping[str, Any], at: str, depth: int) -> str | None:
        """What stands beside a reference counts too."""
        reference = outer["$ref"]
        target = at_pointer(self._outer, reference) if isinstance(reference, str) else None
        if target is None:
            return f"{at or 'it'} has a reference there that is not followed here"
        beside = {key: value for key, value in outer.items() if key != "$ref" and key not in _REMARKS}
        return self.misfit(inner, target, at, depth + 1) or self.misfit(inner, beside, at, depth + 1)

    def _misfits(self, inner: Mapping[str, Any], outer: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        if not (_REFERENCES.isdisjoint(inner) and _REFERENCES.isdisjoint(outer)):
            yield f"{at or 'it'} has a reference that is not followed here"
        for keyword in ("anyOf", "oneOf"):
            if _listed(inner, keyword):
                yield from self._each(inner, keyword, outer, at, depth)
                return
        if _listed(inner, "allOf"):
            yield from self._any_of_all(inner, outer, at, depth)
            return
        yield from self._alternatives(inner, outer, at, depth)
        yield from _value_misfits(inner, outer, at)
        types = types_of(inner)
        if "object" in types:
            yield from self._object(inner, outer, at, depth)
        if "array" in types:
            yield from self._array(inner, outer, at, depth)

    # -- alternatives

    def _each(
        self, inner: Mapping[str, Any], keyword: str, outer: Mapping[str, Any], at: str, depth: int
    ) -> Iterator[str]:
        """Every alternative has to fit, with what stands beside it."""
        beside = {key: value for key, value in inner.items() if key != keyword}
        for branch in _listed(inner, keyword):
            branch = followed(branch, self._inner)
            if not isinstance(branch, Mapping):
                found = self.misfit(beside, outer, at, depth)
            elif all(key in _REMARKS or key not in beside or equal(beside[key], branch[key]) for key in branch):
                found = self.misfit({**beside, **branch}, outer, at, depth)
            else:
                # Both hold, so that either is enough.
                found = self.misfit(branch, outer, at, depth) and self.misfit(beside, outer, at, depth)
            if found is not None:
                yield found

    def _any_of_all(self, inner: Mapping[str, Any], outer: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        """All parts hold, so that one which fits is enough."""
        beside = {key: value for key, value in inner.items() if key != "allOf"}
        found = [self.misfit(part, outer, at, depth) for part in (beside, *_listed(inner, "allOf"))]
        if None not in found:
            yield str(found[0])

    def _alternatives(self, inner: Mapping[str, Any], outer: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        for part in _listed(outer, "allOf"):
            found = self.misfit(inner, part, at, depth)
            if found is not None:
                yield found
        for keyword in ("anyOf", "oneOf"):
            branches = _listed(outer, keyword)
            if keyword == "oneOf" and not self._apart(branches):
                yield f"{at or 'it'} has alternatives there that may exclude each other"
            elif branches and not self._taken_by(inner, branches, at, depth):
                yield f"{at or 'it'} fits none of the alternatives there"

    def _taken_by(self, inner: Mapping[str, Any], branches: list[Any], at: str, depth: int) -> bool:
        """Whether one branch takes it whole, or each of its types has a branch that does."""
        types = inner.get("type")
        kinds = [inner, *({**inner, "type": one} for one in (types if isinstance(types, list) else ()))]
        whole, *parts = (any(self.misfit(kind, one, at, depth) is None for one in branches) for kind in kinds)
        return whole or (bool(parts) and all(parts))

    def _apart(self, branches: list[Any]) -> bool:
        """Whether no value can fit two of them, by their types."""
        seen: set[str] = set()
        for branch in branches:
            types = types_of(followed(branch, self._outer))
            if types & seen:
                return False
            seen |= types
        return True

    # -- what holds others

    def _object(self, inner: Mapping[str, Any], outer: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        has, knows, rest = _map(inner, "properties"), _map(outer, "properties"), outer.get("additionalProperties")
        given = _listed(inner, "required")
        for name in _listed(outer, "required"):
            if name not in given:
                yield f"{_inside(at, name)} is required there"
        for name, schema in has.items():
            if name in knows:
                found = self.misfit(schema, knows[name], _inside(at, name), depth)
            elif rest is False or (rest is None and self._named):
                found = f"{_inside(at, name)} is not known there"
            else:
                found = self.misfit(schema, True if rest is None else rest, _inside(at, name), depth)
            if found is not None:
                yield found
        more = inner.get("additionalProperties")
        if not isinstance(more, Mapping) or not more:
            return
        # It names no property, but says what others are.
        for name in knows.keys() - has.keys():
            found = self.misfit(more, knows[name], _inside(at, name), depth)
            if found is not None:
                yield found
        found = self.misfit(more, True if rest is None else rest, _inside(at, "*"), depth)
        if found is not None:
            yield found

    def _array(self, inner: Mapping[str, Any], outer: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        held, taken = inner.get("items", True), outer.get("items", True)
        first = inner.get("prefixItems")
        if isinstance(held, list) or isinstance(taken, list) or (first is not None and taken is not True):
            if not _same(held, taken) or not _same(first, outer.get("prefixItems")):
                yield f"the items of {at or 'it'} are others there"
            return
        found = self.misfit(held, taken, f"{at}[]", depth)
        if found is not None:
            yield found


def _value_misfits(inner: Mapping[str, Any], outer: Mapping[str, Any], at: str) -> Iterator[str]:
    what = at or "it"
    types, taken = types_of(inner), types_of(outer)
    if not types <= taken:
        yield f"{what} may be {' or '.join(sorted(types - taken))}, which is not taken there"
    if "number" in types and _whole(outer) and not _whole(inner):
        yield f"{what} has to be a whole number there"
    values, allowed = _values(inner), _values(outer)
    if allowed is not None:
        known = {frozen(one) for one in allowed}
        if values is None or not known.issuperset(map(frozen, values)):
            yield f"{what} has other values there"
    for keyword, limit in outer.items():
        kind = _SAME.get(keyword) or _LEAST.get(keyword) or _MOST.get(keyword)
        if (kind is None and keyword not in _SAME) or (kind is not None and kind not in types):
            continue
        own = inner.get(keyword)
        if not (_same(own, limit) or _tighter(keyword, own, limit) or _asks_nothing(keyword, limit)):
            yield f"{what} is bound by another `{keyword}` there"


def _asks_nothing(keyword: str, limit: Any) -> bool:
    return limit is False if keyword == "uniqueItems" else keyword in _FROM_NOTHING and limit == 0


def _tighter(keyword: str, own: Any, limit: Any) -> bool:
    """Whether a bound lets through no more than another."""
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in (own, limit)):
        return False
    return bool((keyword in _LEAST and own >= limit) or (keyword in _MOST and own <= limit))


def _same(one: Any, other: Any) -> bool:
    """Whether two parts mean the same wherever they stand: they do not refer to anything."""
    return equal(one, other) and not _refers(one)


def _refers(part: Any) -> bool:
    if isinstance(part, Mapping):
        return not _REFERENCES.isdisjoint(part) or any(map(_refers, part.values()))
    return isinstance(part, list) and any(map(_refers, part))


def types_of(schema: Any) -> frozenset[str]:
    """The types a value may have, whole numbers being numbers."""
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping):
        return _TYPES
    said, values = schema.get("type"), _values(schema)
    if said is None and values is not None:
        return frozenset(map(_type_of, values))
    listed = [said] if isinstance(said, str) else said
    if not isinstance(listed, list):
        return _TYPES
    return frozenset("number" if one == "integer" else str(one) for one in listed)


def _whole(schema: Mapping[str, Any]) -> bool:
    """Whether its numbers are whole ones."""
    said, values = schema.get("type"), _values(schema)
    listed = said if isinstance(said, list) else [said]
    if "integer" in listed:
        return "number" not in listed
    return values is not None and all(not isinstance(one, float) or one.is_integer() for one in values)


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    """All the values it lets through, where it lists them."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else None


def _type_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _map(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _inside(at: str, name: Any) -> str:
    return f"{at}.{name}" if at else f"`{name}`"
