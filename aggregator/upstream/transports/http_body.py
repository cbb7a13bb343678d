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
# An error with one of these codes is about the request, so the server knew the session.
_OF_THE_REQUEST: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
# The words of an error by which a server says, with any code and status, that it does not know the session: without
# the id of the session that was meant. What may follow is what a client is to do about it.
_SAYS_UNKNOWN: Final = re.compile(
    r"(?:(?:bad|invalid) request |not found |(?:internal )?(?:server )?error )?(?:the )?(?:"
    r"(?:mcp )?session(?: with)?(?: id)? (?:(?:was|is|has been|has) )?(?:not found|unknown|expired|invalid|terminated"
    r"|closed|does not exist|no longer exists|not valid|required|missing|header (?:is )?required)"
    r"|(?:no|unknown|invalid|missing|expired|no valid|could not find|no such|(?:invalid|unknown) or expired"
    r"|expired or (?:invalid|unknown)) (?:the )?(?:mcp )?session(?: id)?(?: provided| found| header)?"
    r"|no (?:transport|connection)(?: found)? for (?:the |this )?session ?(?:id)?"
    r"|(?:server |client |connection )?(?:is )?not (?:yet )?initiali[sz]ed"
    r"|received request before initiali[sz]ation was complete"
    r")(?: .*(?:initiali[sz]|reconnect|provided|header|mcp).*)?"
)
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
# Characters of a text that is searched.
_LONGEST: Final = 500
# Statuses by which a server has nothing, or nothing any more, at an address: to a session of ours, that session.
_NOTHING_THERE: Final = frozenset({404, 410})
# Statuses that are about credentials.
_CREDENTIALS: Final = frozenset({401, 403})


def session_unknown(status: int, session: str | None, body: bytes, error: object) -> bool:
    """Return True if a refusal says that the session is unknown: 404, 410, 400 with some, or any in plain words."""
    if status in _CREDENTIALS:
        return False
    if isinstance(error, dict):
        said = says_unknown(error, session)
    else:
        said = _in_words(body[:_LONGEST].decode(errors="replace"), session)
    if said and (session is not None or status in (400, 404)):
        return True
    if code_of(error) in _OF_THE_REQUEST:
        return False
    if status in _NOTHING_THERE:
        return session is not None
    return status == 400 and _NO_SESSION.search(body) is not None


def says_unknown(error: object, session: str | None) -> bool:
    """Return True if a JSON-RPC error says in plain words, with any code, that the session is unknown.

    session: the one that the request was sent in. An error that speaks of a session of something else is not meant.
    """
    message = error.get("message") if isinstance(error, dict) else None
    return isinstance(message, str) and _in_words(message, session)


def _in_words(text: str, session: str | None) -> bool:
    if len(text) > _LONGEST:
        return False
    meant = text.replace(session, " ") if session else text
    return _SAYS_UNKNOWN.fullmatch(_NO_WORD.sub(" ", meant.lower()).strip()) is not None


def message_in(data: bytes, server: ServerConfig) -> dict[str, Any]:
    """Return a JSON object within the bounds; an empty one for anything else."""
    try:
        return object_in(data, server)
    except ValueError:
        return {}


def object_in(data: bytes, server: ServerConfig) -> dict[str, Any]:
    message = decode_received(data, server.id, server.limits.max_message_values) if data else None
    return message if isinstance(message, dict) else {}


def messages_in(data: bytes, server: ServerConfig, on_fault: FaultHandler) -> list[dict[str, Any]]:
    """Return the messages of a body or event, as far as they are objects; a batch has several.

    Raises:
        ValueError: it cannot be read; its words, which quote none of it, say why.
        TooDeep, TooManyValues: see `decode_received`.
    """
    if not data.strip():
        return []
    found, fault = read_messages(data, server.id, server.limits.max_message_values)
    if fault is not None:
        on_fault(fault)
    return [message for message in found if isinstance(message, dict)]
