"""Credentials of a web request, and the response to a request that fails authentication."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from aggregator.domain.errors import INTERNAL_ERROR
from aggregator.frontends.web.host_guard import Scope, Send, respond, source_in, values
from aggregator.gateway.access import RETRY_AFTER
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


# The value of `WWW-Authenticate` for a refused request; None if it gets none.
ChallengeFor = Callable[[Scope, Refused], bytes | None]


# Returns the challenge for a refusal, in the scope of a request that is refused elsewhere.
CHALLENGE: Final = "aggregator.challenge"


def challenged(scope: Scope, refused: Refused) -> dict[str, str]:
    """Return the header of a refused request that names how to come in, if there is one."""
    challenge_for: Callable[[Refused], bytes | None] | None = scope.get(CHALLENGE)
    challenge = challenge_for(refused) if challenge_for is not None else None
    return {"www-authenticate": challenge.decode("latin-1")} if challenge is not None else {}


async def refuse(
    send: Send, refused: Refused, challenge: bytes | None = None, body: Mapping[str, Any] | None = None
) -> None:
    """Send the response to a request that fails authentication (RFC 6750, section 3; RFC 9110, section 10.2.3).

    `body` is given by frontends with an error format of their own.
    """
    headers = {}
    if challenge is not None:
        headers[b"www-authenticate"] = challenge
    if refused.retry_after is not None:
        headers[b"retry-after"] = str(refused.retry_after).encode()
        # Each guess costs the sender a connection.
        headers[b"connection"] = b"close"
    await respond(send, refused.status, {"error": refused.reason} if body is None else body, headers)


async def refuse_for_now(send: Send) -> None:
    """Answer a request of a session while it is not known what the ids of the group are sealed with."""
    text = "This replica has not entered its group yet, since the database has not answered; try again."
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": text}}
    await respond(send, 503, body, {b"retry-after": b"%d" % RETRY_AFTER})
