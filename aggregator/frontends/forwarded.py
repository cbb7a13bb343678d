"""Answers to requests of hosts that came to another replica first.

Rule: the other replica says whose request it is, and this one looks itself whether that caller is let in now.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.frontends.web.forwarder import AGENT, ANSWERS, ENDED, FORWARDED, HTTP, KEY, MESSAGES, TOKEN
from aggregator.frontends.web.host_guard import Message, Receive, Scope, Send, respond
from aggregator.frontends.web.sessions.session_table import Sessions
from aggregator.frontends.web.sse import SseFrontend
from aggregator.frontends.web.streamable_http import StreamableHttpFrontend
from aggregator.gateway.access import Access
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.replicas.group.hops import Hop
from aggregator.replicas.hop_listener import HopListener
from aggregator.wire.codec import decode_from_host

log = logging.getLogger(__name__)

_REFUSED: Final = {"error": "The sender of this request is not let in here, or not any more."}


class ForwardedRequests:
    """The requests of hosts that other replicas send here."""

    def __init__(
        self,
        gateway: Dispatcher,
        access: Access,
        http: StreamableHttpFrontend,
        sse: SseFrontend,
        sessions: Sessions,
    ) -> None:
        self._gateway = gateway
        self._access = access
        self._http = http
        self._sse = sse
        self._sessions = sessions

    def add_to(self, listener: HopListener) -> None:
        """Have these requests answered at the listener for replicas."""
        listener.add(HTTP, self._serve)
        listener.add(MESSAGES, self._serve)
        listener.add(ANSWERS, self._take_answer)
        listener.add(ENDED, self._take_end)

    async def _serve(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Answer a request as if it had come here."""
        principal = self._principal(hop.claims)
        if principal is None:
            await respond(send, 401, _REFUSED)
            return
        task = asyncio.current_task()
        assert task is not None, "a request is served in a task"
        serve = self._sse.message if scope["path"] == f"/{MESSAGES}" else self._http.serve
        going = self._gateway.revocation.add(principal, task.cancel)
        try:
            await serve(principal, {**scope, FORWARDED: True}, _replayed(body, receive), send)
        except asyncio.CancelledError:
            if not going.revoked:
                raise
            # The connection ends with the task, and so does the host's.
            task.uncancel()
        finally:
            self._gateway.revocation.remove(going)

    async def _take_answer(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Take a host's answer to a question of this process."""
        principal, session_id = self._principal(hop.claims), hop.claims.get("session")
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if principal is None or session is None or not session.host.principal.is_same_caller(principal):
            await respond(send, 404, {"error": "No such session is here."})
            return
        message = decode_from_host(body)
        if isinstance(message, dict) and "method" not in message:
            session.peer.feed(message)
        await respond(send, 202)

    async def _take_end(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let go of a session that its host has ended at another replica."""
        principal = self._principal(hop.claims)
        if principal is not None:
            self._sessions.was_ended_elsewhere(body.decode("latin-1"), principal)
        await respond(send, 202)

    def _principal(self, claims: Mapping[str, Any]) -> Principal | None:
        agent, key = claims.get(AGENT), claims.get(KEY)
        if not isinstance(agent, str) or not isinstance(key, str | None):
            return None
        token = claims.get(TOKEN)
        return self._access.let_in(agent, key, TokenFacts.from_json(token) if token is not None else None)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already, and then tells of the end."""
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again
