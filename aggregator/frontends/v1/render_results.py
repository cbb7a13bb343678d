"""Render outcomes of calls in the form of the request, as messages to append to the conversation.

Law: a message holds nothing that a model API would refuse; details for programs stand beside it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.errors import (
    ERROR_META_KEY,
    MISSING_CAPABILITY,
    HostLacks,
    RpcError,
    ShuttingDown,
    UnknownTool,
    UpstreamRpcError,
    to_wire,
)
from aggregator.domain.missing import InsufficientScope
from aggregator.domain.schema_walk import deeper_than
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall
from aggregator.frontends.v1.result_text import as_json, as_text
from aggregator.schemas.refusal import corrections_in

# HTTP statuses of calls that were not made, by error code; all other errors are text for the model, in a 200.
STATUSES: Final[Mapping[str, int]] = {
    "approval_pending": 202,
    "invalid_arguments": 400,
    "tool_not_allowed": 403,
    "insufficient_scope": 403,
    "flow_denied": 403,
    "not_confirmed": 403,
    "not_read_only": 403,
    "not_reportable": 403,
    "unknown_tool": 404,
    "unknown_result": 404,
    "limit_reached": 429,
    ShuttingDown.word: ShuttingDown.status,
}
_TO_BE_TRIED_AGAIN: Final = frozenset({429, ShuttingDown.status})
_DATA_SHOWN: Final = 2_000
_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of one call. `error` tells programs why there is no result of the tool, and `corrected` which
    arguments were corrected before the call.
    """

    call: ParsedCall
    content: str
    is_error: bool = False
    error: Mapping[str, Any] | None = None
    corrected: Sequence[str] = ()

    @property
    def code(self) -> str | None:
        code = self.error.get("code") if self.error is not None else None
        return code if isinstance(code, str) else None

    @property
    def status(self) -> int:
        """The HTTP status for the case that this is the only call."""
        return STATUSES.get(self.code or "", 200)


def of_result(call: ParsedCall, result: Mapping[str, Any]) -> CallOutcome:
    """Return the outcome of a `tools/call` with a result."""
    meta = result.get("_meta")
    error = meta.get(ERROR_META_KEY) if isinstance(meta, Mapping) else None
    corrected = corrections_in(result)
    is_error = result.get("isError") is True
    if not is_error or not isinstance(error, Mapping) or not isinstance(error.get("code"), str):
        return CallOutcome(call, as_text(result), is_error, None, corrected)
    return CallOutcome(call, as_text(result), True, _shallow(error), corrected)


def of_error(call: ParsedCall, error: Exception) -> CallOutcome:
    """Return the outcome of a call that ended in an error, ours or the upstream's."""
    wire = to_wire(error)
    message = wire["message"]
    if isinstance(error, UnknownTool):
        return CallOutcome(
            call, message, True, {"code": "unknown_tool", "status": 404, "message": message, **error.data}
        )
    if isinstance(error, ShuttingDown):
        return CallOutcome(call, message, True, {**error.data, "message": message})
    if isinstance(error, UpstreamRpcError):
        data = as_json(wire["data"]) if "data" in wire else ""
        text = f"{call.name} failed: {message}" + (f"\n{data[:_DATA_SHOWN]}" if data else "")
        details = {"code": "upstream_rpc_error", "server": error.server, "message": message, "rpc": wire}
        return CallOutcome(call, text, True, _shallow(details))
    if isinstance(error, RpcError):
        # Our own error: an input request cannot be sent over plain HTTP.
        code = HostLacks.code if error.code == MISSING_CAPABILITY else "request_failed"
        return CallOutcome(call, message, True, _shallow({"code": code, "message": message, "rpc": wire}))
    return CallOutcome(call, message, True, {"code": "internal_error", "message": message})


def answer(batch: CallBatch, outcomes: Sequence[CallOutcome]) -> tuple[int, dict[str, Any]]:
    """Return HTTP status and body. A single call gives the status, and so does the end of the aggregator, which is that
    of all calls; several have theirs in `results`.
    """
    one = len(outcomes) == 1 or all(outcome.code == ShuttingDown.word for outcome in outcomes)
    status = outcomes[0].status if one else 200
    if batch.form == "single":
        only = outcomes[0]
        return status, {**_message(only), **_trouble(only)}
    if batch.form == "anthropic":
        blocks = [_block(outcome) for outcome in outcomes]
        messages: list[dict[str, Any]] = [{"role": "user", "content": blocks}]
    else:
        messages = [_message(outcome) for outcome in outcomes]
    return status, {"messages": messages, "results": [_record(outcome) for outcome in outcomes]}


def retry_after(outcomes: Sequence[CallOutcome]) -> int | None:
    """Return the seconds after which a refused request may be sent again: one with a single call, or any at the end of
    the aggregator; None if unknown.
    """
    one = len(outcomes) == 1 or all(outcome.code == ShuttingDown.word for outcome in outcomes)
    error = outcomes[0].error if one else None
    wait = error.get("retry_after") if error is not None else None
    return wait if isinstance(wait, int) and outcomes[0].status in _TO_BE_TRIED_AGAIN else None


def scopes_wanted(outcomes: Sequence[CallOutcome]) -> Sequence[str] | None:
    """Return the scopes that the token of a single call lacks, with those that it has; None for any other outcome."""
    error = outcomes[0].error if len(outcomes) == 1 and outcomes[0].code == InsufficientScope.code else None
    return error["scopes"] if error is not None else None


def corrections(batch: CallBatch, outcomes: Sequence[CallOutcome]) -> bytes | None:
    """Return the corrected arguments of a single `tool_call`, whose answer has no room for them, as JSON in ASCII for a
    header; None if there are none.
    """
    if batch.form != "single" or not outcomes[0].corrected:
        return None
    return json.dumps(list(outcomes[0].corrected)).encode()


def _shallow(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object, or its scalars alone if it is nested too deeply to be encoded."""
    if not deeper_than(error, _DEPTH):
        return error
    return {key: value for key, value in error.items() if not isinstance(value, Mapping | list)}


def _message(outcome: CallOutcome) -> dict[str, Any]:
    call = outcome.call
    named = {"tool_call_id": call.call_id} if call.call_id is not None else {}
    return {"role": "tool", **named, "name": call.name, "content": outcome.content}


def _block(outcome: CallOutcome) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": outcome.call.call_id, "content": outcome.content}
    return {**block, "is_error": True} if outcome.is_error else block


def _record(outcome: CallOutcome) -> dict[str, Any]:
    call = outcome.call
    named = {"tool_call_id": call.call_id} if call.call_id is not None else {}
    record = {**named, "name": call.name, "status": outcome.status, "is_error": outcome.is_error}
    if outcome.corrected:
        record["corrected"] = list(outcome.corrected)
    return {**record, "error": outcome.error} if outcome.error is not None else record


def _trouble(outcome: CallOutcome) -> dict[str, Any]:
    """Return the error fields of a failed call; no fields for a call that succeeded."""
    if not outcome.is_error:
        return {}
    return {"is_error": True, "error": outcome.error} if outcome.error is not None else {"is_error": True}
