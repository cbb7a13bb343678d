"""The members of one decoded JSON-RPC message: the only place that reads its method, params and id.

Law: no message of a peer makes these functions raise, and each returns the type that its annotation says.
"""

from typing import Any, Final, NamedTuple

from aggregator.domain.errors import INTERNAL_ERROR, INVALID_REQUEST, RpcError
from aggregator.wire.pieces import brief

_ERROR_MEMBERS: Final = frozenset({"code", "message", "data"})


class Incoming(NamedTuple):
    """A request, or a notification, which has None for an `id`."""

    method: str
    params: dict[str, Any]
    id: str | int | None


def method_of(message: Any) -> str | None:
    """Return the method of a message; None for a response, and for anything that is no message."""
    method = message.get("method") if isinstance(message, dict) else None
    return method if isinstance(method, str) else None


def is_answer(message: dict[str, Any]) -> bool:
    """Return whether a message has the form of a response; its `method`, if it has one, is then empty or an echo."""
    return "method" not in message or message.get("result") is not None or message.get("error") is not None


def incoming(message: Any) -> Incoming | None:
    """Return the request or notification that a message is; None for anything else. Absent `params` are empty."""
    method = method_of(message)
    if method is None:
        return None
    params = message.get("params")
    request_id = sane_id(message.get("id"))
    if params is None:
        params = {}
    if not isinstance(params, dict) or (request_id is None and "id" in message):
        return None
    return Incoming(method, params, request_id)


def sane_id(request_id: Any) -> str | int | None:
    """Return a request id or progress token, or None for a value that cannot be one; `True` is not the number 1."""
    return request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None


def error_of(message: dict[str, Any]) -> RpcError:
    """Return the error of a response, or our own error if it has neither a result nor an error."""
    error = message.get("error")
    if not isinstance(error, dict):
        return RpcError(INVALID_REQUEST, "The answer holds neither a result object nor an error.")
    code = code_of(error)
    more = {key: value for key, value in error.items() if key not in _ERROR_MEMBERS}
    said = error.get("message", "")
    said = said if isinstance(said, str) else brief(said)
    return RpcError(INTERNAL_ERROR if code is None else code, said, error.get("data"), more)


def code_of(error: Any) -> int | None:
    """Return the code of a JSON-RPC error object, or None."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None
