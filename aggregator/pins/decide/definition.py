"""The definition of an item as one text, and the digest of that text. This file decides; it awaits nothing.

Rule 1: everything that a model, a user or a host acts on counts, unknown members too. In `_meta` these are the members
of the UI extension and of hosts; the rest is for intermediaries. Rule 2: equal meaning gives equal text: any order of
the members of objects, and of lists that JSON Schema reads as sets; `1` and `1.0`; a text in composed and decomposed
letters; `required: []`, `properties: {}`, members of the protocol that are null or empty, and none of them; one type
and a list of it. Rule 3: no definition raises an error: numbers without a JSON form become null, as hosts get them, and
a value nested too deeply counts by a digest of its own.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from itertools import islice
from typing import Any, Final
from unicodedata import normalize

from aggregator.domain.schema_walk import deeper_than, positions
from aggregator.pins.decide.values import PinKind, PinnedItem
from aggregator.wire.codec import TooDeep, decode, encode_sorted

_SCHEMAS: Final = ("inputSchema", "outputSchema")
# Members of `_meta` by which a host shows an app (ext-apps), and those that hosts of a name act on.
_META: Final = re.compile(r"ui(?:/.*)?|(?:openai|anthropic)/.*", re.DOTALL)
# Levels of nesting; the catalog leaves out definitions that have more.
_DEEPEST: Final = 200
# How the text in place of a value begins that is nested more deeply.
DEEP: Final = "nested too deeply: "
# Schema positions beyond which the order of sets counts: no tool has so many.
_POSITIONS: Final = 20_000
_SET_LISTS: Final = ("required", "type")
# Keywords that say nothing while they are empty.
_EMPTY: Final = ("properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs", "definitions")
# Members of the protocol that say nothing while they are null, or empty.
_OPTIONAL: Final = frozenset(
    {"title", "description", "annotations", "icons", "arguments", "mimeType", "size", "execution", "_meta"}
    | {"inputSchema", "outputSchema"}
)
_EMPTY_MEMBERS: Final = ("annotations", "icons", "arguments")
# Floats up to here are the integer that they are equal to.
_EXACT: Final = 2**53
# Every integer below this has a nearby float.
_LARGEST: Final = 10**308
SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
SCHEMA_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
ONE_SCHEMA: Final = (
    *("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"),
    *("not", "if", "then", "else", "contentSchema"),
)


def pinned_item(kind: PinKind, name: str, definition: Any, version: str = "") -> PinnedItem:
    """Return the item that a definition makes, as the server gave it, of any type."""
    text = canonical_text(kind, definition)
    return PinnedItem(kind, name, text_digest(text), version, text)


def with_version(item: PinnedItem, version: str) -> PinnedItem:
    """Return the item with the version that the list has with it now."""
    return item if item.version == version else replace(item, version=version)


def pin_digest(kind: PinKind, definition: Any) -> str:
    """Return `sha256:` and the digest, in hexadecimal, of the canonical text of a definition."""
    return text_digest(canonical_text(kind, definition))


def text_digest(text: str) -> str:
    """Return `sha256:` and the digest, in hexadecimal, of a canonical text."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def canonical_text(kind: PinKind, definition: Any) -> str:
    """Return the canonical JSON of what counts in a definition. It is the canonical text of itself once it is read."""
    counted = counted_value(kind, definition)
    try:
        text = encode_sorted(counted)
        if text.count(b"{") + text.count(b"[") <= _DEEPEST or not deeper_than(counted, _DEEPEST):
            return text.decode()
    except (TooDeep, TypeError, ValueError, OverflowError):
        pass
    return encode_sorted(_cut(counted, 0)).decode()


def counted_value(kind: PinKind, definition: Any) -> Any:
    """Return what counts in a definition, in the form that equal definitions have in common."""
    settled = _settled(definition, 0)
    return _counted(kind, settled) if isinstance(settled, Mapping) else settled


def is_same_as(kind: PinKind, pinned: str, item: PinnedItem) -> bool:
    """Tell whether a pinned text, possibly written by an earlier version of this program, equals an item's
    definition.
    """
    try:
        value = decode(pinned.encode(), float("inf"))
    except ValueError:
        return False
    return pin_digest(kind, value) == item.digest


def _settled(value: Any, depth: int) -> Any:
    """Return a value with one form for equal numbers and equal texts; names stay unchanged, since calls use them."""
    if isinstance(value, str):
        return value if value.isascii() else normalize("NFC", value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, int) and not -_EXACT <= value <= _EXACT:
        return _large(value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        members = {}
        for name, item in value.items():
            members[name] = _settled(item, depth + 1)
        return members
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            items.append(_settled(item, depth + 1))  # noqa: PERF401 - a comprehension takes a frame more a level
        return items
    return value


def _large(value: int) -> int | float:
    """Return the float with the digits of an integer, as some languages write it; else the integer."""
    if abs(value) < _LARGEST:
        near = float(value)
        if int(Decimal(repr(near))) == value:
            return near
    return value


def _counted(kind: PinKind, definition: Mapping[Any, Any]) -> dict[Any, Any]:
    members = {name: item for name, item in definition.items() if not _is_absent(name, item)}
    if isinstance(annotations := members.get("annotations"), Mapping):
        members["annotations"] = {name: item for name, item in annotations.items() if item is not None}
        if not members["annotations"]:
            del members["annotations"]
    if kind == "prompt" and isinstance(arguments := members.get("arguments"), list):
        members["arguments"] = [_argument(one) for one in arguments]
    meta = members.get("_meta")
    if isinstance(meta, Mapping):
        del members["_meta"]
        counted = {name: item for name, item in meta.items() if isinstance(name, str) and _META.fullmatch(name)}
        if counted:
            members["_meta"] = counted
    if kind == "tool":
        for name in _SCHEMAS:
            if isinstance(members.get(name), Mapping) and _can_be_ordered(members[name]):
                members[name] = _ordered(members[name])
    return members


def _is_absent(name: Any, item: Any) -> bool:
    return name in _OPTIONAL and (item is None or (name in _EMPTY_MEMBERS and item in ({}, [])))


def _argument(one: Any) -> Any:
    """Return an argument of a prompt without what says nothing."""
    if not isinstance(one, Mapping):
        return one
    return {
        name: item
        for name, item in one.items()
        if not (_is_absent(name, item) or (name == "required" and (item is None or item is False)))
    }


def _can_be_ordered(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema is small and flat enough to be gone through; independent of the order of members."""
    # Paths grow with the depth, which is therefore looked at first.
    return not deeper_than(schema, _DEEPEST) and sum(1 for _ in islice(positions(schema), _POSITIONS + 1)) <= _POSITIONS


def _ordered(schema: Any) -> Any:
    """Return a schema whose sets are sorted, at its schema positions alone."""
    if not isinstance(schema, Mapping):
        return schema
    made = {name: item for name, item in schema.items() if not _says_nothing(name, item)}
    for name in _SET_LISTS:
        if name in made:
            made[name] = _sorted(made[name])
    if isinstance(named := made.get("type"), list) and len(named) == 1:
        made["type"] = named[0]
    dependent = made.get("dependentRequired")
    if isinstance(dependent, Mapping):
        made["dependentRequired"] = {name: _sorted(value) for name, value in dependent.items()}
    for name in SCHEMA_MAPS:
        inner = made.get(name)
        if isinstance(inner, Mapping):
            made[name] = {key: _ordered(part) for key, part in inner.items()}
    for name in SCHEMA_LISTS:
        inner = made.get(name)
        if isinstance(inner, list):
            made[name] = [_ordered(part) for part in inner]
    for name in ONE_SCHEMA:
        if name in made:
            made[name] = _ordered(made[name])
    return made


def _says_nothing(name: str, item: Any) -> bool:
    return (name == "required" and item == []) or (name in _EMPTY and item == {})


def _sorted(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return sorted(value)
    return value


def _cut(value: Any, depth: int) -> Any:
    """Return a value in types that JSON has, with a digest in place of each part below the deepest level."""
    if isinstance(value, Mapping):
        if depth == _DEEPEST:
            return _deep_digest(value)
        return {str(name): _cut(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return _deep_digest(value) if depth == _DEEPEST else [_cut(item, depth + 1) for item in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, str | bool | float) or value is None:
        return value
    if isinstance(value, int):
        # More digits than are written out.
        return value if value.bit_length() < 14_000 else hex(value)
    return f"{type(value).__name__}: {value!r}"


def _deep_digest(value: Any) -> str:
    digest = sha256()
    for token in _tokens(value):
        digest.update(token)
    return f"{DEEP}sha256:{digest.hexdigest()}"


def _tokens(value: Any) -> Iterator[bytes]:
    """Yield a text that differs for any two values, in steps: nothing here recurses."""
    waiting: list[Any] = [value]
    end = object()
    while waiting:
        one = waiting.pop()
        if one is end:
            yield b"]"
        elif isinstance(one, Mapping):
            yield b"{"
            members = sorted(((str(name), item) for name, item in one.items()), key=lambda member: member[0])
            waiting.append(end)
            for name, item in reversed(members):
                waiting += (item, name)
        elif isinstance(one, list | tuple):
            yield b"["
            waiting.append(end)
            waiting += reversed(one)
        else:
            yield encode_sorted(_plain(one)) + b","
