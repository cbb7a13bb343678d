"""Compact the schema of a tool by what only repeats itself, and find an example of its arguments.

Law: the compact schema accepts exactly the arguments that the whole one accepts.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

from aggregator.catalog.describe.first_sentence import words_of
from aggregator.domain.schema_walk import positions
from aggregator.wire.codec import decode, encode

_EXAMPLES: Final = 3
_2020: Final = "https://json-schema.org/draft/2020-12/schema"
# Dialects that give every keyword of `_ALIKE` its meaning in 2020-12. (In draft 4, 1.0 is no integer.)
_NEARLY_2020: Final = frozenset(
    {"https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema"}
)
_ALIKE: Final = frozenset(
    {
        "$schema",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
    | {"type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "propertyNames"}
    | {"items", "contains", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minProperties", "maxProperties"}
    | {
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "definitions",
        "$defs",
        "contentEncoding",
        "contentMediaType",
    }
)
# Beside a reference, draft 7 reads nothing else; these say nothing about arguments.
_BESIDE_REFERENCE: Final = frozenset({"$ref", "title", "description", "default", "examples", "$comment", "deprecated"})
_NAME_ENDINGS: Final = frozenset(
    {"arguments", "args", "params", "parameters", "input", "inputs", "schema", "request", "tool"}
)


def compact(schema: Mapping[str, Any], tool: str = "") -> dict[str, Any]:
    """Return a copy without `$schema` (if removing it changes nothing) and without titles that repeat a name."""
    copy: dict[str, Any] = decode(encode(schema), inf)
    if _is_like_2020_12(copy):
        copy.pop("$schema", None)
    if _repeats(copy.get("title"), tool):
        del copy["title"]
    for node in _mappings(copy):
        for keyword in ("properties", "$defs", "definitions"):
            parts = node.get(keyword)
            for name, part in parts.items() if isinstance(parts, dict) else ():
                if isinstance(part, dict) and _repeats(part.get("title"), name):
                    del part["title"]
    return copy


def examples(schema: Any) -> list[dict[str, Any]]:
    """Return arguments to show as usage: the schema's own examples, or one combined from the examples of its
    properties.

    Empty unless every required parameter has an example, a default or a single value.
    """
    if not isinstance(schema, Mapping):
        return []
    own = schema.get("examples")
    if isinstance(own, list) and (given := [example for example in own if isinstance(example, dict)]):
        return given[:_EXAMPLES]
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    put: dict[str, Any] = {}
    shown = False
    for name in dict.fromkeys([*needed, *known]):
        values = _values(known.get(name), needed=name in needed)
        if values:
            put[name] = values[0]
            shown = shown or bool(_list(known.get(name), "examples"))
        elif name in needed:
            return []
    return [put] if put and (shown or needed) else []


def _values(schema: Any, *, needed: bool) -> list[Any]:
    """Return the values an example may use: examples; for a required parameter also its default or only value."""
    found = _list(schema, "examples")
    if found or not needed or not isinstance(schema, Mapping):
        return found
    if schema.get("default") is not None:
        return [schema["default"]]
    if "const" in schema:
        return [schema["const"]]
    options = _list(schema, "enum")
    return options if len(options) == 1 else []


def _list(schema: Any, key: str) -> list[Any]:
    value = schema.get(key) if isinstance(schema, Mapping) else None
    return value if isinstance(value, list) else []


def _is_like_2020_12(schema: Mapping[str, Any]) -> bool:
    dialect = schema.get("$schema")
    if not isinstance(dialect, str) or dialect.rstrip("#") == _2020:
        return True
    return dialect.rstrip("#") in _NEARLY_2020 and all(_means_as_2020_12(node) for _, node in positions(schema))


def _means_as_2020_12(node: Mapping[str, Any]) -> bool:
    if "$ref" in node:
        return set(node) <= _BESIDE_REFERENCE and isinstance(node["$ref"], str) and node["$ref"].startswith("#/")
    return set(node) <= _ALIKE and not isinstance(node.get("items"), list)


def _mappings(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (node for _, node in positions(schema) if isinstance(node, dict))


def _repeats(title: Any, name: str) -> bool:
    if not isinstance(title, str):
        return False
    words = words_of(title)
    while words and words[-1] in _NAME_ENDINGS and words != words_of(name):
        words = words[:-1]
    return words == words_of(name) and bool(words)
