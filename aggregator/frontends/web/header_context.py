"""HTTP headers about the call in the body: its context, put into `_meta`, and its envelope, compared with the body."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.domain.call import CONVERSATION_KEY
from aggregator.domain.errors import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, HostError
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION, MODERN_VERSIONS
from aggregator.frontends.web.host_guard import Scope
from aggregator.frontends.web.repeated_fields import memory_of
from aggregator.gateway.call_log import SESSION_KEY, USER_KEY
from aggregator.gateway.eras import unsupported
from aggregator.wire import headers as wire_headers

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


Headers = dict[str, list[str]]
"""The values of every header, by its name in lower case."""

_ROUTING: Final = (wire_headers.VERSION, wire_headers.METHOD, wire_headers.NAME)


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


def check_envelope(method: str, params: Any, headers: Headers) -> None:
    """Check the headers of a request of 2026-07-28 against its body; the first failure counts (SH, Server Validation).

    Raises:
        HostError: with the code the spec gives that failure.
    """
    if method == "initialize":
        # There is no handshake in this era, with or without an envelope.
        raise HostError(METHOD_NOT_FOUND, f"Method not found: {method}", {"method": method})
    for name in _ROUTING:
        if len(headers.get(name, ())) > 1:
            raise HostError(HEADER_MISMATCH, f"header {name} stands more than once")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        raise HostError(INVALID_PARAMS, f"`params._meta` must carry {META_VERSION!r} and {META_CLIENT_CAPABILITIES!r}.")
    if META_VERSION not in meta or META_CLIENT_CAPABILITIES not in meta:
        missing = [key for key in (META_VERSION, META_CLIENT_CAPABILITIES) if key not in meta]
        raise HostError(INVALID_PARAMS, f"`params._meta` lacks {' and '.join(missing)}.")
    version = meta[META_VERSION]
    _refuse_mismatch(headers, wire_headers.VERSION, version)
    _refuse_mismatch(headers, wire_headers.METHOD, method)
    named_by = wire_headers.NAMED_BY.get(method)
    if named_by is not None and params.get(named_by) is not None:
        sent = first(headers, wire_headers.NAME)
        if sent is None or wire_headers.decode_value(sent) != params[named_by]:
            raise HostError(HEADER_MISMATCH, f"header {wire_headers.NAME} does not match the request body")
    if not isinstance(version, str):
        raise HostError(INVALID_PARAMS, f"{META_VERSION!r} must be a string.")
    if version not in MODERN_VERSIONS:
        raise unsupported(version)


def _refuse_mismatch(headers: Headers, name: str, value: Any) -> None:
    """Raise `HostError` if a header does not repeat a value of the body."""
    if first(headers, name) != value:
        raise HostError(HEADER_MISMATCH, f"header {name} does not match the request body")


def first(headers: Headers, name: str) -> str | None:
    """Return the first value of a header, or None."""
    values = headers.get(name)
    return values[0] if values else None
