"""Whether every value that one JSON Schema takes is taken by another one. This file decides; it awaits nothing.

Law: True is a proof; what cannot be decided is False. The work is bounded by `_MOST`.

`named`: an object takes the properties that it names, at any place that describes it; others only if it says so, or if
it is not the whole and names none. Models send the properties that a schema names. Without `named`, an object takes
what JSON Schema says. For whole numbers, a bound from 2^53 - 1 on is none: some languages write it for each of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aggregator.domain.schema_walk import positions
from aggregator.pins.decide.definition import ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS
from aggregator.pins.decide.facts import (
    LOWER,
    UPPER,
    Facts,
    are_multiples,
    is_number,
    keep_bound,
    key_of,
    mapping_of,
    numbers_too,
    properties_of,
    required_of,
    type_names,
    types_of,
    values_of,
)
from aggregator.pins.decide.findings import same
from aggregator.pins.decide.plain_schema import plain

Schema = Mapping[str, Any]
Names = frozenset[str] | None
"""The names of all properties that an object may have; None if it may have any."""

# Steps of one comparison, levels that are gone into, and cases that are looked at one by one.
_MOST: Final = 8_000
_DEEPEST: Final = 60
_CASES: Final = 200
_PAIR: Final = 5
# Of a place in a list, in a reference.
_DIGITS: Final = 6
# Keywords that say nothing about which values fit, and those that count beside another one only.
_WORDS: Final = frozenset(
    {"title", "description", "$comment", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"}
    | {"$schema", "contentMediaType", "contentEncoding", "contentSchema", "markdownDescription", "enumDescriptions"}
)
_BESIDE: Final = frozenset({"$defs", "definitions", "$anchor", "$id", "id", "then", "else"}) | frozenset(
    {"minContains", "maxContains"}
)
# For which type a bound counts.
_SIZES: Final[Mapping[str, tuple[str, bool]]] = {
    "minLength": ("string", True),
    "maxLength": ("string", False),
    "minItems": ("array", True),
    "maxItems": ("array", False),
    "minProperties": ("object", True),
    "maxProperties": ("object", False),
}
# For which type a keyword counts that has to be the same.
_ONE_TYPE: Final[Mapping[str, str]] = {
    "pattern": "string",
    "format": "string",
    "uniqueItems": "array",
    "contains": "array",
    "unevaluatedItems": "array",
    "dependentRequired": "object",
    "unevaluatedProperties": "object",
}
# Several keywords that mean something together.
_TOGETHER: Final[Mapping[str, tuple[str, ...]]] = {
    "if": ("if", "then", "else"),
    "contains": ("contains", "minContains", "maxContains"),
}
_APPLICATORS: Final = ("allOf", "anyOf", "oneOf")
_MORE_PLACES: Final = ("if", "then", "else", "not")
# With one of these an object may have properties that it does not name.
_MORE_NAMES: Final = frozenset({"patternProperties", "unevaluatedProperties", "dependentSchemas", "dependencies"})
_DEFINITIONS: Final = ("$defs", "definitions")
_NOTHING: Final[Schema] = {"enum": []}
_REFERENCES: Final = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor")


def takes_all(before: Any, after: Any, *, named: bool) -> bool:
    """Return whether `after` takes every value that `before` takes, for certain."""
    return _Comparison(before, after, named=named).holds()


class _TooMuch(Exception):
    """The comparison takes more steps than are made."""


class _Comparison:
    def __init__(self, before: Any, after: Any, *, named: bool) -> None:
        self._before, self._after, self._named = before, after, named
        self._left = _MOST
        # Pairs that are being decided, with the number of parts of the value around it.
        self._open: dict[tuple[Any, ...], int] = {}
        self._decided: dict[tuple[Any, ...], bool] = {}
        # How often an open pair was met.
        self._rounds = 0
        # Pairs are named by addresses, so that what they are about has to stay.
        self._kept: list[Any] = []
        self._inside = 0
        self._same_definitions = self._one_dialect = False

    def holds(self) -> bool:
        try:
            if any(_leads_astray(one) for one in (self._before, self._after)):
                return False
            self._one_dialect = _dialect(self._before) == _dialect(self._after)
            self._before, self._after = (plain(_without_words(one, 0)) for one in (self._before, self._after))
            self._same_definitions = all(
                same(mapping_of(self._before).get(name), mapping_of(self._after).get(name)) for name in _DEFINITIONS
            )
            facts = (self._before,)
            return self._within(facts, self._after, self._names(facts, whole=True))
        except (_TooMuch, TypeError, ValueError, OverflowError, AttributeError, KeyError, RecursionError):
            # A schema may have any value anywhere.
            return False

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuch

    # -- one value

    def _within(self, facts: Facts, new: Any, names: Names) -> bool:
        """Return whether a value that fits all facts, and has no other properties than `names`, fits the new schema."""
        if new is True or (isinstance(new, Mapping) and not new.keys() - _BESIDE):
            return True
        if any(one is False for one in facts):
            return True
        if not isinstance(new, Mapping):
            return False
        key = (*sorted(map(id, facts)), -1, id(new), names)
        if (decided := self._decided.get(key)) is not None:
            return decided
        if key in self._open:
            # A part of a value is smaller than the value; without one the reference goes round.
            self._rounds += 1
            return self._inside > self._open[key]
        self._spend(_PAIR)
        if len(self._open) >= _DEEPEST:
            raise _TooMuch
        self._kept += (*facts, new)
        self._open[key] = self._inside
        rounds = self._rounds
        try:
            found = self._fits(self._flat(facts), new, names, _CASES)
        finally:
            del self._open[key]
        if rounds == self._rounds:
            # Else it was decided for the sake of a pair that is still open.
            self._decided[key] = found
        return found

    def _below(self, facts: Facts, new: Any) -> bool:
        """Return the result of `_within` for a part of the value."""
        self._inside += 1
        try:
            return self._within(facts, new, self._names(facts, whole=False))
        finally:
            self._inside -= 1

    def _flat(self, facts: Facts) -> Facts:
        """Return the facts with the members of `allOf` and the targets of references.

        Beside a reference nothing counts in some dialects, so that nothing is taken from there.
        """
        found: list[Any] = []
        waiting, seen = list(facts), set[int]()
        while waiting:
            one = waiting.pop(0)
            if one is True or id(one) in seen:
                continue
            self._spend(1)
            seen.add(id(one))
            if one is False:
                found.append(_NOTHING)
            elif "$ref" in one:
                waiting.append(_target(self._before, one["$ref"]))
            else:
                found.append(one)
                waiting += one["allOf"] if isinstance(one.get("allOf"), list) else ()
        return tuple(found)

    def _fits(self, facts: Facts, new: Schema, names: Names, most: int) -> bool:
        if all(self._keyword(facts, keyword, new, names) for keyword in new):
            return True
        # The same for each of the cases that the facts leave.
        cases = self._cases(facts, most)
        return cases is not None and all(
            self._fits(self._flat(case), new, names, most // max(2, len(cases))) for case in cases
        )

    def _cases(self, facts: Facts, most: int) -> list[Facts] | None:
        """Return the cases of the first choice that the facts leave; None if there is none, or too many."""
        for at, one in enumerate(facts):
            for keyword in ("anyOf", "oneOf", "type", "enum"):
                choices = one.get(keyword)
                if not isinstance(choices, list) or (len(choices) < 2 and keyword in ("type", "enum")):
                    continue
                if len(choices) > most:
                    return None
                self._spend(len(choices) + len(one))
                rest = {name: value for name, value in one.items() if name != keyword}
                as_facts = choices
                if keyword in ("type", "enum"):
                    as_facts = [{keyword: [choice] if keyword == "enum" else choice} for choice in choices]
                return [(*facts[:at], rest, *facts[at + 1 :], case) for case in as_facts]
        if types_of(facts) == {"boolean"} and values_of(facts) is None:
            return [(*facts, {"enum": [value]}) for value in (True, False)]
        return None

    # -- one keyword

    def _keyword(self, facts: Facts, keyword: str, new: Schema, names: Names) -> bool:
        """Return whether values that fit the facts fit one keyword of the new schema."""
        value, types = new[keyword], types_of(facts)
        if keyword in _BESIDE:
            return True
        if keyword == "type":
            return types <= numbers_too(type_names(value)) and self._are_whole(facts, value)
        if keyword in ("enum", "const"):
            listed, taken = values_of(facts), value if keyword == "enum" else [value]
            if listed is None:
                return False
            self._spend(len(listed) + len(taken))
            return set(map(key_of, listed)) <= set(map(key_of, taken))
        if keyword in LOWER or keyword in UPPER:
            return "number" not in types or keep_bound(facts, keyword, value)
        if keyword in _SIZES:
            of, lower = _SIZES[keyword]
            return of not in types or self._has_size(facts, keyword, value, lower=lower)
        if keyword == "multipleOf":
            return "number" not in types or are_multiples(facts, value)
        if keyword == "$ref":
            return self._within(facts, _target(self._after, value), names)
        if keyword == "allOf":
            return all(self._within(facts, one, names) for one in value)
        if keyword == "anyOf":
            return any(self._within(facts, one, names) for one in value)
        if keyword == "oneOf":
            return self._one_of(facts, new, names)
        if keyword in ("properties", "required", "additionalProperties", "patternProperties", "propertyNames"):
            return "object" not in types or self._of_object(facts, keyword, new, names)
        if keyword in ("items", "prefixItems", "additionalItems"):
            return "array" not in types or self._of_array(facts, keyword, new)
        if _ONE_TYPE.get(keyword) is not None and _ONE_TYPE[keyword] not in types:
            return True
        if keyword == "uniqueItems" and value is False:
            return True
        return keyword not in _ASSERTING or self._is_same(facts, _TOGETHER.get(keyword, (keyword,)), new)

    def _is_same(self, facts: Facts, keywords: Iterable[str], new: Schema) -> bool:
        """Return whether one of the facts says just the same with some keywords."""
        self._spend(_PAIR * 10)
        if not self._one_dialect and not _EVERYWHERE.issuperset(keywords):
            return False
        wanted = {name: new[name] for name in keywords if name in new}
        if not self._same_definitions and any("$ref" in node for _, node in positions({"allOf": [wanted]})):
            return False
        return any(same({name: one[name] for name in keywords if name in one}, wanted) for one in facts)

    def _are_whole(self, facts: Facts, value: Any) -> bool:
        """Return whether numbers are whole if the new type takes only these."""
        taken = type_names(value)
        if "number" in taken or "integer" not in taken or "number" not in types_of(facts):
            return True
        listed = values_of(facts)
        if listed is not None:
            return all(not isinstance(one, float) or one.is_integer() for one in listed)
        return any("number" not in type_names(one["type"]) for one in facts if "type" in one)

    def _has_size(self, facts: Facts, keyword: str, value: Any, *, lower: bool) -> bool:
        listed = values_of(facts)
        if listed is not None:
            kind = {"string": str, "array": list, "object": dict}[_SIZES[keyword][0]]
            sizes = [len(one) for one in listed if isinstance(one, kind)]
            return all(size >= value if lower else size <= value for size in sizes)
        if lower and value <= 0:
            return True
        if keyword == "minProperties" and len(required_of(facts)) >= value:
            return True
        bounds = (one[keyword] for one in facts if is_number(one.get(keyword)))
        return any(bound >= value if lower else bound <= value for bound in bounds)

    def _one_of(self, facts: Facts, new: Schema, names: Names) -> bool:
        branches = new["oneOf"]
        if self._is_same(facts, ("oneOf",), new):
            return True
        return any(
            self._within(facts, one, names)
            and all(other == at or self._are_apart(facts, branch) for other, branch in enumerate(branches))
            for at, one in enumerate(branches)
        )

    def _are_apart(self, facts: Facts, branch: Any) -> bool:
        """Return whether no value that fits the facts fits a branch of the new schema, for certain."""
        self._spend(_PAIR)
        if isinstance(branch, Mapping) and "$ref" in branch:
            branch = _target(self._after, branch["$ref"])
        if not isinstance(branch, Mapping) or "$ref" in branch:
            return branch is False
        if types_of(facts).isdisjoint(types_of((branch,))) or self._have_no_value_in_common(facts, (branch,)):
            return True
        if types_of(facts) != {"object"}:
            return False
        # A property that each value has, with other values than the branch takes.
        asked = required_of(facts)
        parts = (
            (self._property(facts, name, None), part) for name, part in properties_of(branch).items() if name in asked
        )
        return any(
            about is None or (isinstance(part, Mapping) and self._have_no_value_in_common(self._flat(about), (part,)))
            for about, part in parts
        )

    def _have_no_value_in_common(self, facts: Facts, others: Facts) -> bool:
        mine, theirs = values_of(facts), values_of(others)
        if mine is None or theirs is None:
            return False
        self._spend(len(mine) + len(theirs))
        return set(map(key_of, mine)).isdisjoint(map(key_of, theirs))

    # -- objects and lists

    def _names(self, facts: Facts, *, whole: bool) -> Names:
        """Return the names of all properties that an object has; None if it may have others."""
        if not self._named:
            return None
        found: set[str] = set()
        waiting, seen = list(facts), set[int]()
        while waiting:
            one = waiting.pop()
            if not isinstance(one, Mapping) or id(one) in seen:
                continue
            self._spend(1)
            seen.add(id(one))
            if not _MORE_NAMES.isdisjoint(one) or one.get("additionalProperties", False) is not False:
                return None
            found.update(properties_of(one))
            whole = whole or "additionalProperties" in one
            waiting += (one[name] for name in _MORE_PLACES if name in one)
            for name in _APPLICATORS:
                waiting += one[name] if isinstance(one.get(name), list) else ()
            if "$ref" in one:
                waiting.append(_target(self._before, one["$ref"]))
        return frozenset(found) if found or whole else None

    def _property(self, facts: Facts, name: str, names: Names) -> Facts | None:
        """Return the facts about a property; None if no object that fits has it."""
        if names is not None and name not in names:
            return None
        found: list[Any] = []
        for one in facts:
            if name in (properties := properties_of(one)):
                found.append(properties[name])
            elif "additionalProperties" in one and "patternProperties" not in one:
                found.append(one["additionalProperties"])
        return None if any(one is False for one in found) else tuple(found)

    def _others(self, facts: Facts, names: Names) -> Facts | None:
        """Return the facts about properties that are not named; None if there are none."""
        if names is not None:
            return None
        found = [
            one["additionalProperties"]
            for one in facts
            if "additionalProperties" in one and "patternProperties" not in one
        ]
        return None if any(one is False for one in found) else tuple(found)

    def _of_object(self, facts: Facts, keyword: str, new: Schema, names: Names) -> bool:
        listed = values_of(facts)
        if listed is not None and any(isinstance(one, dict) for one in listed):
            return False
        value = new[keyword]
        if keyword == "required":
            return required_of(facts).issuperset(value)
        if keyword == "propertyNames":
            every = value is True or (value.keys() <= {"type"} and "string" in type_names(value.get("type", "string")))
            return every or self._is_same(facts, (keyword,), new)
        known = {name for one in facts for name in properties_of(one)}
        self._spend(len(known) + len(names or ()))
        if keyword == "properties":
            parts = [(self._property(facts, name, names), schema) for name, schema in value.items()]
            return all(about is None or self._below(about, schema) for about, schema in parts)
        schemas = list(value.values()) if keyword == "patternProperties" else [value]
        apart = properties_of(new).keys() if keyword == "additionalProperties" else set[str]()
        abouts = [self._property(facts, name, names) for name in sorted((known if names is None else names) - apart)]
        abouts.append(self._others(facts, names))
        return all(self._below(about, schema) for schema in schemas for about in abouts if about is not None)

    def _of_array(self, facts: Facts, keyword: str, new: Schema) -> bool:
        listed = values_of(facts)
        if listed is not None and any(isinstance(one, list) and one for one in listed):
            return False
        if any("prefixItems" in one or isinstance(one.get("items"), list) for one in (*facts, new)):
            return self._is_same(facts, ("items", "prefixItems", "additionalItems"), new)
        if keyword == "additionalItems":
            # It counts beside a list of schemas only.
            return True
        if any(one.get("maxItems") == 0 for one in facts):
            return True
        return self._below(tuple(one["items"] for one in facts if "items" in one), new["items"])


# Keywords that say which values fit, besides those that are compared above: their new value has to be the same.
_ASSERTING: Final = frozenset(
    {"pattern", "format", "uniqueItems", "not", "if", "contains", "dependentRequired", "dependentSchemas"}
    | {
        "unevaluatedItems",
        "unevaluatedProperties",
        "dependencies",
        "extends",
        "disallow",
        "divisibleBy",
        "x-mcp-header",
    }
)


# Of these, the ones that mean the same in each dialect.
_EVERYWHERE: Final = frozenset({"pattern", "format", "uniqueItems", "x-mcp-header"})


def _dialect(schema: Any) -> str:
    """Return the dialect that a schema names; an empty text for the current one."""
    named = mapping_of(schema).get("$schema")
    return named.rstrip("#") if isinstance(named, str) and "2020-12" not in named else ""


def _leads_astray(schema: Any) -> bool:
    """Return whether a schema cannot be compared: it has an old dialect, references that are not followed here, an
    id, or an unknown type.
    """
    if any(old in _dialect(schema) for old in ("draft-03", "draft-04", "draft-06")):
        return True
    refers = based = False
    for _, node in positions(schema):
        if any(name in node for name in _REFERENCES):
            return True
        kinds = node.get("type", "")
        if not all(isinstance(one, str) for one in (kinds if isinstance(kinds, list) else [kinds])):
            return True
        target = node.get("$ref")
        refers = refers or target is not None
        if target is not None and not (isinstance(target, str) and (target == "#" or target.startswith("#/"))):
            return True
        based = based or (node is not schema and ("$id" in node or "id" in node))
    return refers and based


def _target(root: Any, reference: Any) -> Any:
    """Return the schema that a reference leads to.

    Raises:
        ValueError: it leads nowhere.
    """
    found = root
    for part in str(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and len(name) < _DIGITS and int(name) < len(found):
            found = found[int(name)]
            continue
        if not isinstance(found, Mapping) or name not in found:
            raise ValueError(reference)
        found = found[name]
    return found


def _without_words(schema: Any, depth: int) -> Any:
    """Return a schema without what only describes its values.

    Raises:
        ValueError: it is nested too deeply.
    """
    if not isinstance(schema, Mapping):
        return schema
    if depth > _DEEPEST:
        raise ValueError(depth)
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _WORDS:
            continue
        if name in SCHEMA_MAPS and isinstance(value, Mapping):
            made[name] = {key: _without_words(part, depth + 1) for key, part in value.items()}
        elif name in SCHEMA_LISTS and isinstance(value, list):
            made[name] = [_without_words(part, depth + 1) for part in value]
        elif name in ONE_SCHEMA:
            made[name] = _without_words(value, depth + 1)
        else:
            made[name] = value
    return made
