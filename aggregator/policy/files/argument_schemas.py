"""Look over the JSON Schemas that tighten arguments: a keyword that is misspelt would tighten nothing.

The schemas are compiled elsewhere; this file finds mistakes that a schema engine accepts.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggregator.config.files.report import nearest
from aggregator.policy.files.wording import PolicyComplaint, describe_value
from aggregator.policy.files.yamltree import Path

_DEEPEST: Final = 30
_TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_ONE: Final = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"additionalItems", "unevaluatedItems", "unevaluatedProperties"}
)
_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_COUNTS: Final = frozenset(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties", "maxContains", "minContains"}
)
_NUMBERS: Final = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"})
_DATA: Final = frozenset({"const", "default", "deprecated", "description", "enum", "examples", "format", "title"})
_OTHER: Final = frozenset(
    {"$comment", "$ref", "$schema", "dependentRequired", "pattern", "readOnly", "required", "type", "uniqueItems"}
    | {"writeOnly", "contentEncoding", "contentMediaType"}
)
KEYWORDS: Final = _ONE | _MANY | _NAMED | _COUNTS | _NUMBERS | _DATA | _OTHER


def find_mistakes(schema: Any, path: Path, depth: int = 0) -> Iterator[PolicyComplaint]:
    """Yield the mistakes in a schema that stands at `path`."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield PolicyComplaint(
            path, f"Expected a JSON Schema, got {describe_value(schema)}.", "Write an object, or true or false."
        )
        return
    if depth > _DEEPEST:
        yield PolicyComplaint(path, f"The schema is nested more than {_DEEPEST} levels deep.", "Make it flatter.")
        return
    for keyword, value in schema.items():
        here = (*path, keyword)
        yield from _keyword(keyword, value, here, schema)
        if keyword in _ONE:
            yield from find_mistakes(value, here, depth + 1)
        elif keyword in _MANY and isinstance(value, list):
            for at, part in enumerate(value):
                yield from find_mistakes(part, (*here, at), depth + 1)
        elif keyword in _NAMED and isinstance(value, Mapping):
            for name, part in value.items():
                yield from find_mistakes(part, (*here, name), depth + 1)


def _keyword(keyword: str, value: Any, here: Path, schema: Mapping[str, Any]) -> Iterator[PolicyComplaint]:
    if keyword not in KEYWORDS:
        meant = nearest(keyword, KEYWORDS)
        fix = f"Did you mean `{meant}`?" if meant else "Names of arguments go under `properties`."
        yield PolicyComplaint(here, f"JSON Schema has no keyword `{keyword}`: it would have no effect.", fix)
    elif (keyword in _MANY or keyword == "enum") and not (isinstance(value, list) and value):
        yield PolicyComplaint(
            here, f"Expected a list with something in it, got {describe_value(value)}.", "Correct the value."
        )
    elif keyword in _NAMED and not isinstance(value, Mapping):
        yield PolicyComplaint(
            here, f"Expected an object with keys, got {describe_value(value)}.", "Write a schema per name."
        )
    elif keyword in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        yield PolicyComplaint(
            here, f"Expected a whole number from 0 up, got {describe_value(value)}.", "Correct the value."
        )
    elif keyword in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        yield PolicyComplaint(here, f"Expected a number, got {describe_value(value)}.", "Correct the value.")
    elif keyword == "type":
        yield from _type(value, here)
    elif keyword == "required":
        yield from _required(value, here)
    elif keyword == "pattern":
        yield from _pattern(value, here)
    elif keyword == "patternProperties":
        for name in value:
            yield from _pattern(name, (*here, name))
    elif keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
        yield PolicyComplaint(
            here, "A schema here refers only into itself.", "Write #/$defs/NAME, or copy what is meant."
        )


def _type(value: Any, here: Path) -> Iterator[PolicyComplaint]:
    for one in value if isinstance(value, list) else [value]:
        if one not in _TYPES:
            meant = nearest(one, _TYPES) if isinstance(one, str) else None
            fix = f"Did you mean `{meant}`?" if meant else f"The types are {', '.join(_TYPES)}."
            yield PolicyComplaint(here, f"There is no type {describe_value(one)}.", fix)


def _required(value: Any, here: Path) -> Iterator[PolicyComplaint]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        yield PolicyComplaint(
            here, f"Expected a list of names, got {describe_value(value)}.", "Write the names of arguments."
        )


def _pattern(value: Any, here: Path) -> Iterator[PolicyComplaint]:
    if not isinstance(value, str):
        yield PolicyComplaint(here, f"Expected a regular expression, got {describe_value(value)}.", "Put it in quotes.")
        return
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        yield PolicyComplaint(here, "This is not a regular expression.", "Correct it; put it in single quotes.")
