"""An input schema in the form that the OpenAI and Anthropic APIs accept; any other fails the whole request.

At the top they require a plain object: none of `allOf`, `anyOf`, `oneOf`, `not`, `enum`, `const`, `$ref`. These are
moved into `properties` and `required` as far as possible, and sentences describe the rest. The form is a guide for the
model: the gateway validates each call against the schema itself.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from aggregator.domain.schema_walk import positions
from aggregator.schemas.signature import signature
from aggregator.schemas.structure.local import at_pointer, resolve_reference
from aggregator.wire.codec import decode, encode, encode_sorted

_RULE_LENGTH: Final = 240
_ALTERNATIVES: Final = 6
# The most sentences about what cannot be moved.
_RULES: Final = 20
# The most subschemas that are merged one by one.
_PARTS: Final = 60
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "$comment", "deprecated"})
# Keywords of a subschema with a reference scope of its own: taken apart, its references would change their targets.
_OWN_SPACE: Final = frozenset({"$id", "$anchor", "$defs", "definitions", "$schema"})
# Bounds of which the narrower of two implies the other.
_NARROWER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
_AT_NO_TOP: Final = frozenset(
    {"properties", "required", "allOf", "anyOf", "oneOf", "$ref", "minProperties", "maxProperties"}
)
# Keywords whose meaning does not depend on their neighbours.
_ALONE: Final = frozenset({*_NARROWER, *_ANNOTATIONS, "type", "enum", "pattern", "format", "multipleOf", "uniqueItems"})


class PortableSchema(NamedTuple):
    """A schema in the accepted form: `schema` is a plain object, `rules` are sentences about the rest."""

    schema: dict[str, Any]
    rules: tuple[str, ...]


def portable(schema: Mapping[str, Any], *, items: bool = True) -> PortableSchema:
    """Return the schema as a plain object with `properties`, and the rules that are left; with `items`, every array has
    some.
    """
    copy: dict[str, Any] = decode(encode(schema), inf)
    flat = flattened(copy, copy)
    for _, node in positions(flat.schema):
        if isinstance(node, dict):
            _mend(node, flat.schema, items=items)
    return flat


def flattened(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> PortableSchema:
    """Return a schema of objects, a part of a whole one, as a plain object; parts of it are used, not copied."""
    flat = _Flat(whole)
    flat.hold(schema, first=True)
    flat.settle()
    return PortableSchema(flat.top, tuple(dict.fromkeys(flat.rules)))


class _Flat:
    """A plain object schema under construction: `hold` adds a schema that the arguments fit, `settle` the choices."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._left = _PARTS
        self._properties: dict[str, Any] = {}
        self._required: dict[str, None] = {}
        self._choices: list[tuple[str, list[Any]]] = []
        self.top: dict[str, Any] = {"type": "object", "properties": self._properties}
        self.rules: list[str] = []

    def hold(self, schema: Any, *, first: bool = False) -> None:
        """Add a schema; `first` is the tool's own, whose annotations and definitions are kept."""
        self._left -= 1
        if not isinstance(schema, Mapping) or self._left < 0 or (not first and not _OWN_SPACE.isdisjoint(schema)):
            self._say("The arguments also fit", schema)
            return
        rest: dict[str, Any] = {}
        # References last: their targets may restrict the schema's own properties.
        for key, value in sorted(schema.items(), key=lambda item: item[0] in ("allOf", "$ref")):
            match key, value:
                case "properties", Mapping():
                    for name, part in value.items():
                        self._restrict(name, part, first=first)
                case "required", list():
                    self._required |= dict.fromkeys(name for name in value if isinstance(name, str))
                case "allOf", list():
                    for part in value:
                        self.hold(part)
                case "anyOf" | "oneOf", list():
                    self._choices.append((key, [resolve_reference(branch, self._whole) for branch in value]))
                case "$ref", str() if (target := at_pointer(self._whole, value)) is not None:
                    self.hold(target)
                case (("minProperties" | "maxProperties"), int() | float()):
                    self.top[key] = _NARROWER[key](self.top.get(key, value), value)
                case (("enum" | "const" | "not"), _):
                    self._say("The arguments also fit", {key: value})
                case _ if key in _AT_NO_TOP:
                    # A value of the wrong type, which the keyword ignores.
                    pass
                case _ if first:
                    self.top.setdefault(key, value)
                case _ if key not in _ANNOTATIONS and (key, value) != ("type", "object"):
                    rest[key] = value
        if rest:
            self._say("The arguments also fit", rest)

    def _restrict(self, name: str, part: Any, *, first: bool) -> None:
        """Restrict a property; one that the tool's own schema lacks falls under its `additionalProperties`."""
        others = True if first else self._whole.get("additionalProperties", True)
        known = self._properties.get(name, others)
        if known is not False:
            self._properties[name] = both_of(known, part)

    def settle(self) -> None:
        """Add the properties of any branch, require what all branches require, and put the rest into rules."""
        for keyword, branches in self._choices:
            # Branches may refer to one schema, however many they are.
            known = list({id(branch): branch for branch in branches if isinstance(branch, Mapping)}.values())
            variants: dict[str, list[Any]] = {}
            for branch in known:
                for name, part in _mapping(branch.get("properties")).items():
                    variants.setdefault(name, []).append(part)
            for name, parts in variants.items():
                parts = different(parts)
                self._properties.setdefault(name, parts[0] if len(parts) == 1 else {"anyOf": parts})
            needed = [dict.fromkeys(_names(branch)) for branch in known]
            for name in needed[0] if all(isinstance(branch, Mapping) for branch in branches) and needed else ():
                if all(name in others for others in needed):
                    self._required[name] = None
            said = "; ".join(f"({self._shown(branch)})" for branch in branches[:_ALTERNATIVES])
            more = "; and more" if len(branches) > _ALTERNATIVES else ""
            number = "At least one" if keyword == "anyOf" else "Exactly one"
            self.rules.append(f"{number} of these fits: {said}{more}.")
        if self._required:
            self.top["required"] = list(self._required)

    def _shown(self, branch: Any) -> str:
        """Return a branch as a signature, which models read best, or as JSON."""
        if not isinstance(branch, Mapping):
            return short_json(branch)
        own = _mapping(branch.get("properties"))
        parts = {name: own.get(name, self._properties.get(name, True)) for name in [*own, *_names(branch)]}
        shown = signature({"properties": parts, "required": _names(branch)}, _RULE_LENGTH)
        return shown or short_json(branch)

    def _say(self, subject: str, schema: Any) -> None:
        if len(self.rules) < _RULES:
            self.rules.append(f"{subject} {short_json(schema)}.")


def both_of(one: Any, other: Any) -> Any:
    """Return a schema of the values that fit both schemas."""
    if other in (True, {}) or one == other:
        return one
    if one in (True, {}):
        return other
    both = {"allOf": [one, other]}
    if not isinstance(one, Mapping) or not isinstance(other, Mapping) or "$ref" in one or not set(other) <= _ALONE:
        return both
    merged = dict(one)
    for key, value in other.items():
        if key not in merged or merged[key] == value:
            merged[key] = value
        elif key in _NARROWER and isinstance(value, int | float) and isinstance(merged[key], int | float):
            merged[key] = _NARROWER[key](merged[key], value)
        elif key == "enum" and isinstance(value, list) and isinstance(merged[key], list):
            taken = set(map(_value, value))
            merged[key] = [option for option in merged[key] if _value(option) in taken]
        elif key not in _ANNOTATIONS:
            return both
    return merged


def _value(value: Any) -> tuple[bool, Any]:
    """Return a key that equal JSON values share; true and 1 are not equal."""
    return isinstance(value, bool), encode_sorted(value) if isinstance(value, dict | list) else value


def _mend(node: dict[str, Any], root: Mapping[str, Any], *, items: bool) -> None:
    """Repair what fails the whole request: an array without `items`, a reference without a target."""
    kinds = node.get("type")
    if items and (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)):
        node.setdefault("items", {})
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#") and at_pointer(root, reference) is None:
        del node["$ref"]


def different(parts: Iterable[Any]) -> list[Any]:
    """Return the schemas without those that say the same, each written once: comparing each with each takes long."""
    return list({encode(part): part for part in {id(part): part for part in parts}.values()}.values())


def _names(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def short_json(schema: Any) -> str:
    text = encode(schema).decode("utf-8", "replace")
    return text if len(text) <= _RULE_LENGTH else f"{text[:_RULE_LENGTH]}…"
