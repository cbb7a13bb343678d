"""What became of calls, in the form they were asked in: messages that go into the conversation as they are.

Law: a message holds nothing that a model API would refuse; what is for programs stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.errors import (
    ERROR_META_KEY,
    MISSING_CAPABILITY,
    HostLacks,
    RpcError,
    UnknownTool,
    UpstreamRpcError,
    to_wire,
)
from aggregator.domain.schema_walk import deeper_than
from aggregator.frontends.v1.parse_calls import CallBatch, ParsedCall
from aggregator.frontends.v1.result_text import as_json, as_text

# Statuses of calls that were not made. What else goes wrong is told to the model in a 200: the conversation goes on.
STATUSES: Final[Mapping[str, int]] = {
    "approval_pending": 202,
    "invalid_arguments": 400,
    "tool_not_allowed": 403,
    "not_confirmed": 403,
    "not_read_only": 403,
    "unknown_tool": 404,
    "limit_reached": 429,
}
_DATA_SHOWN: Final = 2_000
_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """One call that is over. `error` says to programs why there is no result of the tool."""

    wanted: ParsedCall
    content: str
    is_error: bool = False
    error: Mapping[str, Any] | None = None

    @property
    def code(self) -> str | None:
        code = self.error.get("code") if self.error is not None else None
        return code if isinstance(code, str) else None

    @property
    def status(self) -> int:
        """What this is over HTTP, were it the only call."""
        return STATUSES.get(self.code or "", 200)


def of_result(wanted: ParsedCall, result: Mapping[str, Any]) -> CallOutcome:
    """The outcome of a `tools/call` that has a result."""
    meta = result.get("_meta")
    error = meta.get(ERROR_META_KEY) if isinstance(meta, Mapping) else None
    is_error = result.get("isError") is True
    if not is_error or not isinstance(error, Mapping) or not isinstance(error.get("code"), str):
        return CallOutcome(wanted, as_text(result), is_error)
    return CallOutcome(wanted, as_text(result), True, _shallow(error))


def of_error(wanted: ParsedCall, error: Exception) -> CallOutcome:
    """The outcome of one that ended in an error, ours or the upstream's."""
    wire = to_wire(error)
    message = wire["message"]
    if isinstance(error, UnknownTool):
        return CallOutcome(
            wanted, message, True, {"code": "unknown_tool", "status": 404, "message": message, **error.data}
        )
    if isinstance(error, UpstreamRpcError):
        data = as_json(wire["data"]) if "data" in wire else ""
        text = f"{wanted.name} failed: {message}" + (f"\n{data[:_DATA_SHOWN]}" if data else "")
        details = {"code": "upstream_rpc_error", "server": error.server, "message": message, "rpc": wire}
        return CallOutcome(wanted, text, True, _shallow(details))
    if isinstance(error, RpcError):
        # Ours: what has to be asked cannot be asked over plain HTTP.
        code = HostLacks.code if error.code == MISSING_CAPABILITY else "request_failed"
        return CallOutcome(wanted, message, True, _shallow({"code": code, "message": message, "rpc": wire}))
    return CallOutcome(wanted, message, True, {"code": "internal_error", "message": message})


def answer(order: CallBatch, outcomes: Sequence[CallOutcome]) -> tuple[int, dict[str, Any]]:
    """HTTP status and body. The status is the call's if there is one call; several have theirs in `results`."""
    status = outcomes[0].status if len(outcomes) == 1 else 200
    if order.form == "single":
        only = outcomes[0]
        return status, {**_message(only), **_trouble(only)}
    if order.form == "anthropic":
        blocks = [_block(outcome) for outcome in outcomes]
        messages: list[dict[str, Any]] = [{"role": "user", "content": blocks}]
    else:
        messages = [_message(outcome) for outcome in outcomes]
    return status, {"messages": messages, "results": [_record(outcome) for outcome in outcomes]}


def retry_after(outcomes: Sequence[CallOutcome]) -> int | None:
    """Seconds until a single refused call is worth trying again, where that is known."""
    error = outcomes[0].error if len(outcomes) == 1 else None
    wait = error.get("retry_after") if error is not None else None
    return wait if isinstance(wait, int) and outcomes[0].status == 429 else None


def _shallow(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object, or its scalars alone if an upstream nested it so deeply that the answer could not be written."""
    if not deeper_than(error, _DEPTH):
        return error
    return {key: value for key, value in error.items() if not isinstance(value, Mapping | list)}


def _message(outcome: CallOutcome) -> dict[str, Any]:
    wanted = outcome.wanted
    named = {"tool_call_id": wanted.call_id} if wanted.call_id is not None else {}
    return {"role": "tool", **named, "name": wanted.name, "content": outcome.content}


def _block(outcome: CallOutcome) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": outcome.wanted.call_id, "content": outcome.content}
    return {**block, "is_error": True} if outcome.is_error else block


def _record(outcome: CallOutcome) -> dict[str, Any]:
    wanted = outcome.wanted
    named = {"tool_call_id": wanted.call_id} if wanted.call_id is not None else {}
    record = {**named, "name": wanted.name, "status": outcome.status, "is_error": outcome.is_error}
    return {**record, "error": outcome.error} if outcome.error is not None else record


def _trouble(outcome: CallOutcome) -> dict[str, Any]:
    """Nothing for a call that went well: its message is the whole answer."""
    if not outcome.is_error:
        return {}
    return {"is_error": True, "error": outcome.error} if outcome.error is not None else {"is_error": True}
