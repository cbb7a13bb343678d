"""The five dialects of JSON Schema, and the keywords that hold subschemas."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

from aggregator.schemas.fault import UnusableSchema

Schema = Mapping[str, Any] | bool


class Dialect(IntEnum):
    """A dialect of JSON Schema. They are in order of age, so that `<` reads as "older than"."""

    DRAFT_04 = 4
    DRAFT_06 = 6
    DRAFT_07 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020


# S/basic/index, JSON Schema Usage: 2020-12 where nothing is said.
_BY_URI: Final[Mapping[str, Dialect]] = {
    "https://json-schema.org/draft/2020-12/schema": Dialect.DRAFT_2020_12,
    "https://json-schema.org/draft/2019-09/schema": Dialect.DRAFT_2019_09,
    "http://json-schema.org/draft-07/schema": Dialect.DRAFT_07,
    "http://json-schema.org/draft-06/schema": Dialect.DRAFT_06,
    "http://json-schema.org/draft-04/schema": Dialect.DRAFT_04,
}

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


def dialect_of(schema: Schema) -> Dialect:
    """Return the dialect that `$schema` names; 2020-12 where it is absent.

    Raises:
        UnusableSchema: a dialect we do not know.
    """
    uri = schema.get("$schema") if isinstance(schema, Mapping) else None
    if uri is None:
        return Dialect.DRAFT_2020_12
    dialect = _BY_URI.get(uri.rstrip("#")) if isinstance(uri, str) else None
    if dialect is None:
        raise UnusableSchema(f"its $schema, {uri!r:.120}, is not a dialect we know")
    return dialect


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
