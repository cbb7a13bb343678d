"""Correct the usual mistakes of models: `"5"` for 5, JSON in a string, a lone value for a list, null for nothing.

Law: a value that fits is never touched. A value is changed only if the schema certainly rejects its type, and only to
its single possible meaning.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from aggregator.schemas.fault import UnusableSchema, step
from aggregator.schemas.structure.dialect import Dialect, dialect_of
from aggregator.schemas.structure.local import resolve_reference
from aggregator.schemas.wording import type_of, types_of

_ALL: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
_TRUTH: Final = {"true": True, "false": False, "True": True, "False": False}
_TEXT_LIMIT: Final = 100_000
# Characters of JSON in a text that are read in one step.
_CHARACTERS: Final = 200
_DEPTH: Final = 30
_SCHEMA_DEPTH: Final = 8
_STEPS: Final = 2_000


def coerce(schema: Mapping[str, Any], value: Any) -> tuple[Any, list[str]]:
    """Return the corrected value, new if it differs, and the pointers of the changes."""
    try:
        dialect = dialect_of(schema)
    except UnusableSchema:
        return value, []
    work = _Coercion(schema, dialect)
    try:
        return work.of(schema, value, "", 0), work.changed
    except _TooMuch:
        return value, []


class _TooMuch(Exception):
    """The schema takes too long to read, or the value is very large: it stays as it came."""


class _Coercion:
    """The correction of one value; `changed` are the pointers of the changes."""

    def __init__(self, root: Mapping[str, Any], dialect: Dialect) -> None:
        self._root = root
        self._dialect = dialect
        self._left = _STEPS
        self._known: dict[int, frozenset[str]] = {}
        self.changed: list[str] = []

    def of(self, schema: Any, value: Any, at: str, depth: int) -> Any:
        self._spend()
        if depth > _DEPTH or not isinstance(schema, Mapping) or self._has_own_base(schema):
            return value
        if not _takes(self._kinds(schema, 0), value):
            meaning = self._meant(schema, value)
            if meaning is not _UNCLEAR:
                self.changed.append(at)
                value = meaning
        for part in self._applicable(schema, value, 0) if isinstance(value, dict | list) else ():
            if isinstance(value, dict):
                value = self._object(part, value, at, depth)
            elif isinstance(value, list):
                value = self._array(part, value, at, depth)
        return value

    def _object(self, schema: Mapping[str, Any], value: dict[str, Any], at: str, depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, Mapping):
            return value
        new: dict[str, Any] = {}
        for name, part in value.items():
            of_name = properties.get(name)
            if part is None and name in properties and not (isinstance(required, list) and name in required):
                drop = "null" not in self._kinds(of_name, 0)
            else:
                drop = False
            if drop:
                self.changed.append(step(at, name))
            else:
                new[name] = self.of(of_name, part, step(at, name), depth + 1)
        return new if _differs(new, value) else value

    def _array(self, schema: Mapping[str, Any], value: list[Any], at: str, depth: int) -> list[Any]:
        items = schema.get("items")
        if not isinstance(items, Mapping) or "prefixItems" in schema:
            return value
        new = [self.of(items, part, step(at, number), depth + 1) for number, part in enumerate(value)]
        return new if any(one is not other for one, other in zip(new, value, strict=True)) else value

    def _meant(self, schema: Mapping[str, Any], value: Any) -> Any:
        """Return the one thing the value can mean, or `_UNCLEAR`."""
        kinds = self._kinds(schema, 0)
        if isinstance(value, str) and len(value) <= _TEXT_LIMIT:
            self._spend(len(value) // _CHARACTERS)
            read = _read(value.strip())
            if read is not _UNCLEAR and _takes(kinds, read):
                return read
        if "array" in kinds and value is not None and not isinstance(value, list):
            return self._listed(schema, value)
        return _UNCLEAR

    def _listed(self, schema: Mapping[str, Any], value: Any) -> Any:
        """Return `[value]` if the schema's items are known and accept it, unchanged or corrected."""
        for part in self._applicable(schema, [], 0):
            items = part.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in part:
                continue
            kinds = self._kinds(items, 0)
            if kinds != _ALL and (_takes(kinds, value) or self._meant(items, value) is not _UNCLEAR):
                return [value]
        return _UNCLEAR

    def _spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuch

    def _has_own_base(self, schema: Mapping[str, Any]) -> bool:
        """Tell whether references inside the schema count from another place than the root."""
        return schema is not self._root and "$id" in schema

    def _resolved(self, schema: Any) -> Any:
        """Resolve a reference without sibling keywords, or with siblings that its dialect ignores."""
        if isinstance(schema, Mapping) and "$ref" in schema:
            target = resolve_reference(schema, self._root)
            if isinstance(target, Mapping) and "$ref" not in target:
                return target
        return schema

    def _kinds(self, schema: Any, depth: int) -> frozenset[str]:
        """Return the types that the schema could take; a type that is missing is surely not taken."""
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self._has_own_base(schema):
            return _ALL
        known = self._known.get(id(schema))
        if known is None:
            self._spend()
            known = self._known[id(schema)] = self._kinds_of(schema, depth)
        return known

    def _kinds_of(self, schema: Mapping[str, Any], depth: int) -> frozenset[str]:
        kinds = _ALL
        if "$ref" in schema:
            target = self._resolved(schema)
            kinds = self._kinds(target, depth + 1) if target is not schema else _ALL
            if self._dialect <= Dialect.DRAFT_07:
                return kinds
        own = types_of(schema)
        if own:
            kinds &= frozenset(own) | (frozenset({"integer"}) if "number" in own else frozenset())
        if isinstance(schema.get("enum"), list):
            self._spend(len(schema["enum"]) // 4)
            kinds &= frozenset(type_of(option) for option in schema["enum"])
        if "const" in schema and self._dialect > Dialect.DRAFT_04:
            kinds &= {type_of(schema["const"])}
        for part in _list(schema, "allOf"):
            kinds &= self._kinds(part, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            options = _list(schema, keyword)
            self._spend(len(options) // 4)
            if options:
                kinds &= frozenset().union(*(self._kinds(option, depth + 1) for option in options))
        return kinds

    def _applicable(self, schema: Any, value: Any, depth: int) -> list[Mapping[str, Any]]:
        """Return the schemas that the value must fit to fit at all.

        Of alternatives there is only one that is left by its type.
        """
        self._spend()
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self._has_own_base(schema):
            return []
        found: list[Mapping[str, Any]] = []
        if "$ref" in schema:
            target = self._resolved(schema)
            found += self._applicable(target, value, depth + 1) if target is not schema else []
            if self._dialect <= Dialect.DRAFT_07:
                return found
        found.append(schema)
        for part in _list(schema, "allOf"):
            found += self._applicable(part, value, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            self._spend(len(_list(schema, keyword)) // 4)
            left = [option for option in _list(schema, keyword) if _takes(self._kinds(option, depth + 1), value)]
            if len(left) == 1:
                found += self._applicable(left[0], value, depth + 1)
        return found


_UNCLEAR: Final = object()


def _takes(kinds: frozenset[str], value: Any) -> bool:
    own = type_of(value)
    return own in kinds or (own == "integer" and "number" in kinds) or own not in _ALL


def _read(text: str) -> Any:
    """Read a text as a number, true or false, a JSON object or array."""
    if text in _TRUTH:
        return _TRUTH[text]
    if _NUMBER.fullmatch(text):
        return json.loads(text)
    if text[:1] + text[-1:] in ("{}", "[]"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return _UNCLEAR
    return _UNCLEAR


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return len(new) != len(old) or any(new[name] is not old[name] for name in new)
