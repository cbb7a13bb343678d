"""The five dialects of JSON Schema."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from aggregator.domain.subschemas import Schema
from aggregator.schemas.fault import UnusableSchema


class Dialect(IntEnum):
    """A dialect of JSON Schema. They are in order of age, so that `<` reads as "older than"."""

    DRAFT_04 = 4
    DRAFT_06 = 6
    DRAFT_07 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020


# S/basic/index, JSON Schema Usage: 2020-12 by default.
_BY_URI: Final[Mapping[str, Dialect]] = {
    "https://json-schema.org/draft/2020-12/schema": Dialect.DRAFT_2020_12,
    "https://json-schema.org/draft/2019-09/schema": Dialect.DRAFT_2019_09,
    "http://json-schema.org/draft-07/schema": Dialect.DRAFT_07,
    "http://json-schema.org/draft-06/schema": Dialect.DRAFT_06,
    "http://json-schema.org/draft-04/schema": Dialect.DRAFT_04,
}


def dialect_of(schema: Schema) -> Dialect:
    """Return the dialect that `$schema` names; 2020-12 if it is absent.

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
