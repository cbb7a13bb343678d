"""A schema in one line, as a model reads it best: `city: string, extensions?: "base"|"all"`."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aggregator.schemas.local import followed

_OPTIONS_SHOWN: Final = 8
_PROPERTIES_SHOWN: Final = 30
_DEPTH: Final = 3
_LENGTH: Final = 200


def signature(schema: Any, length: int = 1_500) -> str:
    """The parameters of a tool, required ones marked by having no `?`; cut with `...` at `length` characters."""
    return _cut(_parameters(schema, schema, 0), length)


def outline(schema: Any) -> str:
    """What a schema asks for, in a few words; references go by their own names."""
    return _cut(_shape(schema, schema, 1), _LENGTH)


def _parameters(schema: Any, root: Any, depth: int) -> str:
    schema = followed(schema, root)
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return ""
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    # What must be given comes first, whatever is cut.
    names = sorted(properties, key=lambda name: name not in needed)
    shown = [
        f"{name}{'' if name in needed else '?'}: {_shape(properties[name], root, depth + 1)}"
        for name in names[:_PROPERTIES_SHOWN]
    ]
    return ", ".join([*shown, "..."] if len(names) > _PROPERTIES_SHOWN else shown)


def _shape(schema: Any, root: Any, depth: int) -> str:
    if isinstance(schema, bool):
        return "any" if schema else "nothing"
    schema = followed(schema, root)
    if not isinstance(schema, Mapping):
        return "any"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2][:40]
    if "const" in schema:
        return _literal(schema["const"])
    if isinstance(schema.get("enum"), list):
        shown = [_literal(option) for option in schema["enum"][:_OPTIONS_SHOWN]]
        return "|".join([*shown, "..."] if len(schema["enum"]) > _OPTIONS_SHOWN else shown)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list) and depth <= _DEPTH:
            parts = [_shape(part, root, depth + 1) for part in schema[keyword][:_OPTIONS_SHOWN]]
            return "|".join(dict.fromkeys(parts)) or "any"
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return "|".join(_kind(kind, schema, root, depth) for kind in kinds)
    if kinds is None:
        kinds = "object" if "properties" in schema else "array" if "items" in schema else "any"
    return _kind(str(kinds), schema, root, depth)


def _kind(kind: str, schema: Mapping[str, Any], root: Any, depth: int) -> str:
    if kind == "array":
        items = schema.get("items")
        inside = _shape(items, root, depth + 1) if isinstance(items, Mapping) and depth <= _DEPTH else "any"
        return f"({inside})[]" if "|" in inside else f"{inside}[]"
    if kind == "object" and schema.get("properties") and depth <= _DEPTH:
        return f"{{{_parameters(schema, root, depth)}}}"
    return kind


def _literal(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), 40) if not isinstance(value, int) else f"{value}".lower()[:40]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
