"""Whether a new schema takes less than the approved one in ways that leave calls a choice. This file decides; it awaits
nothing.

Law: `loosened` takes away only what a call can keep to without new arguments: bounds, forms, some values of several,
`null`, whole numbers in place of any, a simple type for what had none, an optional argument less. Each call is checked
against the new schema itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aggregator.pins.decide.facts import (
    LOWER,
    UPPER,
    is_number,
    key_of,
    mapping_of,
    properties_of,
    required_of,
    type_names,
    values_of,
)
from aggregator.pins.decide.findings import same
from aggregator.pins.decide.values_left import fits, has_one_value

_DEEPEST: Final = 60
_BOUNDS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "maxProperties", *LOWER, *UPPER}
    | {"multipleOf", "uniqueItems", "pattern", "format"}
)
# With one of these at most nothing is left to send.
_SIZES: Final = frozenset({"maxLength", "maxItems", "maxProperties"})
_LIMITS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_ONE: Final = ("items", "additionalProperties")
_CHOICES: Final = ("anyOf", "oneOf")
_VALUES: Final = frozenset({"const", "enum"})
# From this level on, below an argument, a single value tells one form of an object from the others.
_INSIDE: Final = 2
_NULL: Final[Mapping[str, Any]] = {"type": "null"}
_BESIDE_VALUES: Final = frozenset({"const", "enum", "type", "title", "description"})
_MOST_VALUES: Final = 1_000
_SIMPLE: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_WORDS: Final = frozenset({"title", "description", "default", "examples"})


def loosened(before: Any, after: Any, depth: int = 0, *, optional: bool = False) -> Any:
    """Return a new schema without what is bounded of its narrowing, place by place.

    It takes all that the approved schema takes if, and only if, calls have a choice left at each place. `optional`:
    a call may leave out the argument at this place.
    """
    if _names_a_type(before, after):
        return True
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or depth > _DEEPEST or same(before, after):
        return after
    old, takes_null = _without_null(before)
    new, _ = _without_null(after)
    listed = values_of((old,))
    # The approved definition is served, so the last of its values is not shown as the only one. A free text with one
    # value is held: no call could know the value.
    least = 1 if optional and listed is not None else 2
    if least == 1:
        old, new = _as_list(old), _as_list(new)
    elif depth < _INSIDE and _is_one(new) and not _is_one(old):
        return after
    if not _leaves_values(old, new, listed, least):
        return after
    made = _unbounded(old, new, least, depth) | _loosened_parts(old, new, depth)
    if gone := _removed(old, new):
        made["properties"] = {**mapping_of(made.get("properties")), **dict.fromkeys(gone, True)}
    return {"anyOf": [made, _NULL]} if takes_null else made


def _is_one(schema: Mapping[str, Any]) -> bool:
    return has_one_value(schema) or "const" in schema


def _leaves_values(old: Mapping[str, Any], new: Mapping[str, Any], listed: Sequence[Any] | None, least: int) -> bool:
    """Return whether the new schema takes at least `least` of the listed values, and its limits leave a value."""
    if listed is not None and sum(fits(one, new) for one in listed[:_MOST_VALUES]) < min(least, len(listed)):
        return False
    return not any(
        _is_over(new.get(low), old.get(high)) or _is_over(old.get(low), new.get(high)) for low, high in _LIMITS
    )


def _unbounded(old: Mapping[str, Any], new: Mapping[str, Any], least: int, depth: int) -> dict[str, Any]:
    """Return the keywords of a new schema without those that narrow what the old one takes."""
    tells_apart = depth >= _INSIDE and not _VALUES.intersection(old)
    made: dict[str, Any] = {}
    for name, value in new.items():
        if not (_is_bounded(old, name, value, least) or (tells_apart and name in _VALUES)):
            made[name] = value
        elif name in old:
            # Choices of forms are compared whole, so the approved keyword stays.
            made[name] = old[name]
    if tells_apart and "type" in old and all(fits(one, old) for one in values_of((new,)) or ()):
        made.setdefault("type", old["type"])
    if old.get("type") == "number" and new.get("type") == "integer":
        made["type"] = "number"
    return made


def _loosened_parts(old: Mapping[str, Any], new: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return the keywords of a new schema that hold schemas, each loosened."""
    made: dict[str, Any] = {}
    for name in _MAPS:
        was, now = old.get(name), new.get(name)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            needed = required_of((old,)) | required_of((new,)) if name == "properties" else was.keys()
            made[name] = {
                key: loosened(was.get(key), part, depth + 1, optional=key not in needed) for key, part in now.items()
            }
    for name in _ONE:
        if name in new:
            # A schema without `items` takes any.
            made[name] = loosened(old.get(name, True if name == "items" else None), new[name], depth + 1)
    for name in _CHOICES:
        was, now = old.get(name), new.get(name)
        if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            made[name] = [loosened(one, other, depth + 1) for one, other in zip(was, now, strict=True)]
    return made


def _as_list(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its single value as a list of one."""
    if "const" not in schema:
        return schema
    return {**{name: value for name, value in schema.items() if name != "const"}, "enum": [schema["const"]]}


def _names_a_type(before: Any, after: Any) -> bool:
    """Return whether a place that took anything now takes any text, number or boolean, and that is all it says."""
    said_nothing = before is True or (isinstance(before, Mapping) and before.keys() <= _WORDS)
    if not said_nothing or not isinstance(after, Mapping) or not after.keys() <= {"type", "format", *_WORDS}:
        return False
    kinds = type_names(after.get("type"))
    return bool(kinds - {"null"}) and kinds <= _SIMPLE


def removed_arguments(before: Iterable[str], after: Iterable[str], required: Iterable[str]) -> frozenset[str] | None:
    """Return the approved arguments that are gone; None if calls cannot go on without them.

    before, after: the names of the arguments. required: those that each approved call has.
    """
    was = frozenset(before)
    gone = was.difference(after)
    return None if gone and (gone == was or not gone.isdisjoint(required)) else gone


def _removed(old: Mapping[str, Any], new: Mapping[str, Any]) -> frozenset[str]:
    """Return the properties that a closed object has no more, and that its calls can do without."""
    if new.get("additionalProperties") is not False:
        return frozenset()
    return removed_arguments(properties_of(old), properties_of(new), required_of((old,))) or frozenset()


def _is_bounded(old: Mapping[str, Any], keyword: str, value: Any, least: int) -> bool:
    if keyword in _BOUNDS:
        return keyword not in _SIZES or (is_number(value) and value >= 1)
    if keyword != "enum" or not isinstance(value, list) or len(value) > _MOST_VALUES:
        return False
    listed = old.get("enum")
    known = None if not isinstance(listed, list) else set(map(key_of, listed))
    left = {key_of(one) for one in value if fits(one, old) and (known is None or key_of(one) in known)}
    return len(left) >= least


def _is_over(low: Any, high: Any) -> bool:
    return is_number(low) and is_number(high) and low > high


def _without_null(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return a schema without `null` as one of several types, and whether it was one; values of a choice as `enum`."""
    kinds = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1 and "enum" not in schema:
        rest = sorted(type_names(kinds) - {"null"})
        return {**schema, "type": rest[0] if len(rest) == 1 else rest}, True
    branches = schema.get("anyOf")
    if not isinstance(branches, list):
        return schema, False
    rest_of = [one for one in branches if not (isinstance(one, Mapping) and one.get("type") == "null")]
    takes_null = len(rest_of) < len(branches)
    if rest_of and all(_values(one) for one in rest_of):
        values = [value for one in rest_of for value in _values(one)]
        return {**{name: value for name, value in schema.items() if name != "anyOf"}, "enum": values}, takes_null
    if not takes_null or not rest_of:
        return schema, False
    outer = {name: value for name, value in schema.items() if name != "anyOf"}
    alone = rest_of[0] if len(rest_of) == 1 else None
    if isinstance(alone, Mapping) and outer.keys().isdisjoint(alone.keys() - {"title", "description"}):
        return {**alone, **outer}, True
    return {**outer, "anyOf": rest_of}, True


def _values(branch: Any) -> list[Any]:
    """Return the values of a branch that names them and nothing else; an empty list for another one."""
    if not isinstance(branch, Mapping) or not branch.keys() <= _BESIDE_VALUES:
        return []
    listed = branch.get("enum")
    return [branch["const"]] if "const" in branch else list(listed) if isinstance(listed, list) else []
