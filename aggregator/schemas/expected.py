"""What a schema surely does not take, read within a bound of steps: its types, texts, names, and the parts that apply.

Rule: a doubt counts as "takes it". What cannot be resolved or nests too deep takes everything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.schemas.structure.dialect import Dialect
from aggregator.schemas.structure.local import resolve_reference
from aggregator.schemas.wording import type_of, types_of

# Names that are compared in one step.
COMPARED: Final = 8
# The types of a schema that says nothing of them.
ANY_TYPE: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_SCHEMA_DEPTH: Final = 8


class TooManySteps(Exception):
    """The schema takes too long to read, or the value is very large."""


class SchemaReader:
    """Reads one schema and its parts. Each method raises `TooManySteps` once all together took `steps`."""

    def __init__(self, root: Mapping[str, Any], dialect: Dialect, steps: int) -> None:
        self._root = root
        self._dialect = dialect
        self._left = steps
        self._known: dict[int, frozenset[str]] = {}

    def spend(self, steps: int = 1) -> None:
        """Count steps, of the reader's own or of who uses it."""
        self._left -= steps
        if self._left < 0:
            raise TooManySteps

    def texts(self, schema: Any, depth: int) -> frozenset[str] | None:
        """Return the texts that a schema could take; None for any."""
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self.has_own_base(schema):
            return None
        self.spend()
        found: frozenset[str] | None = None
        if "$ref" in schema:
            target = self._resolved(schema)
            found = self.texts(target, depth + 1) if target is not schema else None
            if self._dialect <= Dialect.DRAFT_07:
                return found
        own = types_of(schema)
        if own and "string" not in own:
            return frozenset()
        if isinstance(schema.get("enum"), list):
            self.spend(len(schema["enum"]) // 4)
            found = _both(found, frozenset(option for option in schema["enum"] if isinstance(option, str)))
        if "const" in schema and self._dialect > Dialect.DRAFT_04:
            found = _both(found, frozenset(option for option in [schema["const"]] if isinstance(option, str)))
        for part in list_of(schema, "allOf"):
            found = _both(found, self.texts(part, depth + 1))
        for keyword in ("anyOf", "oneOf"):
            options = [self.texts(option, depth + 1) for option in list_of(schema, keyword)]
            known = [option for option in options if option is not None]
            if options and len(known) == len(options):
                found = _both(found, frozenset[str]().union(*known))
        return found

    def declared(self, parts: Sequence[Mapping[str, Any]]) -> frozenset[str]:
        """Return the names of members that these schemas declare."""
        lists = [mapping_of(part, "properties") for part in parts]
        self.spend(sum(map(len, lists)) // COMPARED)
        return frozenset(name for names in lists for name in names)

    def required(self, schema: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of members that a schema requires."""
        names = list_of(schema, "required")
        self.spend(len(names) // COMPARED)
        return frozenset(name for name in names if isinstance(name, str))

    def has_own_base(self, schema: Mapping[str, Any]) -> bool:
        """Tell whether references inside the schema count from another place than the root."""
        return schema is not self._root and "$id" in schema

    def _resolved(self, schema: Any) -> Any:
        """Resolve a reference without sibling keywords, or with siblings that its dialect ignores."""
        if isinstance(schema, Mapping) and "$ref" in schema:
            target = resolve_reference(schema, self._root)
            if isinstance(target, Mapping) and "$ref" not in target:
                return target
        return schema

    def kinds(self, schema: Any, depth: int) -> frozenset[str]:
        """Return the types that the schema could take; a type that is missing is surely not taken."""
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self.has_own_base(schema):
            return ANY_TYPE
        known = self._known.get(id(schema))
        if known is None:
            self.spend()
            known = self._known[id(schema)] = self._kinds_of(schema, depth)
        return known

    def _kinds_of(self, schema: Mapping[str, Any], depth: int) -> frozenset[str]:
        kinds = ANY_TYPE
        if "$ref" in schema:
            target = self._resolved(schema)
            kinds = self.kinds(target, depth + 1) if target is not schema else ANY_TYPE
            if self._dialect <= Dialect.DRAFT_07:
                return kinds
        own = types_of(schema)
        if own:
            kinds &= frozenset(own) | (frozenset({"integer"}) if "number" in own else frozenset())
        if isinstance(schema.get("enum"), list):
            self.spend(len(schema["enum"]) // 4)
            kinds &= frozenset(type_of(option) for option in schema["enum"])
        if "const" in schema and self._dialect > Dialect.DRAFT_04:
            kinds &= {type_of(schema["const"])}
        for part in list_of(schema, "allOf"):
            kinds &= self.kinds(part, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            options = list_of(schema, keyword)
            self.spend(len(options) // 4)
            if options:
                kinds &= frozenset().union(*(self.kinds(option, depth + 1) for option in options))
        return kinds

    def applicable(self, schema: Any, value: Any, depth: int) -> list[Mapping[str, Any]]:
        """Return the schemas that the value must fit to fit at all.

        Of alternatives there is only one that is left by its type.
        """
        self.spend()
        if not isinstance(schema, Mapping) or depth > _SCHEMA_DEPTH or self.has_own_base(schema):
            return []
        found: list[Mapping[str, Any]] = []
        if "$ref" in schema:
            target = self._resolved(schema)
            found += self.applicable(target, value, depth + 1) if target is not schema else []
            if self._dialect <= Dialect.DRAFT_07:
                return found
        found.append(schema)
        for part in list_of(schema, "allOf"):
            found += self.applicable(part, value, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            self.spend(len(list_of(schema, keyword)) // 4)
            left = [option for option in list_of(schema, keyword) if takes(self.kinds(option, depth + 1), value)]
            if len(left) == 1:
                found += self.applicable(left[0], value, depth + 1)
        return found


def takes(kinds: frozenset[str], value: Any) -> bool:
    """Tell whether the type of a value is among these."""
    own = type_of(value)
    return own in kinds or (own == "integer" and "number" in kinds) or own not in ANY_TYPE


def list_of(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the list at a keyword, empty if something else is there."""
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def mapping_of(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    """Return the object at a keyword, empty if something else is there."""
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return the texts in both sets; None stands for any text."""
    return other if one is None else one if other is None else one & other
