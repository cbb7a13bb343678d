"""Credentials of a web request, and the response to a request that fails authentication."""

from collections.abc import Mapping
from typing import Any

from aggregator.frontends.web.host_guard import Scope, Send, respond, source_in, values
from aggregator.identity.identify import FrontendName, Refused, RequestFacts


def request_facts(scope: Scope, frontend: FrontendName, endpoint_agent: str | None = None) -> RequestFacts:
    """Return every credential of a request, as it was sent."""
    return RequestFacts(
        frontend,
        tuple(values(scope, b"authorization")),
        tuple(values(scope, b"x-api-key")),
        scope.get("query_string", b"").decode("latin-1"),
        endpoint_agent,
        source_in(scope),
    )


async def refuse(send: Send, refused: Refused, body: Mapping[str, Any] | None = None) -> None:
    """Send the response to a request that fails authentication (RFC 6750, section 3; RFC 9110, section 10.2.3).

    `body` is given by frontends with an error format of their own.
    """
    headers = {}
    if refused.status == 401:
        headers[b"www-authenticate"] = b'Bearer realm="aggregator"'
    if refused.retry_after is not None:
        headers[b"retry-after"] = str(refused.retry_after).encode()
        # Each guess costs the sender a connection.
        headers[b"connection"] = b"close"
    await respond(send, refused.status, {"error": refused.reason} if body is None else body, headers)
