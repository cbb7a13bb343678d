"""The refusal of a call that fits the approved definition of a tool, and that its server no longer takes.

Law: nothing of the server's current schema is in it, since it was not approved: no value, no name, no bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import ERROR_META_KEY
from aggregator.domain.records import ToolRecord
from aggregator.schemas.fault import Fault
from aggregator.schemas.refusal import INVALID_ARGUMENTS, fault_lines
from aggregator.schemas.wording import got

_LENGTH: Final = "another length"
_NUMBER: Final = "another number"
_ITEMS: Final = "another number of items"
# What the server wants in place of a value, by keyword.
_WANTED: Final[Mapping[str, str]] = {
    "enum": "one of fewer values than were approved",
    "const": "one of fewer values than were approved",
    "type": "another type",
    "minLength": _LENGTH,
    "maxLength": _LENGTH,
    "minItems": _ITEMS,
    "maxItems": _ITEMS,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "multipleOf": _NUMBER,
    "pattern": "a text of another form",
    "uniqueItems": "items that differ",
    "additionalProperties": "no such argument any more",
    "false": "no such argument any more",
}
_LESS: Final = "less than was approved"


def without_words(faults: Iterable[Fault], given: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return faults by a schema that was not approved as places in the arguments and kinds of limits."""
    found: dict[Fault, None] = {}
    for fault in faults:
        place, value = _place(fault.pointer, given)
        found[Fault(place, _WANTED.get(fault.keyword, _LESS), got(value), fault.keyword)] = None
    return tuple(found)


def _place(pointer: str, given: Any) -> tuple[str, Any]:
    """Return as much of a pointer as the arguments have, and the value there: the rest may name what a schema wants."""
    place, value = "", given
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            break
        place += f"/{part}"
    return place, value


def narrowed_refusal(tool: ToolRecord, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return the result of a call that is not sent. `faults`: as `without_words` returns them."""
    lines = [
        f"{tool.name} was not called: its server takes less than the approved definition allows, since it was changed.",
        *fault_lines(faults),
        "Correct the arguments and call again, or tell the person you work for: an operator sees and approves the "
        f"newer definition with `aggregator pins diff {tool.server}`.",
    ]
    error = {
        "code": INVALID_ARGUMENTS,
        "status": 400,
        "tool": tool.name,
        "missing": [],
        "problems": [fault.to_object() for fault in faults],
        "retryable": True,
    }
    return {
        "content": [{"type": "text", "text": "\n".join(lines)}],
        "isError": True,
        "_meta": {ERROR_META_KEY: error},
    }
