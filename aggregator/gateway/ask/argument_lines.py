"""The arguments of a call for a confirmation: one a line, none of which can pass for another.

Rule: declared arguments come first and in the tool's order, undeclared ones are marked. Names and values are JSON, with
an escape for every invisible character.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from aggregator.domain.text.invisible import escaped
from aggregator.schemas.structure.local import resolve_reference
from aggregator.wire.codec import encode

# Lines for all arguments together: each has its share, so that none can push another out of sight.
LINES: Final = 60
# Of one value, and of one name.
VALUE_SHOWN: Final = 200
NAME_SHOWN: Final = 80
# A list of so many plain values fits on one line. A value nested deeper than this is written as plain JSON.
_INLINE: Final = 20
_DEPTH: Final = 6


class _Line(NamedTuple):
    declared: bool
    path: str
    value: str

    def __str__(self) -> str:
        return f"{'' if self.declared else 'not declared by the tool: '}{self.path}: {self.value}"


def shown_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any] | None) -> list[str]:
    """Return the lines; omitted ones are counted. Without a schema, none counts as declared or undeclared."""
    parts = list(islice(_parts(arguments, schema, schema), LINES))
    lines: list[str] = []
    for declared, name, value, inner in parts:
        share = max(1, LINES // len(parts))
        found = list(islice(_leaves(_quoted(name), value, inner, schema, declared, 1), share + 1))
        lines += [str(line) for line in found[:share]]
        if len(found) > share:
            lines.append(f"{_quoted(name)}: more values, which are not shown")
    if len(arguments) > len(parts):
        lines.append(f"{len(arguments) - len(parts)} more arguments, which are not shown")
    return lines


def _parts(value: Mapping[str, Any], schema: Any, root: Any) -> Iterator[tuple[bool, str, Any, Any]]:
    """Yield whether a field is declared, its name, its value and its schema: those that are declared come first."""
    found = resolve_reference(schema, root)
    declared = found.get("properties") if isinstance(found, Mapping) else None
    if not isinstance(declared, Mapping):
        # A value without a schema is not judged; a schema that names no fields declares none.
        known = not isinstance(found, Mapping) or "$ref" in found
        yield from ((known, name, item, None) for name, item in value.items())
        return
    yield from ((True, name, value[name], declared[name]) for name in declared if name in value)
    yield from ((False, name, item, None) for name, item in value.items() if name not in declared)


def _leaves(path: str, value: Any, schema: Any, root: Any, declared: bool, depth: int) -> Iterator[_Line]:
    if depth <= _DEPTH and isinstance(value, dict) and value:
        for known, name, item, inner in _parts(value, schema, root):
            yield from _leaves(f"{path}.{_quoted(name)}", item, inner, root, declared and known, depth + 1)
    elif depth <= _DEPTH and isinstance(value, list) and not _is_plain(value):
        inner = resolve_reference(schema, root)
        items = inner.get("items") if isinstance(inner, Mapping) else None
        for at, item in enumerate(value):
            yield from _leaves(f"{path}[{at}]", item, items, root, declared, depth + 1)
    else:
        yield _Line(declared, path, _value(value))


def _is_plain(value: list[Any]) -> bool:
    return len(value) <= _INLINE and not any(isinstance(item, dict | list) for item in value)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value, VALUE_SHOWN)
    text = _json(value)
    left_out = len(text) - VALUE_SHOWN
    shown = escaped(text[:VALUE_SHOWN])
    return shown if left_out <= 0 else f"{shown}… ({left_out} more characters)"


def _quoted(text: str, space: int = NAME_SHOWN) -> str:
    """Return a text as JSON; the count of omitted characters follows the quotes."""
    left_out = len(text) - space
    quoted = escaped(_json(text[:space]))
    return quoted if left_out <= 0 else f"{quoted}… ({left_out} more characters)"


def _json(value: Any) -> str:
    return encode(value).decode("utf-8", "replace")
