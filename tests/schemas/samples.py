"""Arguments that nearly fit a schema: built along it, with the mistakes that models make."""

from random import Random
from typing import Any, Final

_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    7,
    "",
    "x",
    "5",
    "true",
    "[1]",
    '{"a": 1}',
    [],
    [1],
    {},
    {"a": None},
)
_DEPTH: Final = 6


def sample(schema: Any, rng: Random, root: Any = None, depth: int = 0, slips: float = 0.08) -> Any:
    """A value that fits where the schema is simple, but for a slip now and then."""
    root = schema if root is None else root
    if rng.random() < slips or not isinstance(schema, dict) or depth > _DEPTH:
        return rng.choice(_ODD)
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#").split("/")[1:]:
            target = target.get(part, {}) if isinstance(target, dict) else {}
        return sample(target, rng, root, depth + 1, slips)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            return sample(rng.choice(schema[keyword]), rng, root, depth + 1, slips)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    return _of_kind(rng.choice(kinds) if isinstance(kinds, list) else kinds, schema, rng, root, depth, slips)


def _of_kind(kind: str, schema: dict[str, Any], rng: Random, root: Any, depth: int, slips: float) -> Any:
    if kind == "object":
        required = schema.get("required", [])
        value = {
            name: sample(part, rng, root, depth + 1, slips)
            for name, part in schema.get("properties", {}).items()
            if (name in required and rng.random() > slips) or rng.random() < 0.5
        }
        if rng.random() < slips:
            value["surplus"] = rng.choice(_ODD)
        return value
    if kind == "array":
        items = schema.get("items", {})
        return [sample(items, rng, root, depth + 1, slips) for _ in range(rng.randint(schema.get("minItems", 0), 3))]
    if kind == "integer":
        return rng.choice([schema.get("minimum", 0), schema.get("maximum", 9), rng.randint(-3, 30), 2.0])
    plain = {"number": rng.choice([0, 1.5, -2, 1e9]), "boolean": rng.random() < 0.5, "null": None}
    return plain[kind] if kind in plain else rng.choice(["a", "b-1", "", "Zürich", "2024-01-31", "x" * 70])
