"""Call context from HTTP headers: the trace, the user, the session and the conversation, put into `_meta`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.domain.call import CONVERSATION_KEY
from aggregator.frontends.web.host_guard import Scope
from aggregator.frontends.web.repeated_fields import memory_of
from aggregator.gateway.call_log import SESSION_KEY, USER_KEY

# W3C Trace Context and Baggage under their own names (SEP-414), the others as agent frameworks name them.
_KEYS: Final[Mapping[str, str]] = {
    "traceparent": "traceparent",
    "tracestate": "tracestate",
    "baggage": "baggage",
    "x-user-id": USER_KEY,
    "x-session-id": SESSION_KEY,
    "x-conversation-id": CONVERSATION_KEY,
}
# Repeated headers of these form one list (RFC 9110, section 5.3).
_LISTS: Final = frozenset({"tracestate", "baggage"})


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """Return every value of every header, by its name in lower case."""
    memory = memory_of(scope)
    if memory is None:
        return _decoded(scope)
    if memory.headers is None:
        memory.headers = _decoded(scope)
    return memory.headers


def _decoded(scope: Scope) -> dict[str, list[str]]:
    pairs = scope["headers"]
    headers = {name.decode("latin-1"): [value.decode("latin-1").strip(" \t")] for name, value in pairs}
    if len(headers) == len(pairs):
        return headers
    headers = {}
    for name, value in pairs:
        headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1").strip(" \t"))
    return headers


def has_context(headers: Mapping[str, Sequence[str]]) -> bool:
    """Return whether there is a header for `with_context`."""
    return not _KEYS.keys().isdisjoint(headers)


def with_context(params: dict[str, Any], headers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the params with the context of the headers in `_meta`; keys that are there already stay."""
    if not has_context(headers):
        return params
    found = {
        key: ",".join(headers[name])
        for name, key in _KEYS.items()
        if name in headers and (len(headers[name]) == 1 or name in _LISTS)
    }
    meta = params.get("_meta", {})
    if not found or not isinstance(meta, dict):
        return params
    return {**params, "_meta": {**found, **meta}}
