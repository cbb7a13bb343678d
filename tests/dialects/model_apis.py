"""Fakes of model APIs: each refuses a request for one tool that breaks a documented rule."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.peers.toolbox import Json

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_COMBINED: Final = {"anyOf", "oneOf", "allOf"}
_TYPES: Final = {"string", "number", "integer", "boolean", "null", "object", "array"}
_ONE: Final = (
    *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    *("not", "if", "then", "else"),
)
_GEMINI: Final[Mapping[str, set[str]]] = {
    "string": {"enum", "format", "minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "format"},
    "integer": {"minimum", "maximum", "format"},
    "boolean": set(),
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "minProperties", "maxProperties"},
}
_STRICT_NEVER: Final = {
    *("oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "minLength", "maxLength"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties", "contains"),
    *("unevaluatedItems", "minContains", "maxContains", "uniqueItems", "prefixItems", "default", "nullable"),
}
_STRICT_FORMATS: Final = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def nodes(schema: Any, place: str = "#") -> Iterator[tuple[str, Any]]:
    """Every schema in a schema."""
    yield place, schema
    if not isinstance(schema, dict):
        return
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        for name, part in (schema.get(key) or {}).items():
            yield from nodes(part, f"{place}/{name}")
    for key in _ONE:
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{place}/{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, part in enumerate(schema.get(key) or []):
            yield from nodes(part, f"{place}/{key}/{number}")


def _faults_of_2020(schema: Json) -> Iterator[str]:
    for place, node in nodes(schema):
        if isinstance(node, bool):
            continue
        for key in ("exclusiveMinimum", "exclusiveMaximum"):
            if isinstance(node.get(key), bool):
                yield f"{place}: {key} is no number"
        if isinstance(node.get("items"), list):
            yield f"{place}: items is a list"
        kinds = node.get("type", [])
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind not in _TYPES:
                yield f"{place}: type {kind!r}"
        if not isinstance(node.get("required", []), list):
            yield f"{place}: required"
        reference = node.get("$ref", "#")
        if not isinstance(reference, str) or not reference.startswith("#"):
            yield f"{place}: a reference to {reference}"


def anthropic(tool: Json) -> Iterator[str]:
    """`tools.0.input_schema` of the Messages API."""
    schema = tool["inputSchema"]
    yield from _faults_of_2020(schema)
    if schema.get("type") != "object":
        yield "input_schema.type: Input should be 'object'"
    if _COMBINED & schema.keys():
        yield "input_schema does not support oneOf, allOf, or anyOf at the top level"
    for name in schema.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            yield f"property keys should match pattern: {name!r}"


def openai(tool: Json) -> Iterator[str]:
    """`parameters` of a function of the Chat Completions and Responses APIs."""
    schema = tool["inputSchema"]
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        yield "object schema missing properties"
    if {*_COMBINED, "enum", "not", "const"} & schema.keys():
        yield "schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    for place, node in nodes(schema):
        if isinstance(node, dict):
            kinds = node.get("type", [])
            if "array" in (kinds if isinstance(kinds, list) else [kinds]) and "items" not in node:
                yield f"{place}: array schema missing items"
    if len(tool.get("description") or "") > 1_024:
        yield "description: string too long"


def openai_strict(tool: Json) -> Iterator[str]:
    """The same with `strict: true`."""
    yield from openai(tool)
    schema, properties, values, characters = tool["inputSchema"], 0, 0, 0
    for place, node in nodes(schema):
        if not isinstance(node, dict):
            yield f"{place}: schema must be an object"
            continue
        if found := _STRICT_NEVER & node.keys():
            yield f"{place}: {found} not permitted"
        if not {"type", "anyOf", "$ref", "enum"} & node.keys():
            yield f"{place}: schema must have a 'type' key"
        kinds = node.get("type", [])
        if "object" in (kinds if isinstance(kinds, list) else [kinds]):
            own = list(node.get("properties", {}))
            if node.get("additionalProperties") is not False:
                yield f"{place}: 'additionalProperties' is required to be supplied and to be false"
            if sorted(node.get("required", [])) != sorted(own):
                yield f"{place}: 'required' is required to include every key in properties"
            properties, characters = properties + len(own), characters + sum(map(len, own))
        if "format" in node and node["format"] not in _STRICT_FORMATS:
            yield f"{place}: format {node['format']!r}"
        if re.search(r"\(\?<?[=!]", node.get("pattern", "")):
            yield f"{place}: look-around"
        if enum := node.get("enum"):
            length = sum(len(value) for value in enum if isinstance(value, str))
            values, characters = values + len(enum), characters + length
            if len(enum) > 250 and length > 15_000:
                yield f"{place}: enum too long"
    if _levels(schema) > 10:
        yield "too many levels of nesting"
    if properties > 5_000 or values > 1_000 or characters > 120_000:
        yield "schema too large"


def gemini(tool: Json) -> Iterator[str]:
    """`parameters` of a `FunctionDeclaration`: a `Schema`, whose unknown fields are errors."""
    for place, node in nodes(tool["inputSchema"]):
        if not isinstance(node, dict):
            yield f"{place}: Proto field is not a message"
            continue
        if "anyOf" in node:
            if set(node) != {"anyOf"}:
                yield f"{place}: when using any_of, it must be the only field set"
            continue
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _GEMINI:
            yield f"{place}: schema didn't specify the schema type field, or a list: {kind!r}"
            continue
        if unknown := node.keys() - _GEMINI[kind] - {"type", "description", "nullable"}:
            yield f"{place}: unknown name {unknown}"
        if "enum" in node and not all(isinstance(value, str) and value for value in node["enum"]):
            yield f"{place}: enum: cannot be empty, and has texts only"
        if node.get("format", "date-time") not in ("date-time", "enum"):
            yield f"{place}: only 'enum' and 'date-time' are supported for STRING type"
        if kind == "array" and "items" not in node:
            yield f"{place}: items: missing field"
        properties = node.get("properties")
        if properties == {} and place != "#":
            yield f"{place}: properties: should be non-empty for OBJECT type"
        for name in properties or {}:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
                yield f"{place}: invalid property name {name!r}"
        for name in node.get("required", []):
            if name not in (properties or {}):
                yield f"{place}: required: property {name!r} is not defined"
    if _levels(tool["inputSchema"]) > 32:
        yield "maximum allowed nesting depth"


def portable(tool: Json) -> Iterator[str]:
    """Every API."""
    for api in (anthropic, openai, gemini):
        yield from api(tool)


def _levels(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    inside = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    beside = max((_levels(part) for part in schema.get("anyOf", [])), default=0)
    return max(beside, (1 + max(map(_levels, inside), default=0)) if inside or "properties" in schema else 0)


APIS: Final[Mapping[str, tuple[Callable[[Json], Iterator[str]], int]]] = {
    "anthropic": (anthropic, 10_000),
    "openai": (openai, 128),
    "openai-strict": (openai_strict, 128),
    "gemini": (gemini, 512),
    "portable": (portable, 128),
}


def refusals(api: str, tools: Sequence[Json], *, names: bool = True) -> list[str]:
    """Return why an API refuses a request with these tools; empty if it takes them."""
    faults_of, most = APIS[api]
    found = [f"{len(tools)} tools"] if len(tools) > most else []
    for tool in tools:
        if names and not _NAME.fullmatch(tool["name"]):
            found.append(f"{tool['name']}: the name")
        found += [f"{tool['name']}: {fault}" for fault in faults_of(json.loads(json.dumps(tool)))]
    return found
