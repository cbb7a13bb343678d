"""Faults as results of `tools/call` (SEP-1303): text that a model can act on, and an object for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import ERROR_META_KEY, CheckCut
from aggregator.schemas.fault import Fault
from aggregator.schemas.signature import signature

INVALID_ARGUMENTS: Final = "invalid_arguments"
INVALID_OUTPUT: Final = "invalid_output"
# In the `_meta` of a result that is passed on without a complete check.
UNCHECKED_KEY: Final = "aggregator/unchecked"
_POINTER_SHOWN: Final = 120


def input_refusal(tool_name: str, faults: Sequence[Fault], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a refused call: the faults of its arguments, and the expected form."""
    missing = missing_fields(faults)
    lines = [f"{tool_name} was not called: its arguments do not fit."]
    if missing:
        lines.append(f"Missing: {', '.join(missing)}.")
    lines += _lines(faults)
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
        *_lines(faults),
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


def missing_fields(faults: Sequence[Fault]) -> list[str]:
    """Return the missing fields: top-level fields by name, others by pointer."""
    pointers = [fault.pointer for fault in faults if fault.keyword == "required" and fault.pointer]
    return [_plain(pointer) for pointer in pointers]


def _lines(faults: Sequence[Fault]) -> list[str]:
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
