"""Faults in the schemas of a tool that make it unusable for model APIs and for checks: repaired, or named.

Rule: a schema without such faults is the same object afterwards. A keyword with an invalid value is removed if it only
limits values, since the server checks its arguments too. A place that requires a schema and has none, or a reference
that leads nowhere, cannot be repaired.
"""

import re
from collections.abc import Callable, Mapping
from itertools import chain
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Names of types as programming languages have them; None for any value.
_MEANT: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("int", "int32", "int64", "long", "short", "uint", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal", "numeric"), "number"),
    **dict.fromkeys(("str", "text", "char", "varchar"), "string"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("dict", "map", "record", "struct", "json"), "object"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("none", "nil", "undefined"), "null"),
    **dict.fromkeys(("any", "mixed", "unknown", "*", ""), None),
}
# Keywords by the shape of the schemas below them.
_ONE: Final = frozenset(
    {"items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames"}
    | {"unevaluatedProperties", "not", "if", "then", "else", "contentSchema"}
)
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# A type that nothing is known about.
_NOT_MEANT: Final = "?"
_LONGEST_NUMBER: Final = 30
# Characters of a pattern that is compiled, to see whether it is one.
_LONGEST_PATTERN: Final = 2_000
# What Python says of patterns that are none in any dialect.
_NO_PATTERN: Final = re.compile(
    r"missing \)|unbalanced parenthesis|unterminated (?:character set|subpattern)|nothing to repeat|bad escape \(end"
    r"|bad character range [^\\]*\Z|min repeat greater|multiple repeat"
)
# Inside sets, Python warns of these; they are left alone.
_MAY_WARN: Final = re.compile(r"\[\[|--|&&|~~|\|\|")
# What ECMA 262 writes otherwise than Python, or has alone.
_ECMA: Final = ((re.compile(r"\(\?<(?![=!])"), "(?P<"), (re.compile(r"\\[pP]\{[^}]*\}|\\u\{[0-9A-Fa-f]+\}"), "x"))


class UnusableDefinition(ValueError):
    """A schema that cannot be used; the message says where and why."""


def means_object(value: Any) -> bool:
    """Return True if the type of a whole schema is an object, in any spelling."""
    return value == ["object"] or (isinstance(value, str) and _type_meant(value) == "object")


# -- keywords whose values are no schemas


def _is_type(value: Any) -> bool:
    if value.__class__ is str:
        return value in _TYPES
    return _is_texts(value) and bool(value) and _TYPES.issuperset(value)


def _is_texts(value: Any) -> bool:
    return value.__class__ is list and all(one.__class__ is str for one in value) and len(set(value)) == len(value)


def _is_text(value: Any) -> bool:
    return value.__class__ is str


def _is_number(value: Any) -> bool:
    return value.__class__ is int or (value.__class__ is float and isfinite(value))


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_flag(value: Any) -> bool:
    return value.__class__ is bool


def _is_values(value: Any) -> bool:
    return value.__class__ is list and bool(value)


def _is_pattern(value: Any) -> bool:
    if value.__class__ is not str:
        return False
    if len(value) > _LONGEST_PATTERN or _MAY_WARN.search(value) is not None:
        return True
    for written, meant in _ECMA:
        value = written.sub(meant, value)
    try:
        re.compile(value)
    except re.error as problem:
        return _NO_PATTERN.match(problem.msg) is None
    except (RecursionError, OverflowError, ValueError):
        # Too large for Python; others may take it.
        return True
    return True


_KEYWORDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": _is_texts,
    "enum": _is_values,
    "pattern": _is_pattern,
    **dict.fromkeys(("title", "description", "format", "$comment", "$id", "$anchor", "$dynamicAnchor"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$ref", "$dynamicRef"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": _is_positive,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _is_flag),
}
# Bounds that draft-04 has as flags of `minimum` and `maximum`.
_FLAGS_OF: Final[Mapping[str, str]] = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class DialectRules(NamedTuple):
    """The differences of a dialect from 2020-12.

    flags: `exclusiveMinimum` is a flag (draft-04).
    tuples: `items` may be a list (before 2020-12).
    """

    flags: bool
    tuples: bool


LATEST: Final = DialectRules(flags=False, tuples=False)


def dialect_of(uri: object) -> DialectRules:
    """Return the dialect that `$schema` names; without one it is 2020-12."""
    named = uri if isinstance(uri, str) else ""
    return DialectRules("draft-04" in named, "draft-0" in named or "2019-09" in named)


def repaired(
    schema: dict[str, Any], dialect: DialectRules = LATEST, *, refers: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Return the repaired schema and a note for each change.

    refers: it may have references.

    Raises:
        UnusableDefinition: the schema cannot be repaired.
    """
    notes: list[str] = []
    if not _is_sound(schema, dialect):
        mended = _Repair(notes, dialect).schema(schema, "")
        assert isinstance(mended, dict)
        schema = mended
    if refers:
        _check_references(schema)
    return schema, notes


def _is_sound(schema: Any, dialect: DialectRules) -> bool:
    """Return True if nothing is to be mended. Looks at each place once, without building anything."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if node.__class__ is not dict:
            if node.__class__ is bool:
                continue
            return False
        for keyword, value in node.items():
            check = _KEYWORDS.get(keyword)
            if check is not None:
                if not check(value) and not (dialect.flags and keyword in _FLAGS_OF and value.__class__ is bool):
                    return False
            elif keyword in _NAMED:
                if value.__class__ is not dict or (keyword == "patternProperties" and not all(map(_is_pattern, value))):
                    return False
                stack.extend(value.values())
            elif keyword in _SEVERAL:
                if not _is_values(value):
                    return False
                stack.extend(value)
            elif keyword in _ONE:
                if keyword == "items" and value.__class__ is list:
                    if not dialect.tuples:
                        return False
                    stack.extend(value)
                else:
                    stack.append(value)
    return True


class _Repair:
    """The repair of one schema; `notes` collects the changes. Its recursion is bounded by the nesting limit of
    definitions.
    """

    def __init__(self, notes: list[str], dialect: DialectRules) -> None:
        self._notes = notes
        self._dialect = dialect

    def schema(self, node: Any, where: str) -> Any:
        """Return what stands for a schema at a place, as a pointer into the whole."""
        if isinstance(node, bool):
            return node
        if node is None:
            self._note(where, "is null, and any value is taken")
            return {}
        if isinstance(node, str) and (meant := _type_meant(node)) is not _NOT_MEANT:
            self._note(where, f"is {node!r:.40}, and was taken for its type")
            return {"type": meant} if meant is not None else {}
        if not isinstance(node, dict):
            raise UnusableDefinition(f"no schema stands at {where or '#'}")
        return self._keywords(node, where)

    def _keywords(self, node: dict[str, Any], where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for keyword, value in node.items():
            place = f"{where}/{keyword}"
            check = _KEYWORDS.get(keyword)
            if check is not None:
                if check(value) or (self._dialect.flags and keyword in _FLAGS_OF and isinstance(value, bool)):
                    found[keyword] = value
                else:
                    self._mend(found, node, keyword, value, place)
            elif keyword in _NAMED:
                self._named(found, keyword, value, place)
            elif keyword in _SEVERAL:
                if value is None or value == []:
                    self._note(place, "is empty, and was taken out")
                elif isinstance(value, list):
                    found[keyword] = [self.schema(one, f"{place}/{at}") for at, one in enumerate(value)]
                else:
                    raise UnusableDefinition(f"no list of schemas stands at {place:.120}")
            elif keyword in _ONE and value is None:
                self._note(place, "is null, and was taken out")
            elif keyword == "items" and isinstance(value, list):
                self._tuple(found, node, value, place)
            elif keyword in _ONE:
                found[keyword] = self.schema(value, place)
            else:
                found[keyword] = value
        return self._with_flagged(node, found)

    def _tuple(self, found: dict[str, Any], node: dict[str, Any], value: list[Any], place: str) -> None:
        """Put `items` in place that are a list, as dialects before 2020-12 have it."""
        schemas = [self.schema(one, f"{place}/{at}") for at, one in enumerate(value)]
        if self._dialect.tuples:
            found["items"] = schemas
        elif schemas and "prefixItems" not in node:
            self._note(place, "is a list, and is `prefixItems` now")
            found["prefixItems"] = schemas
            if node.get("additionalItems") is not None:
                found["items"] = self.schema(node["additionalItems"], f"{place[:-5]}additionalItems")
        else:
            self._note(place, "is a list, and was taken out")

    def _named(self, found: dict[str, Any], keyword: str, value: Any, place: str) -> None:
        """Put the schemas of a keyword such as `properties` in place."""
        if value is None or value == []:
            self._note(place, "is empty, and was taken out")
            return
        if not isinstance(value, dict):
            raise UnusableDefinition(f"no schemas by name stand at {place:.120}")
        schemas = {}
        for name, one in value.items():
            if keyword == "patternProperties" and not _is_pattern(name):
                self._note(place, "has a name that is no pattern, which was taken out")
            else:
                schemas[name] = self.schema(one, f"{place}/{name}")
        found[keyword] = schemas

    def _with_flagged(self, node: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        """Return keywords that require the properties which say of themselves that they are required (draft-03)."""
        properties = node.get("properties")
        if not isinstance(properties, dict):
            return found
        flagged = [name for name, one in properties.items() if isinstance(one, dict) and one.get("required") is True]
        if flagged:
            found["required"] = list(dict.fromkeys(chain(found.get("required", ()), flagged)))
        return found

    def _mend(self, found: dict[str, Any], node: dict[str, Any], keyword: str, value: Any, place: str) -> None:
        """Put a keyword in place whose value is none of it, or leave it out."""
        if keyword in ("$ref", "$dynamicRef"):
            raise UnusableDefinition(f"the reference at {place:.120} is no text")
        if keyword == "type":
            self._type(found, value, place)
            return
        meant: Any = None
        if keyword == "required":
            names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            meant = list(dict.fromkeys(one for one in names if isinstance(one, str))) or None
        elif keyword in _FLAGS_OF and value is True and _is_number(node.get(_FLAGS_OF[keyword])):
            meant = node[_FLAGS_OF[keyword]]
        elif isinstance(value, str) and (number := _number(value)) is not None and _KEYWORDS[keyword](number):
            meant = number
        if meant is None:
            self._note(place, f"was {_kind(value)} that the keyword does not take, and was taken out")
        else:
            self._note(place, f"was {_kind(value)} that the keyword does not take, and was mended")
            found[keyword] = meant

    def _type(self, found: dict[str, Any], value: Any, place: str) -> None:
        given = value if isinstance(value, list) else [value]
        meant = [_type_meant(one) if isinstance(one, str) else _NOT_MEANT for one in given]
        if None in meant or value is None or value == []:
            self._note(place, "names no type, and was taken out")
            return
        if _NOT_MEANT in meant:
            raise UnusableDefinition(f"the type at {place:.120}, {value!r:.60}, is none of JSON Schema")
        types = list(dict.fromkeys(meant))
        self._note(place, f"was {value!r:.60}, and is {types if len(types) > 1 else types[0]!r} now")
        found["type"] = types if len(types) > 1 else types[0]

    def _note(self, place: str, what: str) -> None:
        self._notes.append(f"what stands at {place[-120:] or '#'} {what}")


def _type_meant(name: str) -> str | None:
    """Return the type that a name stands for, None for any value, `_NOT_MEANT` if it stands for none."""
    lower = name.strip().lower()
    return lower if lower in _TYPES else _MEANT.get(lower, _NOT_MEANT)


def _number(text: str) -> int | float | None:
    try:
        return int(text) if text.strip().lstrip("-").isdecimal() and len(text) < _LONGEST_NUMBER else float(text)
    except ValueError:
        return None


def _kind(value: Any) -> str:
    kinds = {str: "a text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), "a number")


# -- references within the schema


def _check_references(schema: dict[str, Any]) -> None:
    """Raise if a reference into the schema itself leads to no schema.

    Schemas with ids of their own inside are left alone: what `#` means depends on the place there.

    Raises:
        UnusableDefinition: one leads nowhere.
    """
    references: set[str] = set()
    anchors: set[str] = set()
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if node.__class__ is list:
            stack.extend(node)
            continue
        if node.__class__ is not dict:
            continue
        for keyword, value in node.items():
            if value.__class__ is str:
                if keyword == "$ref" and value[:1] == "#":
                    references.add(value)
                elif keyword in ("$anchor", "$dynamicAnchor"):
                    anchors.add(value)
                elif keyword in ("$id", "id") and node is not schema and _is_schema_id(node):
                    return
            elif keyword in _NAMED and value.__class__ is dict:
                stack.extend(value.values())
            elif keyword in _SEVERAL or keyword in _ONE:
                stack.append(value)
    for reference in references:
        if not _leads_to_schema(schema, reference, anchors):
            raise UnusableDefinition(f"the reference {reference!r:.120} leads to no schema")


def _is_schema_id(node: Mapping[str, Any]) -> bool:
    return isinstance(node.get("$id"), str) or isinstance(node.get("id"), str)


def _leads_to_schema(schema: Any, reference: str, anchors: set[str]) -> bool:
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return pointer in anchors
    node = schema
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return False
    return isinstance(node, dict | bool)
