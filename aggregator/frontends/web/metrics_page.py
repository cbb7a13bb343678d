"""The page `/metrics`: for this machine, and for agents with the role `metrics`.

It names every agent, server and tool, hidden ones too, so the key of an ordinary agent does not open it.
"""

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from aggregator.domain.principal import METRICS_ROLE
from aggregator.frontends.web.credentials import refuse, request_facts
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond, source_in
from aggregator.gateway.access import Access
from aggregator.identity.identify import Refused
from aggregator.telemetry.prometheus_text import CONTENT_TYPE

METRICS_PATH: Final = "/metrics"


class MetricsText(Protocol):
    """The text of the metrics, in pieces."""

    def __call__(self) -> Iterator[bytes]: ...


_NOT_FOR_YOU: Final = Refused(403, f"The metrics are for agents with the role `{METRICS_ROLE}`.")


class MetricsPage:
    """An ASGI application. It sends the text in pieces and lets calls run between two of them."""

    def __init__(self, access: Access, page: MetricsText) -> None:
        self._access = access
        self._page = page

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] not in ("GET", "HEAD"):
            await respond(send, 405, {"error": "The metrics are read with GET."}, {b"allow": b"GET, HEAD"})
            return
        refused = self._refusal(scope)
        if refused is not None:
            await refuse(send, refused)
            return
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "GET":
            for piece in self._page():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    def _refusal(self, scope: Scope) -> Refused | None:
        if source_in(scope).local:
            return None
        principal = self._access.authenticate(request_facts(scope, "http"))
        if isinstance(principal, Refused):
            return principal
        return None if METRICS_ROLE in principal.roles else _NOT_FOR_YOU
