"""Responses as bytes: a result, or an error of ours."""

import logging
from typing import Any

from aggregator.domain.errors import RpcError, UpstreamError, to_wire
from aggregator.wire.codec import encode

log = logging.getLogger(__name__)


def encode_result(request_id: str | int, result: Any) -> bytes:
    """Return the response with a result, or with the error that the result cannot be written, as bytes."""
    try:
        return encode({"jsonrpc": "2.0", "id": request_id, "result": result})
    except Exception as error:
        return encode_error(request_id, error)


def error_message(request_id: str | int | None, error: Exception) -> dict[str, Any]:
    """Return the error response for `request_id`; an exception that is not one of our errors is logged, not shown."""
    wire = to_wire(error)
    if not isinstance(error, RpcError | UpstreamError):
        log.error("a request failed by a fault of the aggregator's own", exc_info=error)
    return {"jsonrpc": "2.0", "id": request_id, "error": wire}


def encode_error(request_id: str | int | None, error: Exception) -> bytes:
    """Return the error response for `request_id` as bytes; `data` that cannot be encoded is left out."""
    message = error_message(request_id, error)
    try:
        return encode(message)
    except ValueError:
        message["error"].pop("data", None)
        return encode(message)
