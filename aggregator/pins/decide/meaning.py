"""Whether two definitions mean the same although they are written in another way. This file decides; it awaits nothing.

Law: equal meaning is equal values that fit, proven both ways, and equal words at each place of the values. A title that
only repeats a name says nothing.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggregator.pins.decide.containment import takes_all
from aggregator.pins.decide.plain_schema import plain
from aggregator.wire.codec import TooDeep, encode_sorted

# Places that are gone through, and levels.
_MOST: Final = 2_000
_DEEPEST: Final = 60
_LONGEST_TITLE: Final = 120
_SIGNS: Final = re.compile(r"[\W_]+")
# The titles that libraries give to the whole schema of a tool end so.
_OF_WHOLE: Final = (
    *("arguments", "args", "input", "inputschema", "params", "parameters"),
    *("output", "outputschema", "result"),
)
# Keywords whose values are compared by what fits, or are for no reader. Bounds count at each place.
_NO_WORDS: Final = frozenset(
    {"type", "enum", "const", "required", "properties", "additionalProperties", "patternProperties", "propertyNames"}
    | {"items", "prefixItems", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contains"}
    | {"$ref", "$defs", "definitions", "$schema", "$id", "$anchor"}
)
_EXACT: Final = 2**53 - 1
_MORE: Final = ("additionalProperties", "patternProperties", "items", "prefixItems")
# Behind one of these, a place is no longer that of the arguments themselves.
_INSIDE: Final = frozenset({"properties", "patternProperties", "items", "prefixItems", "additionalProperties"})
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_ONE: Final = ("items", "additionalProperties", "contains", "not", "if", "then", "else")

_Place = tuple[str, ...]


def mean_the_same(before: Any, after: Any, *, named: bool) -> bool:
    """Return whether two schemas take the same values and say the same about them, for certain."""
    try:
        before, after = plain(before), plain(after)
        if _words(before) != _words(after):
            return False
    except (ValueError, TypeError, AttributeError, TooDeep):
        # A schema may have any value anywhere.
        return False
    return takes_all(before, after, named=named) and takes_all(after, before, named=named)


def repeats_name(title: Any, *names: str) -> bool:
    """Return whether a title has the letters and digits of a name, or is not there."""
    if title is None:
        return True
    if not isinstance(title, str) or len(title) > _LONGEST_TITLE:
        return False
    said = _folded(title)
    return any(said == _folded(name) for name in names)


def _folded(text: str) -> str:
    return _SIGNS.sub("", text).casefold()


def _words(schema: Any) -> set[tuple[_Place, str, bytes]]:
    """Return what a schema says about its values, by place, with references followed.

    Raises:
        ValueError: it has too many places, or a reference that leads nowhere, out of it, or round.
    """
    found: set[tuple[_Place, str, bytes]] = set()
    steps = 0
    waiting: list[tuple[_Place, Any, tuple[str, ...]]] = [((), schema, ())]
    while waiting:
        place, node, names = waiting.pop()
        steps += 1
        if steps > _MOST or len(place) > _DEEPEST:
            raise ValueError(steps)
        if not isinstance(node, Mapping):
            continue
        for keyword, value in node.items():
            if keyword in _NO_WORDS or (keyword == "title" and _says_nothing(value, place, names)):
                continue
            if keyword in ("minimum", "maximum") and isinstance(value, int) and abs(value) == _EXACT:
                continue
            found.add((place, keyword, encode_sorted(value)))
        # Which other properties an object takes is part of what it says.
        more = (keyword for keyword in _MORE if node.get(keyword, False) is not False)
        found.update((place, keyword, b"") for keyword in more if not _is_usual(keyword, node, place))
        named = node.get("properties")
        found.update((place, "properties", name.encode()) for name in (named if isinstance(named, Mapping) else ()))
        waiting += _below(schema, place, node, names)
    return found


def _is_usual(keyword: str, node: Mapping[str, Any], place: _Place) -> bool:
    """Return whether a list takes any items, or a value below the arguments any properties, as without the keyword."""
    if node[keyword] is not True and node[keyword] != {}:
        return False
    if keyword == "items":
        return "prefixItems" not in node
    names_none = not node.get("properties") and not node.get("patternProperties")
    return keyword == "additionalProperties" and names_none and not _INSIDE.isdisjoint(place)


def _says_nothing(title: Any, place: _Place, names: tuple[str, ...]) -> bool:
    if place or names or not isinstance(title, str):
        return repeats_name(title, *names)
    is_name = title.isidentifier() and len(title) <= _LONGEST_TITLE
    return is_name and title.casefold().replace("_", "").endswith(_OF_WHOLE)


def _below(
    root: Any, place: _Place, node: Mapping[str, Any], names: tuple[str, ...]
) -> Iterator[tuple[_Place, Any, tuple[str, ...]]]:
    target = node.get("$ref")
    if target is not None:
        parts = target.split("/") if isinstance(target, str) else []
        defined = root.get(parts[1]) if len(parts) == 3 and parts[0] == "#" and isinstance(root, Mapping) else None
        if not isinstance(defined, Mapping) or parts[2] not in defined or f"#{target}" in names:
            raise ValueError(target)
        yield place, defined[parts[2]], (*names, parts[2], f"#{target}")
    rounds = tuple(name for name in names if name.startswith("#"))
    for keyword in ("properties", "patternProperties"):
        inner = node.get(keyword)
        if isinstance(inner, Mapping):
            yield from (((*place, keyword, name), part, (*rounds, name)) for name, part in inner.items())
    for keyword in _LISTS:
        inner = node.get(keyword)
        if isinstance(inner, list):
            yield from (((*place, keyword, str(at)), part, names) for at, part in enumerate(inner))
    for keyword in _ONE:
        if isinstance(node.get(keyword), Mapping):
            yield (*place, keyword), node[keyword], rounds
