"""Arguments that fit an input schema, as small as they can be: what is required, in the first form allowed."""

from collections.abc import Mapping
from typing import Any, Final

_DEPTH: Final = 12
_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for one call."""
    sampled = _sample(schema, schema, 0)
    return sampled if isinstance(sampled, dict) else {}


def _sample(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return None
    if isinstance(target := schema.get("$ref"), str):
        return _sample(_pointed(target, root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _sample(schema[key][0], root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else None)
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: _sample(properties.get(name), root, depth + 1) for name in schema.get("required") or ()}
    if kind == "array":
        return [_sample(schema.get("items"), root, depth + 1)] * int(schema.get("minItems", 0))
    if kind == "string":
        return str(_FORMATS.get(schema.get("format", ""), "x" * max(1, int(schema.get("minLength", 1)))))
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return False if kind == "boolean" else None


def _pointed(target: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for key in target.lstrip("#/").split("/"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
