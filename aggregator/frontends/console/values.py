"""JSON values as plain data for pages: declared ones in the order of their schema, each with its type.

Law: bounded. For a value of any size, a limited number of rows and characters is shown, and the omitted ones are
counted. Each top-level value has its share, so that none can push another out of sight.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from aggregator.redaction.redactor import REDACTED
from aggregator.schemas.structure.local import resolve_reference
from aggregator.wire.codec import encode

# Rows for all values together, the levels below the top, and the rows of each of the three groups.
_ROWS: Final = 600
_LEVELS: Final = 6
_OF_A_GROUP: Final = {"declared": 300, "odd": 100, "missing": 60}
# Properties of a schema that are read.
_PROPERTIES: Final = 20_000
# Characters of a text shown at once; the rest is one click away, as long as all rests together stay within this.
_HEAD: Final = 600
_TAIL: Final = 200
_REST: Final = 120_000
_LEAST: Final = 300
# A character that is shown as a chip takes as much as so many others.
_CHIP: Final = 16
_ORDINARY: Final = re.compile(r"[\n\t -~\xa1-\xac\xae-\u024f\u4e00-\u9fff\u3000-\u303f\u3040-\u30ff\uac00-\ud7a3]+")
_NAME: Final = 200
_SHORT: Final = 80
_WORDS: Final = 5
_TYPES: Final[Mapping[type, str]] = {
    str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array", type(None): "null",
}  # fmt: skip


def shown_arguments_of(
    arguments: Mapping[str, Any], schema: Mapping[str, Any] | None, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the rows of a call's arguments, compared with the arguments `before` if known.

    `odd` counts the undeclared ones; without a schema, none counts as declared or undeclared.
    """
    budget = _Budget(_ROWS, _REST)
    rows = list(_fields(arguments, schema, schema, budget, _LEVELS, before=before, compare=before is not None))
    declared = _declared(schema, schema)
    odd = sum(name not in declared for name in arguments) if isinstance(schema, Mapping) else 0
    odd += sum(_odd_below(row["value"]) for row in rows if row["kind"] != "missing")
    left = max(0, len(arguments) - sum(row["kind"] != "missing" for row in rows))
    gone = [] if before is None else [name for name in before if name not in arguments]
    return {
        "rows": rows,
        "odd": odd,
        "left_out": left,
        "open": _lets_through(schema),
        "gone": [_in_short(name) for name in gone[:_WORDS]],
    }


def schema_in(definition: str) -> Mapping[str, Any] | None:
    """Return the input schema in the definition of a tool, which is JSON; None if there is none."""
    try:
        found = json.loads(definition)
    except (ValueError, RecursionError):
        return None
    schema = found.get("inputSchema") if isinstance(found, dict) else None
    return schema if isinstance(schema, dict) else None


def shown_value(value: Any) -> dict[str, Any]:
    """Return any JSON value, such as a result, as data for the same template."""
    return _value(value, None, None, _Budget(_ROWS, _REST), _LEVELS)


class _Budget:
    """The rows and characters that are left for one value."""

    def __init__(self, rows: int, characters: int) -> None:
        self.rows = rows
        self.characters = characters

    def shared(self, parts: int) -> "_Budget":
        """Return the share of one of so many parts."""
        return _Budget(max(1, self.rows // max(1, parts)), max(_LEAST, self.characters // max(1, parts)))


def _fields(
    value: Mapping[str, Any],
    schema: Any,
    root: Any,
    budget: _Budget,
    levels: int,
    before: Mapping[str, Any] | None = None,
    compare: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of an object: declared and given, declared and missing, then the rest."""
    declared = _declared(schema, root)
    known = isinstance(schema, Mapping) and (schema is root or _names(schema, root))
    wanted = _required(schema, root)
    share = budget.shared(min(len(value), budget.rows))
    most = {kind: min(count, max(1, budget.rows)) for kind, count in _OF_A_GROUP.items()}

    def row(name: str, kind: str, inner: Any) -> dict[str, Any]:
        given = value[name]
        made = {
            "name": _in_short(name),
            "kind": kind,
            "type": _in_short(type_words(inner, root, required=name in wanted)) if kind == "declared" else "",
            "is": _TYPES.get(type(given), ""),
            "facts": _facts(given),
            "value": _value(given, inner, root, share, levels - 1),
            "then": _then(before or {}, name, given) if compare else None,
        }
        return made

    given = (name for name in islice(declared, _PROPERTIES) if name in value)
    for name in islice(given, most["declared"]):
        yield row(name, "declared", declared[name])
    missing = (name for name in islice(declared, _PROPERTIES) if name not in value)
    for name in islice(missing, most["missing"]):
        yield {
            "name": _in_short(name),
            "kind": "missing",
            "type": _in_short(type_words(declared[name], root, required=False)),
            "default": _default(declared[name], root),
        }
    odd = (name for name in value if name not in declared)
    for name in islice(odd, most["odd"] if known else most["declared"]):
        yield row(name, "odd" if known else "plain", None)


def _value(value: Any, schema: Any, root: Any, budget: _Budget, levels: int) -> dict[str, Any]:
    """Return one value: a text, an object or a list of rows, or plain JSON."""
    if isinstance(value, str):
        return _text(value, budget)
    if isinstance(value, Mapping) and value and levels > 0 and budget.rows > 1:
        rows = list(_fields(value, schema, root, budget, levels))
        return {"form": "object", "rows": rows, "left_out": len(value) - sum(row["kind"] != "missing" for row in rows)}
    if (
        isinstance(value, list)
        and levels > 0
        and budget.rows > 1
        and any(isinstance(one, dict | list) for one in value)
    ):
        found = resolve_reference(schema, root)
        inner = found.get("items") if isinstance(found, Mapping) else None
        shown = value[: min(budget.rows, _OF_A_GROUP["declared"])]
        share = budget.shared(len(shown))
        items = [
            {"name": str(at), "kind": "plain", "type": "", "is": _TYPES.get(type(one), ""), "facts": _facts(one),
             "then": None, "value": _value(one, inner, root, share, levels - 1)}
            for at, one in enumerate(shown)
        ]  # fmt: skip
        return {"form": "list", "rows": items, "left_out": len(value) - len(items)}
    return {**_text(encode(value).decode("utf-8", "replace"), budget), "form": "json"}


def _text(text: str, budget: _Budget) -> dict[str, Any]:
    """Return a text: all of a short one, else its beginning and end, and what lies between as far as it goes."""
    head = _within(text if len(text) <= _HEAD + _TAIL else text[:_HEAD], budget.characters)
    if len(head) == len(text):
        return {"form": "text", "head": text, "between": 0, "rest": "", "tail": "", "left_out": 0}
    left = budget.characters - _cost(head)
    tail = _within(text[max(len(head), len(text) - _TAIL) :][::-1], left)[::-1]
    between = text[len(head) : len(text) - len(tail)]
    rest = _within(between, left - _cost(tail))
    more = {"between": len(between), "rest": rest, "tail": tail, "left_out": len(between) - len(rest)}
    return {"form": "text", "head": head, **more}


def _within(text: str, budget: int) -> str:
    """Return as much of a text as the budget allows."""
    text = text[: max(0, budget)]
    return text if _cost(text) <= budget else text[: budget // (_CHIP + 1)]


def _in_short(text: str, most: int = _NAME) -> str:
    """Return a text on one line, cut if it takes more than `most`."""
    found = _within(text, most)
    return found if len(found) == len(text) else f"{found}…"


def _cost(text: str) -> int:
    """Return how many characters a text takes on a page, where some are shown as chips."""
    return len(text) + _CHIP * (len(text) - sum(map(len, _ORDINARY.findall(text))))


def _as_json(value: Any, most: int) -> str:
    text = encode(value).decode("utf-8", "replace")
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _then(before: Mapping[str, Any], name: str, given: Any) -> dict[str, Any]:
    """Return what stood there before: the same, another value in short, or nothing."""
    if name not in before:
        return {"same": False, "was": None}
    was = before[name]
    # To Python 1, 1.0 and true are equal, at any depth; as JSON with sorted names they are not. A redacted value looks
    # unchanged, even with another secret.
    text = was if isinstance(was, str) else encode(was).decode("utf-8", "replace")
    if REDACTED not in text and _sorted(was) == _sorted(given):
        return {"same": True, "was": None}
    return {"same": False, "was": _in_short(text, _SHORT)}


def _sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _facts(value: Any) -> str:
    """Return the length of a value, if that does not show."""
    if isinstance(value, str) and len(value) > _HEAD // 4:
        lines = value.count("\n") + 1
        return f"{len(value):,} characters" + (f", {lines:,} lines" if lines > 1 else "")
    if isinstance(value, list) and len(value) > 1:
        return f"{len(value):,} items"
    return ""


def _declared(schema: Any, root: Any) -> Mapping[str, Any]:
    found = resolve_reference(schema, root)
    declared = found.get("properties") if isinstance(found, Mapping) else None
    return declared if isinstance(declared, Mapping) else {}


def _names(schema: Any, root: Any) -> bool:
    """Return whether a schema says which fields there are: then any other one is not declared."""
    found = resolve_reference(schema, root)
    if not isinstance(found, Mapping) or isinstance(found.get("additionalProperties"), Mapping):
        return False
    return isinstance(found.get("properties"), Mapping)


def _odd_below(value: Mapping[str, Any]) -> int:
    """Return the number of undeclared fields inside a value, as far as they are shown."""
    found = 0
    for row in value.get("rows", ()):
        found += (row["kind"] == "odd") + (_odd_below(row["value"]) if "value" in row else 0)
    return found


def _lets_through(schema: Any) -> bool:
    """Return whether the schema allows fields that it does not declare."""
    return not (isinstance(schema, Mapping) and schema.get("additionalProperties") is False)


def _required(schema: Any, root: Any) -> frozenset[str]:
    found = resolve_reference(schema, root)
    wanted = found.get("required") if isinstance(found, Mapping) else None
    return frozenset(one for one in wanted if isinstance(one, str)) if isinstance(wanted, list) else frozenset()


def _default(schema: Any, root: Any) -> str | None:
    found = resolve_reference(schema, root)
    if not isinstance(found, Mapping) or "default" not in found:
        return None
    return _in_short(_as_json(found["default"], _NAME))


def type_words(schema: Any, root: Any, *, required: bool, deeper: bool = True) -> str:
    """Return the type that a schema declares, in words: `array of string, required`."""
    found = resolve_reference(schema, root)
    words = _kind(found, root, deeper) if isinstance(found, Mapping) else "anything"
    return f"{words}, required" if required else words


def _kind(schema: Mapping[str, Any], root: Any, deeper: bool) -> str:
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        more = f" and {len(choices) - _WORDS} more" if len(choices) > _WORDS else ""
        return "one of " + ", ".join(_as_json(choice, _SHORT // 2) for choice in choices[:_WORDS]) + more
    if "const" in schema:
        return f"always {_as_json(schema['const'], _SHORT // 2)}"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(str(one)[:_SHORT] for one in kind[:_WORDS]) or "anything"
    if kind == "array" and deeper:
        items = schema.get("items")
        inner = type_words(items, root, required=False, deeper=False) if isinstance(items, Mapping) else ""
        return f"array of {inner}" if inner and inner != "anything" else "array"
    if isinstance(kind, str):
        written = schema.get("format")
        return f"{kind[:_SHORT]}, {written[:_SHORT]}" if isinstance(written, str) else kind[:_SHORT]
    for several in ("anyOf", "oneOf"):
        parts = schema.get(several)
        if isinstance(parts, list) and deeper:
            words = [type_words(part, root, required=False, deeper=False) for part in parts[:_WORDS]]
            return " or ".join(dict.fromkeys(words))
    return "anything"
