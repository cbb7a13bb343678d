"""Walking a JSON Schema: its schema positions, and never the data in it. Loops, never recurses."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Path = tuple[str, ...]

# Levels of a schema that is used: the deepest of 1,508 real ones has 17.
SCHEMA_DEPTH: Final = 100

# The applicators of 2020-12, by the shape of their value. `properties` keeps a path, these end it.
_ONE_SCHEMA: Final = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contentSchema"}
)
_SCHEMA_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAP: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})


def positions(schema: object) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """Yield every schema position, with the path of `properties` keys to it; None once anything else was crossed."""
    stack: list[tuple[Path | None, object]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, Mapping):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, Mapping):
                stack.extend((None if path is None else (*path, name), part) for name, part in value.items())
            elif keyword in _ONE_SCHEMA:
                stack.append((None, value))
            elif keyword in _SCHEMA_LIST and isinstance(value, list):
                stack.extend((None, part) for part in value)
            elif keyword in _SCHEMA_MAP and isinstance(value, Mapping):
                stack.extend((None, part) for part in value.values())


def deeper_than(value: object, limit: int) -> bool:
    """Return whether any JSON value nests more than `limit` levels."""
    level: list[object] = [value]
    for _ in range(limit + 1):
        if not level:
            return False
        below: list[object] = []
        for node in level:
            if isinstance(node, Mapping):
                below.extend(node.values())
            elif isinstance(node, list):
                below.extend(node)
        level = below
    return bool(level)
