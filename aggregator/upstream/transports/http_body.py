"""The bodies of HTTP responses and events: the message in one, and refusals that mean an unknown session."""

import re
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from aggregator.upstream.connection import FaultHandler
from aggregator.wire.codec import decode_received
from aggregator.wire.mending import read_messages
from aggregator.wire.message import code_of

# With 400, which may mean anything, some servers name the session id, or say that they are not initialized.
_NO_SESSION: Final = re.compile(rb"(?i)session[ _-]?id|not initialized")
# An error with one of these codes is about the request, so that the session was known.
_OF_THE_REQUEST: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})


def session_unknown(status: int, session: str | None, body: bytes, error: object) -> bool:
    """Return True if a refusal says that the session is unknown: 404, or 400 with some servers."""
    if code_of(error) in _OF_THE_REQUEST:
        return False
    return (status == 404 and session is not None) or (status == 400 and _NO_SESSION.search(body) is not None)


def message_in(data: bytes, server: ServerConfig) -> dict[str, Any]:
    """Return a JSON object within the bounds; an empty one for anything else."""
    try:
        return object_in(data, server)
    except ValueError:
        return {}


def object_in(data: bytes, server: ServerConfig) -> dict[str, Any]:
    message = decode_received(data, server.id, server.max_message_values) if data else None
    return message if isinstance(message, dict) else {}


def messages_in(data: bytes, server: ServerConfig, on_fault: FaultHandler) -> list[dict[str, Any]]:
    """Return the messages of a body or event, as far as they are objects; a batch has several.

    Raises:
        ValueError: it cannot be read; its words, which quote none of it, say why.
        TooDeep, TooManyValues: see `decode_received`.
    """
    if not data.strip():
        return []
    found, fault = read_messages(data, server.id, server.max_message_values)
    if fault is not None:
        on_fault(fault)
    return [message for message in found if isinstance(message, dict)]
