"""The page `/metrics`: for this machine, and for agents with the role `metrics`.

It names every agent, server and tool, hidden ones too, so the key of an ordinary agent does not open it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from aggregator.domain.principal import METRICS_ROLE
from aggregator.frontends.web.credentials import ChallengeFor, refuse, request_facts
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond, source_in
from aggregator.gateway.access import Access
from aggregator.identity.identify import Refused
from aggregator.telemetry.series import CONTENT_TYPE

METRICS_PATH: Final = "/metrics"

# The text of the metrics, in pieces.
MetricsText = Callable[[], Iterator[bytes]]
# The text of the metrics of all workers, in pieces.
GroupPage = Callable[[], AsyncIterator[bytes]]


_NOT_FOR_YOU: Final = Refused(403, f"The metrics are for agents with the role `{METRICS_ROLE}`.")


class MetricsPage:
    """An ASGI application. It sends the text in pieces and lets calls run between two of them."""

    def __init__(
        self, access: Access, challenge: ChallengeFor, page: MetricsText, of_all: GroupPage | None = None
    ) -> None:
        """Build the page; the text comes from `of_all` if this is one of several replicas."""
        self._access = access
        self._challenge = challenge
        self._page = page
        self._of_all = of_all

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] not in ("GET", "HEAD"):
            await respond(send, 405, {"error": "The metrics are read with GET."}, {b"allow": b"GET, HEAD"})
            return
        refused = await self._refusal(scope)
        if refused is not None:
            await refuse(send, refused, self._challenge(scope, refused))
            return
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "GET":
            async for piece in self._of_all() if self._of_all is not None else _in_turns(self._page()):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _refusal(self, scope: Scope) -> Refused | None:
        if source_in(scope).local:
            return None
        principal = await self._access.admit(request_facts(scope, "http"))
        if isinstance(principal, Refused):
            return principal
        return None if METRICS_ROLE in principal.roles else _NOT_FOR_YOU


async def _in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)
