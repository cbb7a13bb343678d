"""The keywords of JSON Schema that hold subschemas, and how large a schema may be to be used. Loops, never recurses."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

Schema = Mapping[str, Any] | bool

# The largest of 1,508 real schemas has 1,029 subschemas.
VALUES_LIMIT: Final = 100_000
SUBSCHEMAS_LIMIT: Final = 5_000

IN_PLACE_ONE: Final = ("not", "if", "then", "else")
IN_PLACE_LIST: Final = ("allOf", "anyOf", "oneOf")
IN_PLACE_MAP: Final = ("dependentSchemas", "dependencies")
CHILD_ONE: Final = (
    "additionalProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
)
CHILD_LIST: Final = ("prefixItems", "items")
CHILD_MAP: Final = ("properties", "patternProperties")
KEPT_APART: Final = ("$defs", "definitions")
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

_ONE: Final = (*IN_PLACE_ONE, *CHILD_ONE, "contentSchema")
_LIST: Final = (*IN_PLACE_LIST, *CHILD_LIST)
_MAP: Final = (*IN_PLACE_MAP, *CHILD_MAP, *KEPT_APART)


def is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    """Yield every schema directly inside this one, with its path."""
    for keyword in _ONE:
        if is_schema(schema.get(keyword)):
            yield (keyword,), schema[keyword]
    for keyword in _LIST:
        if isinstance(schema.get(keyword), list):
            yield from (((keyword, at), part) for at, part in enumerate(schema[keyword]) if is_schema(part))
    for keyword in _MAP:
        if isinstance(schema.get(keyword), dict):
            yield from (((keyword, name), part) for name, part in schema[keyword].items() if is_schema(part))


def joined_reference(base: str, reference: str) -> tuple[str, str]:
    """Return the URI of the resource that a reference leads to from a base, and the fragment.

    Raises:
        ValueError: the reference is none.
    """
    if not reference or reference.startswith("#"):
        return base, reference[1:]
    uri, fragment = urldefrag(urljoin(base, reference))
    return uri, fragment


def size_fault(schema: Mapping[str, Any]) -> str | None:
    """Return why no value can be checked against a schema of this size; None if it is no larger than that."""
    if _has_more_values(schema):
        return f"it holds more than {VALUES_LIMIT:,} values"
    return f"it has more than {SUBSCHEMAS_LIMIT:,} subschemas" if _has_more_subschemas(schema) else None


def _has_more_values(schema: Mapping[str, Any]) -> bool:
    level: list[Any] = [schema]
    count = 0
    while level and count <= VALUES_LIMIT:
        count += len(level)
        inside: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                inside += value.values()
            elif isinstance(value, list | tuple):
                inside += value
        level = inside
    return count > VALUES_LIMIT


def _has_more_subschemas(schema: Mapping[str, Any]) -> bool:
    """Count as `schemas.structure.index` does: each object once, and the parts that references lead to as well."""
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        if len(seen) > SUBSCHEMAS_LIMIT:
            return True
        waiting += (part for _, part in subschemas(node))
        waiting += (_pointed(schema, node[name]) for name in REFERENCES if isinstance(node.get(name), str))
    return False


def _pointed(schema: Mapping[str, Any], reference: str) -> Any:
    """Return the target of a JSON pointer into the schema; None for any other reference."""
    target: Any = schema if reference.startswith("#/") else None
    for part in unquote(reference).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and len(key) < 9 and int(key) < len(target):
            target = target[int(key)]
        else:
            target = target.get(key) if isinstance(target, Mapping) else None
    return target
