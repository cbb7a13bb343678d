"""Mend an input schema for a model API: no rule of the API is broken, and little of the meaning is lost.

What the API cannot say becomes a sentence. Law: for arguments of the mended form that the original accepts once they
are read back, nothing but the reading is different; the original decides about all others.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aggregator.dialects.mend.apis import ModelApi
from aggregator.dialects.mend.build import Builder, CannotMend
from aggregator.dialects.mend.flatten import portable
from aggregator.dialects.mend.keys import renamed
from aggregator.dialects.mend.read_back import Reader
from aggregator.domain.schema_walk import SCHEMA_DEPTH, deeper_than, positions
from aggregator.wire.codec import encode

# Bytes of a schema. A larger one would fill the context of a model, and a call may have to wait for its mending.
_LARGEST: Final = 256 * 1024
_COMBINED: Final = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref")
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})


class Mended(NamedTuple):
    """A schema for a model API. rules: sentences about what it cannot say. changes: the mends, in words; empty
    if the schema is as it was. reader: the way back of arguments, if there is one.
    """

    schema: Mapping[str, Any]
    rules: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    reader: Reader | None = None


def mend(schema: Mapping[str, Any], api: ModelApi) -> Mended:
    """Return the schema for a model API; the same object if it breaks no rule.

    Raises:
        CannotMend: the API accepts no form of it.
    """
    if deeper_than(schema, 4 * SCHEMA_DEPTH):
        raise CannotMend("its schema is nested too deeply")
    if len(encode(schema)) > _LARGEST:
        raise CannotMend("its schema is too large")
    flat = portable(schema, items=not api.bare)
    top = flat.schema
    changes = dict.fromkeys(f"`{keyword}` at the top" for keyword in _COMBINED if keyword in schema)
    changes |= dict.fromkeys(_to_2020(top))
    if api.bare and not top["properties"] and "properties" not in schema:
        del top["properties"]
    elif not isinstance(schema.get("properties"), Mapping):
        changes["no `properties` at the top"] = None
    if not api.bare and any("array" in kinds_of(node) and "items" not in node for _, node in positions(schema)):
        changes["arrays without `items`"] = None
    if api.rebuilds:
        builder = Builder(api, top)
        built, reader = builder.root()
        changes |= builder.changes
        return Mended(schema, (), (), None) if built == schema else _mended(built, flat.rules, changes, reader)
    if schema.get("required") == []:
        top.setdefault("required", [])
    reader = _rename(top, api, changes)
    if top == schema:
        return Mended(schema)
    return _mended(top, flat.rules, changes, reader)


def kinds_of(node: Mapping[str, Any]) -> list[Any]:
    """Return the types that a schema names."""
    kind = node.get("type")
    return kind if isinstance(kind, list) else [kind]


def _mended(
    schema: dict[str, Any], rules: tuple[str, ...], changes: Mapping[str, None], reader: Reader | None
) -> Mended:
    return Mended(schema, rules, tuple(changes) or ("the form of its schema",), reader)


def _rename(top: dict[str, Any], api: ModelApi, changes: dict[str, None]) -> Reader | None:
    """Give parameters at the top names that the API takes."""
    properties = top.get("properties", {})
    names = renamed(properties, api.keys)
    if not names:
        return None
    changes["names of parameters"] = None
    top["properties"] = {names.get(name, name): part for name, part in properties.items()}
    if isinstance(top.get("required"), list):
        top["required"] = [names.get(name, name) for name in top["required"]]
    return Reader({new: (own, None) for own, new in names.items()})


def _to_2020(top: dict[str, Any]) -> Iterator[str]:
    """Turn forms of older drafts into those of 2020-12, which all APIs read; yield what was changed."""
    for _, node in positions(top):
        if not isinstance(node, dict):
            continue
        for bound, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(node.get(bound), bool):
                excluded = node.pop(bound)
                if excluded and isinstance(node.get(plain), int | float):
                    node[bound] = node.pop(plain)
                yield "bounds of draft 4"
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
            rest = node.pop("additionalItems", True)
            node["items"] = {} if rest is True else rest
            yield "tuples of older drafts"
        if "required" in node and not isinstance(node["required"], list):
            del node["required"]
            yield "`required` of draft 3"
        reference = node.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            del node["$ref"]
            yield "references to other documents"
        if "type" in node and not all(isinstance(one, str) and one in _TYPES for one in kinds_of(node)):
            del node["type"]
            yield "types that do not exist"
