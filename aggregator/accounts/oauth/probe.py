"""The challenge of a server before its first request: one request without a token, which the server should refuse."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.accounts.oauth.challenges import Challenge, bearer
from aggregator.accounts.oauth.fetch import Fetched, FetchFailed, GuardedFetch

_REVISION: Final = "2026-07-28"
_METHOD: Final = "tools/list"
_META: Final = "io.modelcontextprotocol/"
_REFUSED: Final = frozenset({401, 403})
# A server with event streams of its own has no use for a POST at their address (HTTP+SSE of 2024-11-05).
_NO_POST: Final = frozenset({404, 405})
_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": _REVISION,
    "Mcp-Method": _METHOD,
}
# Opening words are left out, since some servers let anyone send them.
_REQUEST: Final[Mapping[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": _METHOD,
    "params": {
        "_meta": {
            f"{_META}protocolVersion": _REVISION,
            f"{_META}clientInfo": {"name": "aggregator", "version": "1"},
            f"{_META}clientCapabilities": {},
        }
    },
}


async def ask_for_challenge(
    fetch: GuardedFetch, server_url: str, headers: Mapping[str, str] | None = None
) -> Challenge | None:
    """Return the challenge of a server; None if it has none, or does not answer.

    headers: the configured headers of the server.
    """
    nearby = fetch.within(server_url)
    try:
        response: Fetched = await nearby.post_json(server_url, _REQUEST, {**(headers or {}), **_HEADERS})
        if response.status in _NO_POST:
            response = await nearby.get(server_url, {**(headers or {}), "Accept": "text/event-stream"})
    except FetchFailed:
        return None
    if response.status not in _REFUSED:
        return None
    said = response.headers.get("www-authenticate")
    return bearer([said]) if said is not None else None
