"""A schema in one line, as a model reads it best: `city: string, extensions?: "base"|"all"`."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from aggregator.schemas.structure.local import resolve_reference

_OPTIONS_SHOWN: Final = 8
_PROPERTIES_SHOWN: Final = 30
# Objects are written out to this depth; lists and alternatives to the other.
_OBJECTS_DEPTH: Final = 3
_DEPTH: Final = 6
_PARTS: Final = 1_000
_PARTS_OF_OUTLINE: Final = 60
_NAMES: Final = 2_000
_LENGTH: Final = 200


def signature(schema: Any, length: int = 1_500) -> str:
    """Return the parameters of a tool, optional ones with a `?`; truncated with `...` at `length` characters."""
    return _cut(_SignatureText(schema).parameters(schema, 0), length)


def outline(schema: Any) -> str:
    """Return a schema in a few words; references are named, not resolved."""
    return _cut(_SignatureText(schema, _PARTS_OF_OUTLINE).shape(schema, 1), _LENGTH)


class _SignatureText:
    """The writer of one line; it writes `any` once a line has so many parts that more would not be read."""

    def __init__(self, root: Any, parts: int = _PARTS) -> None:
        self._root = root
        self._left = parts

    def parameters(self, schema: Any, depth: int) -> str:
        schema = resolve_reference(schema, self._root)
        if not isinstance(schema, Mapping):
            return ""
        properties, required = schema.get("properties"), schema.get("required")
        parts = properties if isinstance(properties, Mapping) else {}
        named = required[:_NAMES] if isinstance(required, list) else []
        needed = {name: True for name in named if isinstance(name, str)}
        # Required parameters come first, so that truncation drops optional ones.
        first = list(islice(parts, _NAMES))
        names = list(dict.fromkeys([*(name for name in first if name in needed), *needed, *first]))
        shown = [
            f"{name[:_LENGTH]}{'' if name in needed else '?'}: {self.shape(parts.get(name, True), depth + 1)}"
            for name in names[:_PROPERTIES_SHOWN]
        ]
        return ", ".join([*shown, "..."] if len(names) > _PROPERTIES_SHOWN else shown)

    def shape(self, schema: Any, depth: int) -> str:
        self._left -= 1
        if isinstance(schema, bool):
            return "any" if schema else "nothing"
        schema = resolve_reference(schema, self._root)
        if not isinstance(schema, Mapping) or depth > _DEPTH or self._left < 0:
            return "any"
        if "$ref" in schema:
            return str(schema["$ref"]).rpartition("/")[2][:40]
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(schema.get("enum"), list):
            shown = [_literal(option) for option in schema["enum"][:_OPTIONS_SHOWN]]
            return "|".join([*shown, "..."] if len(schema["enum"]) > _OPTIONS_SHOWN else shown)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                parts = [self.shape(part, depth + 1) for part in schema[keyword][:_OPTIONS_SHOWN]]
                return "|".join(dict.fromkeys(parts)) or "any"
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return "|".join(self._kind(str(kind), schema, depth) for kind in kinds[:_OPTIONS_SHOWN])
        if kinds is None:
            kinds = (
                "object" if "properties" in schema or "required" in schema else "array" if "items" in schema else "any"
            )
        return self._kind(str(kinds), schema, depth)

    def _kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            items = schema.get("items")
            inside = self.shape(items, depth + 1) if isinstance(items, Mapping) else "any"
            return f"({inside})[]" if _has_alternatives(inside) else f"{inside}[]"
        if kind == "object" and (schema.get("properties") or schema.get("required")) and depth <= _OBJECTS_DEPTH:
            return f"{{{self.parameters(schema, depth)}}}"
        return kind[:40]


def _has_alternatives(text: str) -> bool:
    """Tell whether a `|` stands outside all brackets and quotes."""
    depth = 0
    quoted = False
    for at, character in enumerate(text):
        if character == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif not quoted and character in "({":
            depth += 1
        elif not quoted and character in ")}":
            depth -= 1
        elif character == "|" and not depth and not quoted:
            return True
    return False


def _literal(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**30:
        return "number"
    return _cut(json.dumps(value, ensure_ascii=False), 40)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
