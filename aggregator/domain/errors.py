"""The errors of the program, sorted by whose fault they are, and the one place that puts them on the wire."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aggregator.domain.call_record import Status
from aggregator.domain.reasons import SAID_KEPT, Reason, for_operator
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.cut import quoted
from aggregator.domain.text.error_text import error_text

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
# What clients have for a connection that ends, too.
CONNECTION_CLOSED: Final = -32000
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
# 2025-11-25 only: the user has to visit pages first, then the request is repeated.
URL_REQUIRED: Final = -32042

# The machine-readable half of a refusal is under this key of a result's `_meta`.
ERROR_META_KEY: Final = "aggregator/error"

# HTTP statuses that say that a request was not carried out, and may be later (RFC 6585, RFC 9110).
_NOT_DONE: Final = frozenset({429, 503})
# Codes about one hop (headers, version): an upstream's must never look like ours to a host.
_HOP_LOCAL_CODES: Final = frozenset({HEADER_MISMATCH, UNSUPPORTED_VERSION})


def is_hop_local(code: int) -> bool:
    """Return whether a code of an upstream's error is about our request to it, and would mislead a host."""
    return code in _HOP_LOCAL_CODES


class Blame(NamedTuple):
    """The rule behind a refusal, and its `file:line` if it has one; for the audit, never for a host."""

    rule: str
    source: str | None


class AggregatorError(Exception):
    """The root: anything raised that is not below this is a bug of ours."""


class RpcError(AggregatorError):
    """A JSON-RPC error object: `code`, `message` and `data`, if any (JSON-RPC 2.0, section 5.1).

    `more` are members unknown to JSON-RPC; they are forwarded.
    """

    def __init__(self, code: int, message: str, data: Any = None, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.more: Mapping[str, Any] = more or {}

    def to_wire(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {**self.more, **error} if self.more else error


class HostError(RpcError):
    """The host sent something that cannot be served."""


class NotServed(HostError):
    """The thing asked for does not exist, or not for this agent (then by the rule `blame`). `word` is for the audit."""

    word = "not_served"

    def __init__(self, message: str, data: Any, blame: Blame | None = None, outcome: Status | None = None) -> None:
        super().__init__(INVALID_PARAMS, message, data)
        self.blame = blame
        self.outcome: Status = outcome or ("invalid" if blame is None else "denied")


class UnknownTool(NotServed):
    """No tool has this name (S/server/tools: -32602). `blame` is the rule that hides `meant`, if there is one."""

    word = "unknown_tool"

    def __init__(
        self, name: str, nearest: list[str], blame: Blame | None = None, meant: ToolRecord | None = None
    ) -> None:
        hint = f" Did you mean {' or '.join(repr(n) for n in nearest)}?" if nearest else ""
        super().__init__(f"Unknown tool: {quoted(name)}.{hint}", {"name": name[:200], "nearest": nearest}, blame)
        self.meant = meant


class ShuttingDown(RpcError):
    """The aggregator is about to end, and accepts no new work. It may be back `retry_after` seconds from now.

    `waited`: the request was accepted before, but no part of it was done either.
    """

    word = "shutting_down"
    outcome: Status = "unavailable"
    status = 503

    def __init__(self, retry_after: int, *, waited: bool = False) -> None:
        does = "ended this request" if waited else "takes no new requests"
        message = f"The aggregator is shutting down and {does}; nothing was done. Try again in a moment."
        data = {"code": self.word, "status": self.status, "retryable": True, "retry_after": retry_after}
        super().__init__(CONNECTION_CLOSED, message, data)
        self.retry_after = retry_after


class AnswerLost(HostError):
    """The replica with the answer to a request is unreachable: the outcome of the request is unknown."""

    def __init__(self, why: str) -> None:
        super().__init__(INTERNAL_ERROR, f"{why}: it is not known what became of this request.")


class OwnerNotReached(HostError):
    """A message for another replica, which is unreachable now, or which the database cannot name.

    Nothing was done with it: it can be sent again, `retry_after` seconds from now.
    """

    status = 503
    retry_after = 1

    def __init__(self, why: str) -> None:
        super().__init__(INTERNAL_ERROR, f"This belongs to another replica, and {why}. Send it again in a moment.")


class CallRefused(AggregatorError):
    """A call that was not made, for a reason the model can act on. `status` is its status over plain HTTP.

    `retryable`: nothing was done, and another call may succeed, as the text explains. `blame` and `meant`, the tool,
    are for the audit alone.
    """

    code = "refused"
    status = 403
    outcome: Status = "denied"
    retryable = False
    advice = "Do not repeat the call; use another tool, or ask the person you work for."

    def __init__(
        self, tool: str, message: str, *, blame: Blame | None = None, meant: ToolRecord | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        self.tool = tool
        self.message = message
        self.blame = blame
        self.meant = meant
        self.details = details

    def to_result(self) -> dict[str, Any]:
        """Return the `tools/call` result: text, `isError`, and the object under our `_meta` key."""
        error = {"code": self.code, "status": self.status, "tool": self.tool, "message": self.message}
        error = {**error, "retryable": self.retryable, **self.details}
        return {
            "content": [{"type": "text", "text": f"{self.message} {self.advice}".rstrip()}],
            "isError": True,
            "_meta": {ERROR_META_KEY: error},
        }


class NotAllowed(CallRefused):
    """The policy does not allow the call."""

    code = "tool_not_allowed"


class BadArguments(CallRefused):
    """The arguments make no call."""

    code = "invalid_arguments"
    status = 400
    outcome: Status = "invalid"
    retryable = True
    advice = "Correct the arguments and call again."


class NotReadOnly(CallRefused):
    """The call requested reading only, and the tool is not known to only read."""

    code = "not_read_only"
    advice = ""


class NotConfirmed(CallRefused):
    """A required confirmation was not given."""

    code = "not_confirmed"


class WaitsForApproval(CallRefused):
    """The call is queued until an approver has answered; nothing was done."""

    code = "approval_pending"
    status = 202
    outcome: Status = "pending"
    retryable = True
    advice = "Once it is approved, make the same call again, with the same arguments."


class OverLimit(CallRefused):
    """A limit of the policy was reached; `retry_after` says in how many seconds it is worth trying again."""

    code = "limit_reached"
    status = 429
    advice = "Nothing was done."

    def __init__(self, tool: str, message: str, **details: Any) -> None:
        super().__init__(tool, message, **details)
        self.retryable = "retry_after" in details


class HostLacks(CallRefused):
    """The server needs an answer that this host cannot give."""

    code = "host_lacks_capability"
    status = 501
    advice = "It cannot be done from here."


class NotAnswered(CallRefused):
    """The server asked something, and got no answer that it could go on with."""

    code = "not_answered"


class StaleState(HostError):
    """The `requestState` of an answer is not, or no longer, good for this request; nothing was run."""

    def __init__(self, why: str) -> None:
        super().__init__(INVALID_PARAMS, f"`requestState` is not good for this request: {why}. Nothing was run.")


class NotRecorded(CallRefused):
    """The audit log takes no row now, and the operator wants no call without one."""

    code = "audit_unavailable"
    status = 503
    outcome: Status = "unavailable"
    advice = ""


class Unverifiable(CallRefused):
    """The tool's own schema cannot be checked, so nothing is sent unchecked."""

    code = "schema_unusable"
    status = 502
    outcome: Status = "error"


class CheckCut(Unverifiable):
    """The check of the arguments was not made to its end, so nothing is sent. `why`: it took too long (`time`), too
    many waited (`busy`), or no process could make it (`failed`)."""

    code = "check_cut"
    status = 503

    def __init__(self, tool: str, message: str, why: str) -> None:
        super().__init__(tool, message, reason=why, retryable=why != "time")
        self.advice = "Send fewer or simpler arguments." if why == "time" else "You may try again."


class OperatorError(AggregatorError):
    """The operator has to mend something: a file, a flag, a port."""


class UpstreamError(AggregatorError):
    """An upstream could not fulfil a request. `server` is its id, `message` our own words for a host.

    `said`: the text of the server, for operators alone. `retryable`: nothing was done, or repeating it is known to do
    no harm, and the same call may succeed. `in_doubt`: it may have been done. `meant` is the called tool, if the call
    ended before it was on record.
    """

    code = "upstream_error"
    outcome: Status = "error"
    retryable = False
    in_doubt = False
    advice = "Do not simply repeat the call."

    def __init__(self, server: str, message: str, *, said: str = "", **details: Any) -> None:
        super().__init__(message)
        self.server = server
        self.message = message
        self.said = said[:SAID_KEPT]
        self.details = details
        self.meant: ToolRecord | None = None

    @property
    def operator_text(self) -> str:
        """The message with the words of the server, for operators."""
        return for_operator(self.message, self.said)

    def settle(self, *, harmless: bool, begun: bool = False) -> None:
        """Take note that repeating the call does no harm, or else that the server had begun it before this error."""
        if harmless and self.in_doubt:
            self.retryable, self.advice = True, "Repeating it does no harm: you may try again."
        elif begun and not harmless:
            self.details["begun"] = True
            self.retryable, self.advice = False, "The call had begun: do not simply repeat it."

    def to_object(self) -> dict[str, Any]:
        """Return the machine-readable form: code, server, message, retryable and further known details."""
        return {
            "code": self.code,
            "server": self.server,
            "message": self.message,
            "retryable": self.retryable,
            **self.details,
        }


class UpstreamUnavailable(UpstreamError):
    """The server is not connected: nothing was sent."""

    code = "upstream_unavailable"
    outcome: Status = "unavailable"
    retryable = True
    advice = "Nothing was sent to it; you may try again."

    @classmethod
    def for_good(cls, server: str, message: str, *, said: str = "", **details: Any) -> "UpstreamUnavailable":
        """Return the error about a server that will not come back by itself."""
        error = cls(server, message, said=said, **details)
        error.retryable, error.advice = False, "Nothing was sent to it; use another tool."
        return error


class UpstreamBusy(UpstreamUnavailable):
    """The server has as many waiting calls as it may have (`limits.max_pending`): this one was not sent."""

    code = "upstream_busy"

    def __init__(self, server: str, limit: int) -> None:
        said = f"{limit} calls wait for {server} already, as many as may (`limits.max_pending` in its config)."
        super().__init__(server, said, limit=limit, field="limits.max_pending", retry_after=1)


class UpstreamTimeout(UpstreamError):
    """The server did not answer in time; the request was cancelled."""

    code = "upstream_timeout"
    outcome: Status = "timeout"
    in_doubt = True
    advice = "It may have taken effect all the same: do not repeat it unless that does no harm."


class UpstreamLost(UpstreamError):
    """The connection ended while a request was running: whether it took effect is unknown."""

    code = "outcome_unknown"
    in_doubt = True


class UpstreamBadAnswer(UpstreamError):
    """The server answered with invalid MCP, or with more than the limit."""

    code = "upstream_bad_answer"


class ResultsFull(UpstreamError):
    """The results of all calls under way take as much memory as they may: this one was dropped."""

    code = "results_full"
    advice = "It may have taken effect: do not simply repeat the call. Ask for less at a time."

    def __init__(self, server: str) -> None:
        said = f"The result of {server} was dropped: the results of calls under way take as much memory as they may."
        super().__init__(server, said, field="max_results_bytes")


class UpstreamHttpStatus(UpstreamError):
    """The server answered with an HTTP status that is no MCP answer; `details["status"]` is the number."""

    code = "upstream_http_error"

    def __init__(self, server: str, message: str, *, said: str = "", **details: Any) -> None:
        super().__init__(server, message, said=said, **details)
        status = details.get("status", 0)
        self.in_doubt = status >= 500
        if status in _NOT_DONE:
            self.retryable, self.advice = True, "It was not carried out; you may try again."
        elif self.in_doubt:
            self.advice = "It may have taken effect all the same: do not repeat it unless that does no harm."


class UpstreamRefused(UpstreamError):
    """The server refuses the connection (401, 403) or is not there (404): trying again soon is no use."""

    code = "upstream_refused"
    outcome: Status = "unavailable"


class UpstreamRpcError(RpcError):
    """The upstream answered with a JSON-RPC error, which the host is to get whole."""

    def __init__(
        self, server: str, code: int, message: str, data: Any = None, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(code, message, data, more)
        self.server = server

    def to_wire(self) -> dict[str, Any]:
        if not is_hop_local(self.code):
            return super().to_wire()
        return {
            "code": INTERNAL_ERROR,
            "message": f"{self.server} refused the aggregator's request: {self.message}",
            "data": {"server": self.server, "error": super().to_wire()},
        }


def operator_text(error: BaseException) -> str:
    """Return the text of an error for operators, with the words of the server."""
    return error.operator_text if isinstance(error, UpstreamError) else error_text(error)


def reason_of(error: BaseException) -> Reason:
    """Return why a request to an upstream failed: our words for a host, and the server's for operators."""
    if isinstance(error, UpstreamError):
        return Reason(error.message, error.said)
    if isinstance(error, RpcError):
        return Reason(f"JSON-RPC error {error.code}", error.message)
    return Reason(error_text(error))


def to_wire(error: BaseException) -> dict[str, Any]:
    """Return the JSON-RPC error object for any exception; a bug of the aggregator says nothing of its insides."""
    if isinstance(error, RpcError):
        return error.to_wire()
    if isinstance(error, UpstreamError):
        return {"code": INTERNAL_ERROR, "message": error.message, "data": error.to_object()}
    return {"code": INTERNAL_ERROR, "message": "Internal error in the aggregator; its log says more."}


def to_tool_result(error: UpstreamError) -> dict[str, Any]:
    """Return the `tools/call` result a model can act on (SEP-1303): text, `isError`, our object in `_meta`."""
    return {
        "content": [{"type": "text", "text": f"{error.message} {error.advice}"}],
        "isError": True,
        "_meta": {ERROR_META_KEY: error.to_object()},
    }
