"""The change of one JSON Schema: whether it takes more or fewer values than before. This file decides.

Law: `narrower` and `steering` without `wider` mean that every value that fits now fitted before. A change that cannot
be judged counts as wider. `steering` tells a model which value to send: new values, a new form or default, one value
left of several, a newly required argument.

An object takes the properties that it names; others only if `additionalProperties` says so explicitly. Models send the
properties that a schema names, so an added property is wider although JSON Schema allows it unnamed. With keywords that
describe one object in several places (`allOf`, `$ref` ...) a removed property is not judged.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from aggregator.domain.schema_walk import positions
from aggregator.pins.decide.findings import Findings, new_prose, same, same_but_for_spaces
from aggregator.pins.decide.values_left import has_one_value
from aggregator.wire.codec import encode_sorted

Schema = Mapping[str, Any]

_DEEPEST: Final = 60
_TEXTS: Final = frozenset(
    {"title", "description", "$comment", "markdownDescription", "examples", "example", "default", "deprecated"}
    | {"readOnly", "writeOnly", "errorMessage", "enumDescriptions"}
)
# Of these, white space counts for nothing.
_READ: Final = frozenset({"title", "description", "$comment", "markdownDescription"})
_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_OF_NUMBERS: Final = frozenset({"type", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"})
# A value that fits a narrower schema below these may fit the whole no longer, or the other way round.
_NOT_MONOTONE: Final = frozenset(
    {"oneOf", "not", "if", "contains", "minContains", "maxContains", "propertyNames", "dependentSchemas"}
    | {"unevaluatedItems", "unevaluatedProperties", "dependencies"}
)
# They say more about the value that their own schema is about.
_SAME_PLACE: Final = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
    | {"dependentSchemas", "dependencies", "extends"}
)
_MORE_PROPERTIES: Final = frozenset({"patternProperties", "unevaluatedProperties"})
# Keywords below which only differences of texts are reported.
_ONE_SCHEMA: Final = frozenset(
    {"not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
)
_SCHEMA_MAPS: Final = frozenset({"patternProperties", "dependentSchemas"})
_DEFINITIONS: Final = ("$defs", "definitions")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaChange:
    """The comparison of two schemas of one tool; results go to `findings`."""

    def __init__(self, before: Schema, after: Schema, findings: Findings) -> None:
        self._findings = findings
        keywords: set[str] = set()
        targets: list[str] = []
        for schema in (before, after):
            for _, node in positions(schema):
                keywords.update(node)
                targets += (node[name] for name in _REFERENCES if isinstance(node.get(name), str))
        # References to anything but a definition of the whole may lead to any place of the schema.
        anywhere = any(not _is_to_definition(target) for target in targets)
        self._defined_monotone = _NOT_MONOTONE.isdisjoint(keywords)
        monotone = self._defined_monotone or not anywhere
        self._walk(before, after, "", 0, monotone, not anywhere or _SAME_PLACE.isdisjoint(keywords))

    def _walk(self, before: Any, after: Any, path: str, depth: int, monotone: bool, plain: bool) -> None:
        """Compare two schemas at one place.

        monotone: less here is less in all. plain: no other place of the schema describes these values.
        """
        if same(before, after):
            return
        if before is True and isinstance(after, Mapping):
            # Both take everything; what `after` names is then looked at keyword by keyword.
            before = {}
        if not isinstance(before, Mapping) or not isinstance(after, Mapping) or depth == _DEEPEST:
            if after is False:
                self._less(path, before, after, monotone)
            else:
                self._more(path, before, after)
            return
        here = plain and _SAME_PLACE.isdisjoint(before) and _SAME_PLACE.isdisjoint(after)
        for keyword in sorted(before.keys() | after.keys()):
            if (keyword in before) != (keyword in after) or not same(before[keyword], after[keyword]):
                self._keyword(keyword, before, after, path, depth, monotone, here)

    def _keyword(
        self, keyword: str, before: Schema, after: Schema, path: str, depth: int, monotone: bool, plain: bool
    ) -> None:
        old, new = before.get(keyword), after.get(keyword)
        if keyword == "default" and keyword not in before:
            self._steer(path)
            if new_prose(None, new):
                self._prose()
        elif keyword in _TEXTS:
            self._text(keyword, old, new)
        elif keyword == "properties":
            self._properties(before, after, path, depth, monotone, plain)
        elif keyword == "required":
            self._required(before, after, path, monotone)
        elif keyword in _DEFINITIONS and isinstance(old, Mapping) and isinstance(new, Mapping):
            for name in sorted(old.keys() | new.keys()):
                if name in old and name in new:
                    self._walk(old[name], new[name], path, depth + 1, self._defined_monotone and monotone, False)
                else:
                    self._more(path, old.get(name), new.get(name))
        elif keyword == "items" and not isinstance(old, list) and not isinstance(new, list):
            inner = f"{path}[]"
            old, new = before.get(keyword, True), after.get(keyword, True)
            self._walk(old, new, inner, depth + 1, monotone, plain)
        elif keyword == "additionalProperties":
            self._additional(before, after, path, depth, monotone, plain)
        elif keyword in ("anyOf", "allOf", "oneOf", "prefixItems"):
            self._branches(keyword, old, new, path, depth, monotone)
        elif keyword in _ONE_SCHEMA and keyword in before and keyword in after:
            self._walk(old, new, path, depth + 1, False, False)
        elif keyword in _SCHEMA_MAPS and isinstance(old, Mapping) and _has_names_of(new, old):
            for name in sorted(old):
                self._walk(old[name], new[name], path, depth + 1, False, False)
        else:
            self._bound(keyword, before, after, path, monotone)

    def _text(self, keyword: str, old: Any, new: Any) -> None:
        if keyword in _READ and same_but_for_spaces(old, new):
            self._findings.add("cosmetic")
        elif keyword in ("default", "examples", "example"):
            self._findings.add("description", "defaults or examples in its schema changed")
        else:
            self._findings.add("description", "texts in its schema changed")

    def _properties(self, before: Schema, after: Schema, path: str, depth: int, monotone: bool, plain: bool) -> None:
        old, new = before.get("properties", {}), after.get("properties", {})
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            self._more(path, old, new)
            return
        only_named = all(_names_all(schema) for schema in (before, after))
        for name in sorted(old.keys() | new.keys()):
            inner = f"{path}.{name}" if path else name
            if name not in old:
                self._findings.add("wider")
                self._findings.added.append(inner)
            elif name not in new:
                self._findings.removed.append(inner)
                less = monotone and plain and only_named
                self._findings.add("narrower" if less else "wider")
            else:
                self._walk(old[name], new[name], inner, depth + 1, monotone, plain)
        if not old and not new:
            # None and an empty object name the same properties.
            self._findings.add("narrower" if monotone else "wider")

    def _required(self, whole: Schema, now: Schema, path: str, monotone: bool) -> None:
        old, new = whole.get("required"), now.get("required")
        if not _is_texts(old) or not _is_texts(new):
            self._more(path, old, new)
            return
        before, after = set(old or ()), set(new or ())
        named = _named(whole)
        for name in sorted(after - before):
            inner = f"{path}.{name}" if path else name
            if name in named:
                self._findings.add("steering")
                if not monotone:
                    self._findings.add("wider")
                self._findings.required.append(inner)
            else:
                # A model sends required properties, whether or not `properties` has them.
                self._findings.add("wider")
                if name not in _named(now):
                    self._findings.added.append(inner)
                else:
                    self._findings.required.append(inner)
        for name in sorted(before - after):
            self._findings.add("wider")
            self._findings.optional.append(f"{path}.{name}" if path else name)
        if before == after:
            # Lists of one set; `[]` and none are the same, too.
            self._findings.add("narrower" if monotone else "wider")
        if new_prose(old, new):
            self._prose()

    def _additional(self, before: Schema, after: Schema, path: str, depth: int, monotone: bool, plain: bool) -> None:
        old, new = before.get("additionalProperties"), after.get("additionalProperties")
        if new is False or (old is True and new is None and plain):
            self._less(path, old, new, monotone)
        elif isinstance(old, Mapping | bool) and isinstance(new, Mapping | bool):
            self._walk(old, new, f"{path}.*" if path else "*", depth + 1, monotone, plain)
        else:
            self._more(path, old, new)

    def _branches(self, keyword: str, old: Any, new: Any, path: str, depth: int, monotone: bool) -> None:
        if not isinstance(old, list) or not isinstance(new, list):
            self._more(path, old, new)
            return
        if keyword == "prefixItems" and len(old) != len(new):
            self._more(path, old, new)
            return
        one_is_left = keyword == "anyOf" and len(new) == 1 < len(old)
        if keyword != "prefixItems":
            old, new = _unmatched(old, new)
            if not old and not new:
                self._findings.add("cosmetic", "the order of values changed")
                return
        inner = monotone and keyword != "oneOf"
        if len(old) == len(new):
            for one, other in zip(old, new, strict=True):
                self._walk(one, other, path, depth + 1, inner, False)
        elif keyword == "anyOf" and not new:
            self._less(path, old, new, inner, steers=one_is_left)
        else:
            self._more(path, old, new)

    def _bound(self, keyword: str, before: Schema, after: Schema, path: str, monotone: bool) -> None:
        had, has, old, new = keyword in before, keyword in after, before.get(keyword), after.get(keyword)
        if keyword == "enum" and _same_values(old, new):
            self._findings.add("cosmetic", "the order of values changed")
        elif _is_less(keyword, had, old, has, new):
            self._less(path, old, new, monotone, steers=_steers(keyword, had, new, before, after))
        else:
            if monotone and _lacks_some(keyword, old, new):
                # Other values in place of some: that these are gone is what fails approved calls.
                self._findings.add("narrower")
                self._findings.narrower.append(path)
            self._more(path, old, new)

    def _less(self, path: str, old: Any, new: Any, monotone: bool, *, steers: bool = False) -> None:
        if steers:
            self._steer(path)
        if not monotone:
            self._more(path, old, new)
            return
        if not steers:
            self._findings.add("narrower")
            self._findings.narrower.append(path)
        if new_prose(old, new):
            self._prose()

    def _steer(self, path: str) -> None:
        self._findings.add("steering")
        self._findings.steered.append(path)

    def _more(self, path: str, old: Any, new: Any) -> None:
        self._findings.add("wider")
        self._findings.wider.append(path)
        if new_prose(old, new):
            self._prose()

    def _prose(self) -> None:
        self._findings.add("description", "texts in its schema changed")


def _is_to_definition(target: str) -> bool:
    parts = target.split("/")
    return len(parts) == 3 and parts[0] == "#" and parts[1] in _DEFINITIONS


def _named(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _names_all(schema: Schema) -> bool:
    """Return whether an object takes the properties that it names, and no others."""
    return schema.get("additionalProperties", False) is False and _MORE_PROPERTIES.isdisjoint(schema)


def _is_texts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _unmatched(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the schemas of each list that the other has not, in their order."""
    before, after = ([(encode_sorted(one), one) for one in listed] for listed in (old, new))
    return _without(before, after), _without(after, before)


def _without(some: list[tuple[bytes, Any]], others: list[tuple[bytes, Any]]) -> list[Any]:
    there = Counter(text for text, _ in others)
    rest = []
    for text, one in some:
        if there[text]:
            there[text] -= 1
        else:
            rest.append(one)
    return rest


def _has_names_of(value: Any, other: Schema) -> TypeGuard[Schema]:
    return isinstance(value, Mapping) and value.keys() == other.keys()


def _same_values(old: Any, new: Any) -> bool:
    if not isinstance(old, list) or not isinstance(new, list):
        return False
    return _values(old) == _values(new) and len(old) == len(new)


def _values(listed: list[Any]) -> set[bytes]:
    return {encode_sorted(one) for one in listed}


def _is_less(keyword: str, had: bool, old: Any, has: bool, new: Any) -> bool:
    """Return whether a keyword lets fewer values through than before, for sure."""
    if keyword == "type":
        return has and _types(new) is not None and (not had or _is_fewer_types(old, new))
    if keyword == "enum":
        return isinstance(new, list) and (not had or (isinstance(old, list) and _values(new) <= _values(old)))
    if keyword in _LOWER or keyword in _UPPER:
        if not _is_number(new):
            return False
        return not had or (_is_number(old) and bool(new >= old if keyword in _LOWER else new <= old))
    if keyword == "multipleOf":
        if not isinstance(new, int) or isinstance(new, bool) or new <= 0:
            return False
        return not had or (isinstance(old, int) and not isinstance(old, bool) and old > 0 and new % old == 0)
    if keyword == "uniqueItems":
        return new is True and (not had or old is False)
    return keyword in ("const", "pattern", "format") and has and not had


def _lacks_some(keyword: str, old: Any, new: Any) -> bool:
    """Return whether a list of values or types lacks one that the list before had."""
    if keyword == "type":
        return _types(old) is not None and _types(new) is not None and not _is_fewer_types(new, old)
    return keyword == "enum" and isinstance(old, list) and isinstance(new, list) and not _values(old) <= _values(new)


def _steers(keyword: str, had: bool, new: Any, before: Schema, after: Schema) -> bool:
    """Return whether a keyword that lets fewer values through tells a model which one to send."""
    if keyword == "enum" and (not had or len(new) == 1):
        return True
    if keyword in ("const", "pattern", "format"):
        return True
    if keyword == "minProperties":
        # Each named property is required, also one that `required` lacks.
        optional = _named(after).keys() - set(after["required"] if _is_texts(after.get("required", 0)) else ())
        return bool(optional) and len(_named(after)) <= new
    if not has_one_value(after) or has_one_value(before):
        return False
    rest = {name: value for name, value in after.items() if name != keyword}
    return keyword in _OF_NUMBERS or not has_one_value(rest)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _types(value: Any) -> set[str] | None:
    listed = value if isinstance(value, list) else [value]
    return set(listed) if all(isinstance(one, str) for one in listed) else None


def _is_fewer_types(old: Any, new: Any) -> bool:
    before, after = _types(old), _types(new)
    if before is None or after is None:
        return False
    return after <= before | ({"integer"} if "number" in before else set())
