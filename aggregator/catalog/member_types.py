"""The types of the members of definitions (S/schema: Tool, Prompt, Resource, ResourceTemplate). This file decides.

Hosts read a whole list by its schema, so that one member of another type would cost them every item of every server. An
optional member is removed, a required one is derived from the item's own name. Members that are not in the schema
stay. A definition without faults is the same object afterwards.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

from aggregator.domain.records import ItemKind

Kind = ItemKind | Literal["tool"]
Mend = Callable[[Any, str, list[str]], Any]
"""A function that returns a value as it may be listed, or `GONE`.

Its arguments: the value, its place in the definition, and the list that faults are added to.
"""

GONE: Final = object()

# Faults of one definition that a warning names.
_SHOWN: Final = 3
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def typed(kind: Kind, name: str, definition: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a definition whose known members have their types, and a sentence for each fault.

    Members that are null are removed without a warning: some languages write missing members so. An object that lacks a
    required name is named by its address.
    """
    faults: list[str] = []
    mended = _members(_KNOWN[kind], definition, "", faults)
    if kind in ("resource", "template") and not isinstance(mended.get("name"), str):
        mended = {**mended, "name": name}
    return mended, faults


def in_words(faults: list[str]) -> str:
    """Return the faults of one definition in one sentence."""
    more = f", and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return f"{'; '.join(faults[:_SHOWN])}{more}"


def _members(known: Mapping[str, Mend], value: dict[str, Any], place: str, faults: list[str]) -> dict[str, Any]:
    """Return an object without the known members that cannot stay; the same object if all can."""
    changed: dict[str, Any] | None = None
    for name, mend in known.items():
        if name not in value:
            continue
        had = value[name]
        has = GONE if had is None else mend(had, f"{place}{name}", faults)
        if has is not had:
            changed = dict(value) if changed is None else changed
            if has is GONE:
                del changed[name]
            else:
                changed[name] = has
    return value if changed is None else changed


def _gone(place: str, wanted: str, faults: list[str]) -> Any:
    faults.append(f"its `{place}` is not {wanted} and was taken out")
    return GONE


def _of_type(types: tuple[type, ...], wanted: str, value: Any, place: str, faults: list[str]) -> Any:
    return value if type(value) in types else _gone(place, wanted, faults)


def _one_of(values: tuple[str, ...], value: Any, place: str, faults: list[str]) -> Any:
    if isinstance(value, str) and value in values:
        return value
    return _gone(place, " or ".join(f'"{one}"' for one in values), faults)


def _object(known: Mapping[str, Mend], value: Any, place: str, faults: list[str]) -> Any:
    if not isinstance(value, dict):
        return _gone(place, "an object", faults)
    return _members(known, value, f"{place}.", faults)


def _list(mend: Mend, value: Any, place: str, faults: list[str]) -> Any:
    if not isinstance(value, list):
        return _gone(place, "a list", faults)
    mended = [mend(one, f"{place}[{index}]", faults) for index, one in enumerate(value)]
    if all(one is other for one, other in zip(mended, value, strict=True)):
        return value
    return [one for one in mended if one is not GONE]


def _named(key: str, known: Mapping[str, Mend], value: Any, place: str, faults: list[str]) -> Any:
    """Return an object, with `known` required as a text."""
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        return _gone(place, f"an object with a text as `{key}`", faults)
    return _members(known, value, f"{place}.", faults)


def _as_it_is(value: Any, place: str, faults: list[str]) -> Any:
    return value


def _whole(value: Any, place: str, faults: list[str]) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else _gone(place, "a number of bytes", faults)


def _priority(value: Any, place: str, faults: list[str]) -> Any:
    return value if type(value) in (int, float) and 0 <= value <= 1 else _gone(place, "a number from 0 to 1", faults)


_TEXT: Final = partial(_of_type, (str,), "a text")
_FLAG: Final = partial(_of_type, (bool,), "true or false")
_ANY_OBJECT: Final[Mend] = partial(_of_type, (dict,), "an object")
_ICON: Final[Mapping[str, Mend]] = {
    "mimeType": _TEXT,
    "sizes": partial(_list, _TEXT),
    "theme": partial(_one_of, ("light", "dark")),
}
_EVERY: Final[Mapping[str, Mend]] = {
    "title": _TEXT,
    "description": _TEXT,
    "icons": partial(_list, partial(_named, "src", _ICON)),
    "_meta": _ANY_OBJECT,
}
_CONTENT: Final[Mapping[str, Mend]] = {
    **_EVERY,
    "name": _TEXT,
    "mimeType": _TEXT,
    "annotations": partial(
        _object,
        {
            "audience": partial(_list, partial(_one_of, ("user", "assistant"))),
            "priority": _priority,
            "lastModified": _TEXT,
        },
    ),
}
_ARGUMENT: Final[Mapping[str, Mend]] = {"title": _TEXT, "description": _TEXT, "required": _FLAG}
_KNOWN: Final[Mapping[Kind, Mapping[str, Mend]]] = {
    "tool": {
        **_EVERY,
        "annotations": partial(_object, {"title": _TEXT, **dict.fromkeys(_HINTS, _FLAG)}),
        "outputSchema": _as_it_is,
        "execution": partial(_object, {"taskSupport": partial(_one_of, ("forbidden", "optional", "required"))}),
    },
    "prompt": {**_EVERY, "arguments": partial(_list, partial(_named, "name", _ARGUMENT))},
    "resource": {**_CONTENT, "size": _whole},
    "template": _CONTENT,
    # A host compares a skill with its files; none of its members is changed.
    "skill": {},
}
