"""Faults in the schemas of a tool that make it unusable for model APIs and for checks: repaired, or named.

Rule: a schema without such faults is the same object afterwards. A keyword with an invalid value is removed if it only
limits values, since the server checks its arguments too. A place that requires a schema and has none, or a reference
that leads nowhere, cannot be repaired.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from aggregator.catalog.schema_keywords import (
    FLAGGED,
    FLAGS_OF,
    IN_CONTEXT,
    LATEST,
    NAMED,
    ONE,
    SEVERAL,
    TYPES,
    DialectRules,
    UnusableDefinition,
    dialect_of,
    fits_context,
    is_anchor,
    is_number,
    is_pattern,
    is_sound,
    is_texts,
)
from aggregator.catalog.schema_references import References

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
# An unknown type.
_NOT_MEANT: Final = "?"
_LONGEST_NUMBER: Final = 30


def means_object(value: Any) -> bool:
    """Return True if the type of a whole schema is an object, in any spelling."""
    return value == ["object"] or (isinstance(value, str) and _type_meant(value) == "object")


def repaired(
    schema: dict[str, Any], dialect: DialectRules = LATEST, *, refers: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Return the repaired schema and a note for each change.

    refers: it may have references.

    Raises:
        UnusableDefinition: the schema cannot be repaired.
    """
    notes: list[str] = []
    if not is_sound(schema, dialect):
        mended = _Repair(notes, dialect).schema(schema, "")
        assert isinstance(mended, dict)
        schema = mended
    if refers:
        References(schema, dialect).check()
    return schema, notes


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
            if not self._dialect.flags or where.rpartition("/")[2] in FLAGGED:
                return node
            self._note(where, "is true or false, and an object says the same now")
            return {} if node else {"not": {}}
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
            check = self._dialect.keywords.get(keyword)
            if check is not None:
                apart = keyword not in IN_CONTEXT
                if check(value) and (apart or fits_context(keyword, value, node, self._dialect)):
                    found[keyword] = value
                else:
                    self._mend(found, node, keyword, value, place)
            elif keyword in NAMED or keyword == "dependencies":
                self._named(found, keyword, value, place)
            elif keyword in SEVERAL:
                if value is None or value == []:
                    self._note(place, "is empty, and was taken out")
                elif isinstance(value, list):
                    found[keyword] = [self.schema(one, f"{place}/{at}") for at, one in enumerate(value)]
                else:
                    raise UnusableDefinition(f"no list of schemas stands at {place:.120}")
            elif keyword in ONE and value is None:
                self._note(place, "is null, and was taken out")
            elif keyword == "items" and isinstance(value, list):
                self._tuple(found, node, value, place)
            elif keyword in ONE:
                found[keyword] = self.schema(value, place)
            else:
                found[keyword] = value
        return self._with_flagged(node, found)

    def _tuple(self, found: dict[str, Any], node: dict[str, Any], value: list[Any], place: str) -> None:
        """Put `items` in place that are a list, as dialects before 2020-12 have it."""
        schemas = [self.schema(one, f"{place}/{at}") for at, one in enumerate(value)]
        if self._dialect.tuples and schemas:
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
            if keyword == "patternProperties" and not is_pattern(name):
                self._note(place, "has a name that is no pattern, which was taken out")
            elif keyword == "dependencies" and isinstance(one, list):
                if names := list(dict.fromkeys(name for name in one if isinstance(name, str))):
                    schemas[name] = names
                if names != one:
                    self._note(place, "has a list that is none of names, and was mended")
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
        if keyword in ("$ref", self._dialect.dynamic):
            raise UnusableDefinition(f"the reference at {place:.120} is no text")
        if keyword == "type":
            self._type(found, value, place)
            return
        meant: Any = None
        if keyword == "required":
            names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            meant = list(dict.fromkeys(one for one in names if isinstance(one, str))) or None
        elif keyword in FLAGS_OF and value is True and is_number(node.get(FLAGS_OF[keyword])):
            meant = node[FLAGS_OF[keyword]]
        elif keyword == "dependentRequired" and isinstance(value, dict):
            of_name = {name: [one] if isinstance(one, str) else one for name, one in value.items()}
            meant = {name: one for name, one in of_name.items() if is_texts(one)} or None
        elif keyword == "examples" and not isinstance(value, dict) and value is not None:
            meant = [value]
        elif keyword == "$id" and isinstance(value, str) and value[:1] == "#" and is_anchor(value[1:]):
            # As the dialects before 2019-09 name a place.
            self._note(place, "is a name, and is `$anchor` now")
            found["$anchor"] = value[1:]
            return
        elif isinstance(value, str) and (number := _number(value)) is not None:
            meant = number if self._dialect.keywords[keyword](number) else None
        elif keyword == "$schema" and dialect_of(value) is self._dialect:
            meant = self._dialect.uri
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
    return lower if lower in TYPES else _MEANT.get(lower, _NOT_MEANT)


def _number(text: str) -> int | float | None:
    try:
        return int(text) if text.strip().lstrip("-").isdecimal() and len(text) < _LONGEST_NUMBER else float(text)
    except ValueError:
        return None


def _kind(value: Any) -> str:
    kinds = {str: "a text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), "a number")
