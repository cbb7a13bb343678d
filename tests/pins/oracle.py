"""A small evaluator of JSON Schema, and small schemas and values to try all of them.

An object takes the properties that are named for it, at any place that describes it, and others only where
`additionalProperties` says so.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from hypothesis import strategies as st

Schema = Any

_SCALARS: Final[tuple[Any, ...]] = (None, True, 0, 1, 2, 3, "", "a", "bbb")
_INNER: Final[tuple[Any, ...]] = (None, 1, 3, "a", {}, {"a": 1}, {"a": "a", "b": 1}, [1])
_TYPES: Final = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def values() -> list[Any]:
    """Return scalars, and lists and objects of them, two levels deep."""
    made: list[Any] = [*_SCALARS, [], [1], ["a"], [1, 1], [{"a": 1}], {}]
    made += [{name: value} for name in "abc" for value in _INNER]
    made += [{"a": one, "b": other} for one, other in product(_INNER, _INNER)]
    return made


VALUES: Final = values()


_LAX: Final = "x-lax"


def accepts(schema: Schema, value: Any, *, lax: bool = False) -> bool:
    """Return whether a schema takes a value. `lax`: below the top, what names no properties takes any."""
    root = schema if isinstance(schema, Mapping) else {}
    return _accepts(schema, value, {**root, _LAX: True} if lax else root, whole=True)


def _accepts(schema: Schema, value: Any, root: Mapping[str, Any], *, whole: bool = False) -> bool:
    if isinstance(value, dict) and isinstance(schema, Mapping):
        names, is_open = _named(schema, root)
        is_open = is_open or (_LAX in root and not names and not whole)
        if not is_open and not names.issuperset(value):
            return False
    return _fits(schema, value, root)


def _named(schema: Schema, root: Mapping[str, Any]) -> tuple[set[str], bool]:
    if not isinstance(schema, Mapping):
        return set(), False
    names, is_open = set(schema.get("properties", {})), bool(schema.get("additionalProperties", False) is not False)
    inner = [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    inner += [schema["not"]] if "not" in schema else []
    inner += [_target(schema, root)] if "$ref" in schema else []
    for one in inner:
        more, also_open = _named(one, root)
        names |= more
        is_open |= also_open
    return names, is_open


def _target(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Schema:
    return root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], True)


def _fits(schema: Schema, value: Any, root: Mapping[str, Any]) -> bool:
    if isinstance(schema, bool):
        return schema
    return all(_keyword(name, inner, schema, value, root) for name, inner in schema.items())


def _keyword(name: str, inner: Any, schema: Mapping[str, Any], value: Any, root: Mapping[str, Any]) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    match name:
        case "type":
            return any(_TYPES[one](value) for one in ([inner] if isinstance(inner, str) else inner))
        case "enum":
            return any(type(one) is type(value) and one == value for one in inner)
        case "const":
            return type(inner) is type(value) and inner == value
        case "minimum":
            return not number or value >= inner
        case "maximum":
            return not number or value <= inner
        case "multipleOf":
            return not number or value % inner == 0
        case "minLength":
            return not isinstance(value, str) or len(value) >= inner
        case "maxLength":
            return not isinstance(value, str) or len(value) <= inner
        case "uniqueItems":
            return not inner or not isinstance(value, list) or len(value) == len({repr(one) for one in value})
        case "required":
            return not isinstance(value, dict) or all(one in value for one in inner)
        case "properties":
            there = {one: part for one, part in inner.items() if isinstance(value, dict) and one in value}
            return all(_accepts(part, value[one], root) for one, part in there.items())
        case "additionalProperties":
            named = schema.get("properties", {})
            more = [part for one, part in value.items() if one not in named] if isinstance(value, dict) else []
            return all(_accepts(inner, part, root) for part in more)
        case "items":
            return not isinstance(value, list) or all(_accepts(inner, part, root) for part in value)
        case "allOf":
            return all(_fits(one, value, root) for one in inner)
        case "anyOf":
            return any(_fits(one, value, root) for one in inner)
        case "oneOf":
            return sum(_fits(one, value, root) for one in inner) == 1
        case "not":
            return not _fits(inner, value, root)
        case "$ref":
            return _fits(_target(schema, root), value, root)
    return True


_LEAVES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "type": st.sampled_from(
        ["string", "integer", "number", "object", "array", ["string", "null"], ["integer", "object"]]
    ),
    "enum": st.lists(st.sampled_from(_SCALARS), min_size=1, max_size=3),
    "const": st.sampled_from(_SCALARS),
    "minimum": st.integers(0, 3),
    "maximum": st.integers(0, 3),
    "multipleOf": st.integers(1, 3),
    "minLength": st.integers(0, 3),
    "maxLength": st.integers(0, 3),
    "uniqueItems": st.booleans(),
    "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
    "description": st.sampled_from(["One.", "Two."]),
}


def schemas(depth: int = 2, *, refers: bool = True) -> st.SearchStrategy[Any]:
    """Return small schemas; `$ref` leads to `#/$defs/d`, which only a root has."""
    keywords = dict(_LEAVES)
    if depth:
        inner = schemas(depth - 1, refers=refers) | st.booleans()
        listed = st.lists(inner, min_size=1, max_size=2)
        keywords["properties"] = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
        keywords |= {"additionalProperties": inner, "items": inner, "anyOf": listed, "allOf": listed}
        keywords |= {"oneOf": listed, "not": inner}
        if refers:
            keywords["$ref"] = st.just("#/$defs/d")
    names = st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=3)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen}))


@st.composite
def roots(draw: st.DrawFn) -> Any:
    """Return a schema for objects, with a definition."""
    schema = draw(schemas())
    return {**schema, "$defs": {"d": draw(schemas(1, refers=False))}}


@st.composite
def edited(draw: st.DrawFn, schema: Any) -> Any:
    """Return a schema with one place made anew: most of it is as it was, so that much can be judged."""
    places = list(_places(schema, ()))
    path, node = draw(st.sampled_from(places))
    keyword = draw(st.sampled_from([*node, *_LEAVES, "properties", "anyOf", "allOf", "oneOf", "additionalProperties"]))
    new = {name: value for name, value in node.items() if name != keyword}
    if draw(st.booleans()) and keyword != "$defs":
        source = draw(schemas(1, refers="d" not in path).filter(lambda one: isinstance(one, dict)))
        new |= {keyword: source[keyword]} if keyword in source else {}
        if keyword in _LEAVES:
            new[keyword] = draw(_LEAVES[keyword])
        elif isinstance(node.get(keyword), list):
            new[keyword] = node[keyword][: draw(st.integers(1, len(node[keyword])))]
        elif keyword == "properties":
            old = node.get(keyword, {})
            new[keyword] = {one: part for one, part in old.items() if draw(st.booleans())}
    elif keyword == "$defs":
        new = dict(node)
    return _with(schema, path, new)


def _places(schema: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    if not isinstance(schema, dict):
        return
    yield path, schema
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            for key, part in value.items():
                yield from _places(part, (*path, name, key))
        elif name in ("anyOf", "allOf", "oneOf"):
            for at, part in enumerate(value):
                yield from _places(part, (*path, name, at))
        elif name in ("items", "additionalProperties", "not"):
            yield from _places(value, (*path, name))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, list):
        return [_with(one, path[1:], new) if at == path[0] else one for at, one in enumerate(value)]
    return {name: _with(one, path[1:], new) if name == path[0] else one for name, one in value.items()}
