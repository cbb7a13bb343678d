"""Faults as results of `tools/call` (SEP-1303): text that a model can act on, and an object for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from aggregator.domain.errors import ERROR_META_KEY, CheckCut
from aggregator.schemas.coerce import Correction
from aggregator.schemas.fault import Fault
from aggregator.schemas.signature import signature
from aggregator.schemas.structure.local import at_pointer, resolve_reference

INVALID_ARGUMENTS: Final = "invalid_arguments"
INVALID_OUTPUT: Final = "invalid_output"
# In the `_meta` of a result that is passed on without a complete check.
UNCHECKED_KEY: Final = "aggregator/unchecked"
# In the `_meta` of the result of a call whose arguments were corrected: a list of short sentences.
CORRECTED_KEY: Final = "aggregator/corrected"
_POINTER_SHOWN: Final = 120
_CORRECTIONS_SHOWN: Final = 10
# Objects without a member that they need, and names in a message; characters of a name.
_OBJECTS_SHOWN: Final = 3
_NAMES_SHOWN: Final = 6
_NAME_SHOWN: Final = 60


def input_refusal(
    tool_name: str, faults: Sequence[Fault], schema: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of a refused call: the faults of its arguments, what came, and the expected form."""
    missing = missing_fields(faults)
    lines = [f"{tool_name} was not called: its arguments do not fit."]
    if missing:
        lines.append(f"Missing: {', '.join(missing)}.")
    lines += fault_lines(faults)
    lines += _names_sent(faults, schema, given)
    expected = signature(schema)
    lines.append(f"Expected: {expected}" if expected else "Expected: no named parameters.")
    lines.append("Correct the arguments and call again.")
    return {
        "content": [{"type": "text", "text": "\n".join(lines)}],
        "isError": True,
        "_meta": {ERROR_META_KEY: _error(INVALID_ARGUMENTS, 400, tool_name, faults, missing, retryable=True)},
    }


def output_refusal(tool_name: str, faults: Sequence[Fault], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error result of a call whose result breaks the tool's own `outputSchema`.

    The text of that result is kept.
    """
    lines = [
        f"{tool_name} was called, but the structured part of its answer does not fit the tool's own outputSchema.",
        *fault_lines(faults),
        "The call may have taken effect: do not simply repeat it. What the tool answered follows.",
    ]
    error = _error(INVALID_OUTPUT, 502, tool_name, faults, missing_fields(faults), retryable=False)
    return _withheld(lines, error, result)


def output_unchecked(tool_name: str, sentence: str, why: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error result of a call whose result could not be checked completely, although its server requires
    that.
    """
    lines = [
        f"{tool_name} was called, but its answer was not checked against its outputSchema to the end: {sentence}.",
        "The call may have taken effect: do not simply repeat it. What the tool answered follows.",
    ]
    error = {"code": CheckCut.code, "status": 502, "tool": tool_name, "reason": why, "retryable": False}
    return _withheld(lines, error, result)


def with_note(result: dict[str, Any], why: str) -> dict[str, Any]:
    """Return the result as it came, with a note that it was not checked to the end."""
    meta = result.get("_meta")
    note = {UNCHECKED_KEY: {"code": CheckCut.code, "reason": why}}
    return {**result, "_meta": {**meta, **note} if isinstance(meta, Mapping) else note}


def _withheld(lines: list[str], error: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    kept = result.get("content")
    meta = result.get("_meta")
    return {
        # Without `structuredContent`: hosts that check it would drop the whole answer.
        **{key: value for key, value in result.items() if key != "structuredContent"},
        "content": [{"type": "text", "text": "\n".join(lines)}, *(kept if isinstance(kept, list) else [])],
        "isError": True,
        "_meta": {**(meta if isinstance(meta, Mapping) else {}), ERROR_META_KEY: error},
    }


def with_corrections(result: dict[str, Any], corrections: Sequence[Correction]) -> dict[str, Any]:
    """Return the result of a call with what was corrected in its arguments."""
    meta, said = result.get("_meta"), [str(one)[:_POINTER_SHOWN] for one in corrections[:_CORRECTIONS_SHOWN]]
    if len(corrections) > _CORRECTIONS_SHOWN:
        said.append(f"{len(corrections) - _CORRECTIONS_SHOWN} more")
    return {**result, "_meta": {**(meta if isinstance(meta, Mapping) else {}), CORRECTED_KEY: said}}


def corrections_in(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the corrections that a result names. A server may have written anything there: others are left out."""
    meta = result.get("_meta")
    said = meta.get(CORRECTED_KEY) if isinstance(meta, Mapping) else None
    if not isinstance(said, list):
        return ()
    return tuple(one[:_POINTER_SHOWN] for one in said[: _CORRECTIONS_SHOWN + 1] if isinstance(one, str))


def _names_sent(faults: Sequence[Fault], schema: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return a line for each object that lacks members: the names that came, and those that were wanted."""
    wanted: dict[str, list[str]] = {}
    for fault in faults:
        if fault.keyword == "required" and fault.pointer:
            parent, _, name = fault.pointer.rpartition("/")
            wanted.setdefault(parent, []).append(name.replace("~1", "/").replace("~0", "~"))
    lines = []
    for parent, names in list(wanted.items())[:_OBJECTS_SHOWN]:
        holder = at_pointer(given, f"#{quote(parent)}")
        sent = list(holder) if isinstance(holder, Mapping) else []
        properties = (resolve_reference(schema, schema) if not parent else {}).get("properties")
        # The members that the tool knows are not the ones that were meant for others.
        unknown = [name for name in sent if not isinstance(properties, Mapping) or name not in properties]
        came = _quoted(unknown or sent) or "nothing"
        lines.append(f"You sent {came}{f' in {_place(parent)}' if parent else ''}; wanted {_quoted(names)}.")
    return lines


def _quoted(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(f"`{name[:_NAME_SHOWN]}`" for name in names[:_NAMES_SHOWN]) + more


def missing_fields(faults: Sequence[Fault]) -> list[str]:
    """Return the missing fields: top-level fields by name, others by pointer."""
    pointers = [fault.pointer for fault in faults if fault.keyword == "required" and fault.pointer]
    return [_plain(pointer) for pointer in pointers]


def fault_lines(faults: Sequence[Fault]) -> list[str]:
    """Return a line for each fault: its place, what was expected, and what came."""
    return [f"- {_place(fault.pointer)}: {_fault_text(fault)}" for fault in faults]


def _fault_text(fault: Fault) -> str:
    if fault.keyword == "required" and fault.pointer:
        return "required, but missing"
    return f"expected {fault.expected}, got {fault.got}"


def _place(pointer: str) -> str:
    return _plain(pointer)[:_POINTER_SHOWN] if pointer else "the whole"


def _plain(pointer: str) -> str:
    inner = pointer[1:]
    return pointer if "/" in inner else inner.replace("~1", "/").replace("~0", "~")


def _error(
    code: str, status: int, tool: str, faults: Sequence[Fault], missing: list[str], *, retryable: bool
) -> dict[str, Any]:
    return {
        "code": code,
        "status": status,
        "tool": tool,
        "missing": missing,
        "problems": [fault.to_object() for fault in faults],
        "retryable": retryable,
    }
