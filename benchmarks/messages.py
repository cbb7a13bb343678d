"""The messages of a host in both eras: a call after a handshake, or with the envelope of 2026-07-28; and over `/v1`."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from aggregator.wire.codec import encode

Era = Literal["legacy", "modern", "v1"]

LEGACY: Final = "2025-06-18"
MODERN: Final = "2026-07-28"

_CLIENT: Final = {"name": "benchmark", "version": "1"}
ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}

INITIALIZE: Final = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
INITIALIZED: Final = encode({"jsonrpc": "2.0", "method": "notifications/initialized"})


def request(era: Era, request_id: int, method: str, params: Mapping[str, Any]) -> bytes:
    """One request as JSON without line breaks."""
    if era == "v1":
        return encode({"tool_call": params})
    if era == "modern":
        params = {**params, "_meta": ENVELOPE}
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def headers(era: Era, method: str, params: Mapping[str, Any], session: str | None) -> dict[str, str]:
    """The HTTP headers that go with it."""
    lines = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if era == "v1":
        return lines
    if method == "initialize":
        return lines
    lines["mcp-protocol-version"] = MODERN if era == "modern" else LEGACY
    if era == "modern":
        lines["mcp-method"] = method
        if "name" in params:
            lines["mcp-name"] = params["name"]
    if session is not None:
        lines["mcp-session-id"] = session
    return lines
