"""What a web door knows of who sent a request, and what it answers to those it does not let in."""

from collections.abc import Mapping
from typing import Any

from aggregator.frontends.web.host_guard import Scope, Send, respond, source_in
from aggregator.identity.identify import Door, Refused, RequestFacts


def facts_of(scope: Scope, door: Door, endpoint_agent: str | None = None) -> RequestFacts:
    """Every credential that was sent, as it was sent."""
    authorization: list[str] = []
    api_key: list[str] = []
    for name, value in scope["headers"]:
        if name == b"authorization":
            authorization.append(value.decode("latin-1"))
        elif name == b"x-api-key":
            api_key.append(value.decode("latin-1"))
    return RequestFacts(
        door,
        tuple(authorization),
        tuple(api_key),
        scope.get("query_string", b"").decode("latin-1"),
        endpoint_agent,
        source_in(scope),
    )


async def refuse(send: Send, refused: Refused, body: Mapping[str, Any] | None = None) -> None:
    """The answer to a request whose sender is not let in (RFC 6750, section 3; RFC 9110, section 10.2.3).

    `body` is that of a door which has a form of its own for it.
    """
    headers = {}
    if refused.status == 401:
        headers[b"www-authenticate"] = b'Bearer realm="aggregator"'
    if refused.retry_after is not None:
        headers[b"retry-after"] = str(refused.retry_after).encode()
        # The next guess costs a connection.
        headers[b"connection"] = b"close"
    await respond(send, refused.status, {"error": refused.reason} if body is None else body, headers)
