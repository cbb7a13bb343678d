"""The approved definition, as it is served beside a changed one. This file decides; it awaits nothing.

Law: everything in it was approved. A call that fits it fits the server's current definition, but for texts that are
empty, very long, not of a new `format` or of a form that was not ordinary, and for numbers below zero; or the current
schema comes with it, and each call is checked against that too.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aggregator.domain.schema_walk import positions
from aggregator.pins.decide.containment import takes_all
from aggregator.pins.decide.definition import DEEP, canonical_text
from aggregator.pins.decide.facts import LOWER, is_number, properties_of
from aggregator.pins.decide.findings import same
from aggregator.pins.decide.narrowing import loosened, removed_arguments
from aggregator.pins.decide.values import PinKind
from aggregator.wire.codec import decode

# Characters of a definition whose schemas are compared part by part.
_LARGEST: Final = 96 * 1024
_DEEPEST: Final = 60
# Ordinary calls keep a new bound from so many characters on, and one that only forbids the empty text.
_LONG_TEXT: Final = 255
# Formats whose standard says which texts fit. Libraries write a pattern beside them.
_STANDARD: Final = frozenset({"email", "uuid", "date", "date-time", "time", "duration", "ipv4", "ipv6"})
# A pattern of classes of characters, in groups, each in any number; and a member of a class, or a range.
_CLASSES: Final = re.compile(r"\^(?:\(\?:|\)\*?|\[[\w.,:;/@+ -]+\][+*])+\$", re.ASCII)
_MEMBER: Final = re.compile(r"([\w.,:;/@+ -])(?:-([\w.,:;/@+ -]))?", re.ASCII)
_LOOKAHEADS: Final = ("^(?=", "^(?!")
_QUANTIFIERS: Final = ("?", "*", "+", "{")
# A lookahead that asks for a length.
_LENGTHS: Final = re.compile(r"\^\(\?=\.\{(\d{1,6}),(\d{1,6})\}\$\)", re.ASCII)
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions")
_ONE: Final = ("items", "additionalProperties")
# Keywords of arguments that nothing else describes.
_PLAIN: Final = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "$schema",
        "title",
        "description",
        "$defs",
        "definitions",
    }
)
_HEADER: Final = "x-mcp-header"
_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}


class Approved(NamedTuple):
    """An approved definition that is served.

    takes: what the server takes of it now, if that is less: the current input schema of a tool, the names of the
    arguments of a prompt. None if calls by the definition go on.
    """

    definition: Any
    takes: Any = None


def approved_definition(kind: PinKind, pinned: str, current: Any) -> Approved | None:
    """Return the approved definition if calls and reads by it go on with the current one; else None.

    pinned: the canonical text of what was approved. current: the definition as the server gives it.
    """
    if kind == "skill" or DEEP in pinned:
        # The files of a skill are not those of the approved definition any more.
        return None
    try:
        approved = decode(pinned.encode(), float("inf"))
    except ValueError:
        return None
    if kind == "instructions":
        return Approved(approved) if isinstance(approved, str) else None
    if not isinstance(approved, dict) or not isinstance(current, Mapping):
        return None
    if kind == "tool":
        text = canonical_text(kind, current)
        return _tool(approved, _in_one_form(text, current), small=max(len(pinned), len(text)) <= _LARGEST)
    if kind == "prompt":
        return _prompt(approved, current.get("arguments"))
    return Approved(approved)


def _in_one_form(text: str, current: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition in the form that approved ones have, in which equal schemas are the same."""
    try:
        found = decode(text.encode(), float("inf"))
    except ValueError:
        return current
    return found if isinstance(found, dict) and DEEP not in text else current


def _tool(approved: dict[str, Any], current: Mapping[str, Any], *, small: bool) -> Approved | None:
    """Return an approved tool whose arguments are still taken, without an `outputSchema` that holds no more."""
    before, after = (_as_object(one.get("inputSchema")) for one in (approved, current))
    takes = None
    if _says_nothing(approved.get("inputSchema")):
        # Its library wrote no schema, so that models sent what its description says.
        takes = None if _says_nothing(current.get("inputSchema")) else after
    elif not same(before, after):
        if not small or _headers(before) != _headers(after):
            return None
        named = _as_named(before, after)
        if not takes_all(named, _without_edges(before, after, 0), named=True):
            if not takes_all(named, loosened(before, after), named=True):
                return None
            takes = after
    if not _runs(approved.get("execution"), current.get("execution")):
        return None
    promised = approved.get("outputSchema")
    if promised is None or same(promised, kept := current.get("outputSchema")):
        return Approved(approved, takes)
    if small and isinstance(kept, Mapping) and takes_all(kept, promised, named=False):
        return Approved(approved, takes)
    return Approved({name: value for name, value in approved.items() if name != "outputSchema"}, takes)


def _says_nothing(schema: Any) -> bool:
    """Return whether an input schema says nothing at all about arguments, not even that there are none."""
    return isinstance(schema, Mapping) and schema.keys() <= {"$schema"}


def _prompt(approved: dict[str, Any], arguments: Any) -> Approved | None:
    """Return an approved prompt if it can be had without an argument that was optional or not there."""
    if same(approved.get("arguments"), arguments):
        return Approved(approved)
    old, new = _by_name(approved.get("arguments")), _by_name(arguments)
    if old is None or new is None:
        return None
    required = {name for name, one in old.items() if one.get("required") is True}
    gone = removed_arguments(old, new, required)
    if gone is None or any(one.get("required") is True and name not in required for name, one in new.items()):
        return None
    return Approved(approved, frozenset(new) if gone else None)


def _as_object(schema: Any) -> Any:
    """Return the schema of arguments, which are an object in any case."""
    if schema is None:
        return _OBJECT
    return {**schema, **_OBJECT} if isinstance(schema, Mapping) else schema


def _as_named(before: Any, after: Any) -> Any:
    """Return approved arguments without others than the named ones, unless the schema says which: some libraries let
    any pass for every tool.
    """
    if not isinstance(before, Mapping) or not before.keys() <= _PLAIN:
        return before
    others = before.get("additionalProperties")
    if others is not True and others != {}:
        return before
    if not properties_of(before) and properties_of(after):
        # It names none, and takes all.
        return before
    return {**before, "additionalProperties": False}


def _without_edges(before: Any, after: Any, depth: int) -> Any:
    """Return a new schema without the bounds that ordinary calls by the approved one keep, place by place."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or depth > _DEEPEST:
        return after
    made = {name: value for name, value in after.items() if not _is_edge(before, after, name, value)}
    for name in _MAPS:
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            made[name] = {key: _without_edges(old.get(key), part, depth + 1) for key, part in new.items()}
    for name in _ONE:
        if name in after:
            made[name] = _without_edges(before.get(name), after[name], depth + 1)
    old, new = before.get("anyOf"), after.get("anyOf")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        made["anyOf"] = [_without_edges(one, other, depth + 1) for one, other in zip(old, new, strict=True)]
    return made


def _is_edge(before: Mapping[str, Any], after: Mapping[str, Any], keyword: str, value: Any) -> bool:
    if keyword == "format":
        # A note by the standard, which a server may check or not: calls are neither checked nor refused by it here.
        return True
    if "enum" in before or "const" in before:
        return False
    if keyword in ("minLength", "maxLength"):
        # A boolean is no number.
        return type(value) is int and _is_usual_length(before, keyword, value)
    if keyword == "minimum":
        # Sizes, places and counts are not below zero.
        return is_number(value) and value <= 0 and not any(name in before for name in LOWER)
    if keyword != "pattern":
        return False
    if keyword in before:
        if isinstance(before[keyword], str) and _without_lookahead(before[keyword]) == value:
            return True
        old, new = _characters(before[keyword]), _characters(value)
        return old is not None and new is not None and old <= new
    return before.get("format") in _STANDARD and after.get("format", before["format"]) == before["format"]


def _is_usual_length(before: Mapping[str, Any], keyword: str, value: int) -> bool:
    """Return whether ordinary texts keep a bound, or the approved pattern asks for it in a lookahead."""
    if value <= 1 if keyword == "minLength" else value >= _LONG_TEXT:
        return True
    pattern = before.get("pattern")
    asked = _LENGTHS.match(pattern) if isinstance(pattern, str) else None
    if asked is None:
        return False
    return int(asked[1]) >= value if keyword == "minLength" else int(asked[2]) <= value


def _without_lookahead(pattern: str) -> str | None:
    """Return a pattern without a lookahead at its beginning, which could only forbid more; None without one."""
    if not pattern.startswith(_LOOKAHEADS) or "[]" in pattern or "[^]" in pattern:
        return None
    open_groups = 0
    in_class = False
    for at, sign in _signs(pattern):
        if in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign == "(":
            open_groups += 1
        elif sign == ")":
            open_groups -= 1
            if open_groups == 0:
                rest = pattern[at + 1 :]
                return None if rest.startswith(_QUANTIFIERS) else f"^{rest}"
    return None


def _signs(pattern: str) -> Iterator[tuple[int, str]]:
    """Yield each sign of a pattern with its place, but for escaped ones."""
    escaped = False
    for at, sign in enumerate(pattern):
        if not escaped and sign != "\\":
            yield at, sign
        escaped = not escaped and sign == "\\"


def _characters(pattern: Any) -> set[str] | None:
    """Return the characters that a pattern takes in any number; None if it has other parts than classes of ASCII."""
    if not isinstance(pattern, str) or len(pattern) > _LONG_TEXT or _CLASSES.fullmatch(pattern) is None:
        return None
    found = set[str]()
    for members in re.findall(r"\[([^]]+)\]", pattern):
        for first, last in _MEMBER.findall(members):
            found.update(map(chr, range(ord(first), ord(last or first) + 1)))
    return found


def _headers(schema: Any) -> set[tuple[Any, str]]:
    """Return the arguments that are mirrored in a header, with its name."""
    return {(path, str(node[_HEADER])) for path, node in positions(schema) if _HEADER in node}


def _runs(before: Any, after: Any) -> bool:
    """Return whether the ways to run a tool that were approved are still there."""
    was, now = (_ways(one) for one in (before, after))
    return was is not None and now is not None and was <= now


def _ways(execution: Any) -> frozenset[str] | None:
    support = execution.get("taskSupport", "forbidden") if isinstance(execution, Mapping) else "forbidden"
    return _WAYS.get(support) if isinstance(support, str) else None


_WAYS: Final[Mapping[str, frozenset[str]]] = {
    "forbidden": frozenset({"call"}),
    "optional": frozenset({"call", "task"}),
    "required": frozenset({"task"}),
}


def _by_name(listed: Any) -> dict[str, Mapping[str, Any]] | None:
    if listed is None:
        return {}
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        return None
    found = {one.get("name"): one for one in listed}
    return found if len(found) == len(listed) and all(isinstance(name, str) for name in found) else None
