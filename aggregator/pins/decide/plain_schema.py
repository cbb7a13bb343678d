"""A JSON Schema without the keywords that refuse no value. This file decides; it awaits nothing.

Law: `plain` takes exactly the values that the schema takes, and says the same about them. Which names an object takes
stays as it is written, since models read that.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from aggregator.domain.schema_walk import positions
from aggregator.pins.decide.definition import ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS
from aggregator.pins.decide.facts import LOWER, UPPER, is_number, type_names, whole_bound

_DEEPEST: Final = 60
_LEAST: Final = ("minLength", "minItems", "minProperties")
# Each text fits these.
_ANY_TEXT: Final = ("", ".*", "^.*", ".*$")
# The formats of texts in the standard. Servers may give others a meaning for numbers, such as `int32`.
_OF_TEXTS: Final = frozenset(
    {"date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri"}
    | {"uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer"}
    | {"regex"}
)
_ONE_OF_ONE: Final = ("allOf", "anyOf", "oneOf")
# Beside these, the only member of a choice can stand in the place of the choice.
_BESIDE: Final = frozenset(
    {"title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"type", "$schema", "$defs", "definitions"}
)


def plain(schema: Any, *, choices: bool = True) -> Any:
    """Return a schema without keywords that refuse no value, and with one form for bounds that mean the same.

    choices: the member of an `anyOf`, `oneOf` or `allOf` of one takes the place of that.
    """
    if any(type(node.get(name)) is bool for _, node in positions(schema) for name in (*LOWER, *UPPER)):
        # Of draft 4, where a bound and a boolean mean something together.
        return schema
    try:
        return _plain(schema, choices, 0)
    except (TypeError, ValueError, OverflowError):
        # A schema may have any value anywhere.
        return schema


def _plain(schema: Any, choices: bool, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return schema
    made = dict(schema)
    for name in SCHEMA_MAPS:
        if isinstance(inner := made.get(name), Mapping):
            made[name] = {key: _plain(part, choices, depth + 1) for key, part in inner.items()}
    for name in SCHEMA_LISTS:
        if isinstance(inner := made.get(name), list):
            made[name] = [_plain(part, choices, depth + 1) for part in inner]
    for name in ONE_SCHEMA:
        if name in made:
            made[name] = _plain(made[name], choices, depth + 1)
    made = _without_idle(made)
    if choices and (only := _only_choice(made)) is not None:
        made = _without_idle(only)
    return made


def _without_idle(schema: Mapping[str, Any]) -> dict[str, Any]:
    made = {name: value for name, value in schema.items() if not _refuses_nothing(name, value, schema)}
    if isinstance(needed := made.get("required"), list) and all(isinstance(one, str) for one in needed):
        made["required"] = sorted(set(needed))
    return _with_plain_bounds(_with_plain_type(made))


def _only_choice(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema with the member of a choice of one in place of the choice, if they say nothing twice."""
    for name in _ONE_OF_ONE:
        inner = schema.get(name)
        if not isinstance(inner, list) or len(inner) != 1 or not isinstance(inner[0], Mapping):
            continue
        rest = {key: value for key, value in schema.items() if key != name}
        twice = [key for key in rest if key in inner[0] and (key != "type" or rest[key] != inner[0][key])]
        if rest.keys() <= _BESIDE and not twice and not ("$ref" in inner[0] and "type" in rest):
            return {**rest, **inner[0]}
    return None


def _kinds(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the types that a schema names; None if it names none."""
    named = schema.get("type")
    listed = named if isinstance(named, list) else [named]
    return type_names(named) if all(isinstance(one, str) for one in listed) else None


def _refuses_nothing(name: str, value: Any, schema: Mapping[str, Any]) -> bool:
    kinds = _kinds(schema)
    if name in _LEAST:
        needed = schema.get("required")
        named = len(set(needed)) if name == "minProperties" and isinstance(needed, list) else 0
        return is_number(value) and value <= named
    if name == "uniqueItems":
        return value is False
    if name == "pattern":
        return value in _ANY_TEXT
    if name == "format":
        return value in _OF_TEXTS and kinds is not None and "string" not in kinds
    if name == "items":
        return value is True and "prefixItems" not in schema
    return name == "multipleOf" and kinds is not None and "number" not in kinds and _divides_one(value)


def _divides_one(value: Any) -> bool:
    return is_number(value) and value > 0 and (Fraction(1) / Fraction(value)).denominator == 1


def _with_plain_type(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that names each of its types once, and whole numbers as such."""
    kinds = _kinds(schema)
    if not kinds:
        return schema
    if "number" in kinds:
        kinds -= {"integer"}
        if is_number(step := schema.get("multipleOf")) and step == 1:
            kinds = kinds - {"number"} | {"integer"}
            schema = {name: value for name, value in schema.items() if name != "multipleOf"}
    return {**schema, "type": next(iter(kinds)) if len(kinds) == 1 else sorted(kinds)}


def _with_plain_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with one bound at each end of its numbers, in one form."""
    kinds = _kinds(schema)
    whole = kinds is not None and "number" not in kinds
    for names, upper in ((LOWER, False), (UPPER, True)):
        given = {name: schema[name] for name in names if name in schema}
        if not given or not all(is_number(value) for value in given.values()):
            continue
        plain_name, exclusive = names
        if whole:
            ends = [whole_bound(value, upper=upper, excludes=name == exclusive) for name, value in given.items()]
            kept = {plain_name: min(ends) if upper else max(ends)}
        elif len(given) == 2:
            open_end, closed = given[exclusive], given[plain_name]
            says_more = open_end <= closed if upper else open_end >= closed
            kept = {exclusive: open_end} if says_more else {plain_name: closed}
        else:
            continue
        schema = {name: value for name, value in schema.items() if name not in names} | kept
    return schema
