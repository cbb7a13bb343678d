"""The HTTP+SSE frontend (2024-11-05): `GET` opens the stream and names the address for posts; answers come on the
stream.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

from aggregator.config.settings import FrontendConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import ON_RECORD
from aggregator.domain.errors import OwnerNotReached
from aggregator.domain.principal import Principal
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.web.address_wishes import WrongAddress, wishes_of
from aggregator.frontends.web.body_limits import BodyLimits, BodyRefused, is_small
from aggregator.frontends.web.event_stream import EventStream, end_when_gone
from aggregator.frontends.web.forwarder import MESSAGES, Forwarder
from aggregator.frontends.web.header_context import headers_of, with_context
from aggregator.frontends.web.host_guard import Receive, Scope, Send, header, respond
from aggregator.gateway.admission import TooMany
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.host import AddressWishes, Host
from aggregator.gateway.views.list_changed import SessionFailure
from aggregator.replicas.group.hop_client import HopFailed
from aggregator.wire.codec import decode_from_host
from aggregator.wire.message import method_of, sane_id
from aggregator.wire.peer import Channel, Peer

log = logging.getLogger(__name__)

# Between the random part of a session's id and the replica that has its stream.
_OWNED_BY: Final = "."
# The sender of the message that is being taken.
_sender: ContextVar[Principal] = ContextVar("sender")

# The prefix of our paths as the sender of a request sees them.
PathPrefix = Callable[[Scope], str]


class SseFrontend:
    """The SSE frontend. Every stream is one session of one host."""

    def __init__(
        self,
        gateway: Dispatcher,
        config: FrontendConfig,
        messages_path: str,
        limits: BodyLimits,
        prefix: PathPrefix,
        forwarder: Forwarder,
    ) -> None:
        self._forwarder = forwarder
        self._gateway = gateway
        self._names, self._schemas = config.names, config.schemas
        self._messages_path = messages_path
        self._limits = limits
        self._prefix = prefix
        self._peers: dict[str, tuple[Host, Peer]] = {}
        self._streams: set[EventStream] = set()

    def close(self) -> None:
        """Close every stream."""
        for stream in self._streams:
            stream.end()

    async def stream(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve `GET /sse` (ASGI) for an authenticated sender."""
        if scope["method"] != "GET":
            await respond(send, 405, {"error": "GET opens the event stream."}, {b"allow": b"GET"})
            return
        admission = self._limits.admission
        try:
            wishes = wishes_of(scope)
            with admission.acquire("sessions", principal), admission.acquire("streams", principal):
                await self._stream(principal, scope, receive, send, wishes)
        except WrongAddress as wrong:
            await respond(send, 400, {"error": str(wrong)})
        except TooMany as full:
            await _no_space(send, full)

    async def _stream(
        self, principal: Principal, scope: Scope, receive: Receive, send: Send, wishes: AddressWishes
    ) -> None:
        # The id names the replica that has the stream.
        session_id = f"{secrets.token_urlsafe(24)}{_OWNED_BY}{self._gateway.group.membership.id}"
        stream = self._limits.unread.open()
        host = Host("sse", self._names, principal, session=session_id, wishes=wishes, schemas=self._schemas)
        host.user_agent = header(scope, b"user-agent")

        async def answer(method: str, params: dict[str, Any], channel: Channel) -> Any:
            asked = host.of_request(method, _sender.get(principal))
            with self._limits.admission.acquire("pending", asked.principal):
                return await self._gateway.answer(asked, method, params, channel)

        def on_notification(method: str, params: dict[str, Any]) -> None:
            self._gateway.on_notification(host, method, params)

        async with Tasks("an SSE session") as tasks:
            peer = Peer(lambda data, _: stream.push(data), tasks, answer, on_notification)
            self._peers[session_id] = (host, peer)
            host.connection = peer
            self._gateway.list_changes.attach(host)
            self._streams.add(stream)
            path = f"{self._prefix(scope)}{self._messages_path}?session_id={session_id}"
            stream.push(path.encode(), "endpoint")
            tasks.start(end_when_gone(receive, stream))
            failure: SessionFailure | None = None
            try:
                await stream.run(send)
                failure = "unread" if stream.given_up else None
            except asyncio.CancelledError:
                failure = "revoked"
                raise
            finally:
                self._streams.discard(stream)
                self._gateway.list_changes.detach(host, failure)
                del self._peers[session_id]
                peer.close("the host closed its stream")

    async def message(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the `POST` of one message (ASGI) to the address that the stream named."""
        if scope["method"] != "POST":
            await respond(send, 405, {"error": "Messages are posted here."}, {b"allow": b"POST"})
            return
        try:
            await self._take(principal, scope, receive, send)
        except OwnerNotReached as missed:
            await respond(send, missed.status, {"error": missed.message}, {b"retry-after": b"%d" % missed.retry_after})

    async def _take(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a message, or have the replica take it that has the stream.

        Raises:
            OwnerNotReached: that one did not get it.
        """
        session_id = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        host, peer = self._peers.get(session_id, (None, None))
        owner = session_id.rpartition(_OWNED_BY)[2]
        away = peer is None and await self._forwarder.has(owner, scope)
        if not away and (host is None or not host.principal.is_same_caller(principal)):
            await respond(send, 404, {"error": "No such session; open the event stream first."})
            return
        try:
            # A request in the message takes a slot of its own; an answer to a request of ours needs none.
            with nullcontext() if is_small(scope) else self._limits.admission.acquire("pending", principal):
                body = await self._limits.read(scope, receive)
                if peer is None:
                    await self._forward(owner, session_id, body, principal, scope, receive, send)
                    return
                message = decode_from_host(body)
        except TooMany as full:
            await _no_space(send, full)
            return
        except BodyRefused as refused:
            await respond(send, refused.status, {"error": str(refused)})
            return
        except ValueError as error:
            await respond(send, 400, {"error": f"Not JSON: {error_text(error)}"})
            return
        if host is not None and principal.token is not None:
            # What is decided about a message depends on the token that it was sent with.
            host.principal = principal
            # The task that answers a request in the message takes it along.
            _sender.set(principal)
        await respond(send, 202)
        if method_of(message) in ON_RECORD and isinstance(message.get("params"), dict):
            message = {**message, "params": with_context(message["params"], headers_of(scope))}
        try:
            peer.feed(message)
        except Exception as error:  # of ours, or for want of memory: the post is answered, and its request waits
            request_id = sane_id(message.get("id")) if method_of(message) is not None else None
            if request_id is None:
                raise
            peer.refuse(request_id, error)

    async def _forward(
        self, owner: str, session_id: str, body: bytes, principal: Principal, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Have the replica that has the stream take a message."""
        path = f"/{MESSAGES}?{urlencode({'session_id': session_id})}"
        try:
            await self._forwarder.pass_on(owner, path, body, principal, scope, receive, send)
        except HopFailed as failed:
            log.info("a message could not be forwarded: %s", failed)
            if not failed.sent and self._gateway.group.membership.get(owner) is not None:
                raise OwnerNotReached(str(failed)) from failed
            await respond(send, 404, {"error": f"The stream of this session is gone: {failed}."})


async def _no_space(send: Send, full: TooMany) -> None:
    await respond(send, full.code, {"error": full.message}, {b"retry-after": b"%d" % full.retry_after})
