"""The keywords of a schema by the type that they are about, and the sentences for those that an API does not know."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aggregator.dialects.mend.flatten import short_json

# Values and rules that a sentence shows, and characters of a value.
_SHOWN: Final = 12
_VALUE: Final = 200

ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "nullable"}
    | {"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "x-mcp-header"}
)
OBJECTS: Final = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties"}
    | {"maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "dependencies"}
)
ARRAYS: Final = frozenset(
    {"items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems", "minContains"}
    | {"maxContains", "additionalItems"}
)
_STRINGS: Final = frozenset({"pattern", "minLength", "maxLength", "format", "contentEncoding", "contentMediaType"})
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
OF_TYPE: Final[Mapping[str, frozenset[str]]] = {
    "object": OBJECTS,
    "array": ARRAYS,
    "string": _STRINGS,
    "number": _NUMBERS,
    "integer": _NUMBERS,
    "boolean": frozenset(),
}
IN_SUBSET: Final = frozenset(
    {"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern", "minProperties"}
    | {"maxProperties"}
)
IN_STRICT: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "minItems", "maxItems"}
)
CONDITIONS: Final = ("not", "if", "then", "else")
# What is read from other keywords, and needs no sentence of its own.
READ: Final = frozenset(
    {"type", "enum", "const", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref"}
    | {"additionalProperties", "additionalItems", "unevaluatedProperties", "contentEncoding", "contentMediaType"}
)


def takes_text(schema: Mapping[str, Any] | None) -> bool:
    """Tell whether texts fit a schema."""
    if schema is None:
        return False
    return schema.get("type") == "string" or any(takes_text(part) for part in schema.get("anyOf", ()))


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names, or that its keywords are about."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        named = [one for one in kind if isinstance(one, str)]
        return [one for one in dict.fromkeys(named) if not (one == "integer" and "number" in named)]
    about = [name for name in ("object", "array", "string", "number") if not OF_TYPE[name].isdisjoint(schema)]
    return about if len(about) == 1 else []


def type_of(value: Any) -> str:
    """Return the type of a value, in the words of JSON Schema."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def with_sentences(schema: Mapping[str, Any], rules: Iterable[str]) -> dict[str, Any]:
    """Return a schema whose description ends in these sentences."""
    more = " ".join(islice(rules, _SHOWN))
    if not more:
        return dict(schema)
    said = schema.get("description")
    return {**schema, "description": f"{said} {more}" if isinstance(said, str) and said else more}


def values_sentence(values: Sequence[Any]) -> str:
    """Return the sentence that names the allowed values."""
    more = ", …" if len(values) > _SHOWN else ""
    return f"One of {', '.join(map(cut_json, values[:_SHOWN]))}{more}."


def keyword_sentence(key: str, value: Any) -> str:
    """Return the sentence for a keyword that an API does not know."""
    return f"{key}: {cut_json(value)}."


def cut_json(value: Any) -> str:
    """Return a value as JSON, cut."""
    text = short_json(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"
