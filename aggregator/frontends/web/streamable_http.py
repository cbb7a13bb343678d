"""The Streamable HTTP frontend: 2026-07-28 without sessions and the handshake eras with them, on one endpoint."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from aggregator.config.settings import FrontendConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import ON_RECORD, TOOL_CALL
from aggregator.domain.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    AnswerLost,
    HostError,
    OwnerNotReached,
)
from aggregator.domain.principal import Principal
from aggregator.domain.text.error_text import error_text
from aggregator.domain.versions import LEGACY_VERSIONS, META_VERSION, MODERN_VERSIONS
from aggregator.frontends.web.address_wishes import WrongAddress, wishes_of
from aggregator.frontends.web.body_limits import BodyLimits, BodyRefused, UnreadableMessage, is_small
from aggregator.frontends.web.credentials import refuse_for_now
from aggregator.frontends.web.event_stream import end_when_gone
from aggregator.frontends.web.exchange import Exchange
from aggregator.frontends.web.forwarder import HTTP, Forwarder
from aggregator.frontends.web.header_context import Headers, check_envelope, first, headers_of, with_context
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from aggregator.frontends.web.request_cache import BEGUN, RequestCache
from aggregator.frontends.web.resumable import EventId
from aggregator.frontends.web.sessions.http_session import BatchChannel, HttpSession
from aggregator.frontends.web.sessions.session_table import ENTERING, KEPT, ROOTS_CHANGED, Sessions
from aggregator.gateway.admission import Slot, TooMany
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.eras import unsupported
from aggregator.gateway.handshake import take_initialize
from aggregator.gateway.host import AddressWishes, Host
from aggregator.replicas.group.hop_client import HopFailed
from aggregator.wire import headers as wire_headers
from aggregator.wire.codec import decode_from_host, encode
from aggregator.wire.message import incoming, method_of, sane_id
from aggregator.wire.responses import error_message

log = logging.getLogger(__name__)

_LISTEN: Final = "subscriptions/listen"
_BATCHES: Final = "2025-03-26"


class StreamableHttpFrontend:
    """ASGI for one endpoint. Tasks that outlive a request run in `tasks`."""

    def __init__(
        self,
        gateway: Dispatcher,
        config: FrontendConfig,
        limits: BodyLimits,
        sessions: Sessions,
        posts: RequestCache,
        tasks: Tasks,
        forwarder: Forwarder,
    ) -> None:
        self._forwarder = forwarder
        self._posts = posts
        self._gateway = gateway
        self._names, self._schemas = config.names, config.schemas
        self._limits = limits
        self._sessions = sessions
        self._tasks = tasks
        self._slow = posts.slow

    async def serve(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request of a known principal: ASGI."""
        headers = headers_of(scope)
        try:
            if BEGUN in scope:
                await self._posts.take_over(scope[BEGUN], receive, send)
                return
            wishes = wishes_of(scope)
            if scope["method"] != "POST":
                await self._serve_session(principal, scope, headers, receive, send)
                return
            slot, full = self._slot(principal, scope)
            with slot:
                message = await self._message(scope, headers, receive)
                if full is not None:
                    # Only a message that waits for no answer is taken without a slot: it may free one.
                    if not isinstance(message, dict) or ("method" in message and "id" in message):
                        raise full
                elif method_of(message) == _LISTEN and isinstance(slot, Slot):
                    slot.change("streams")
                if isinstance(message, dict) and _is_modern(message, headers):
                    owner = await self._kept_at(message, scope)
                    if owner is not None and await self._forwarder.resume(
                        owner, message, principal, scope, receive, send
                    ):
                        return
                    await self._post_modern(principal, message, headers, wishes, scope, receive, send)
                else:
                    await self._post_legacy(principal, message, headers, wishes, scope, receive, send)
        except TooMany as refused:
            wait = {b"retry-after": b"%d" % refused.retry_after}
            await respond(send, refused.code, error_message(None, refused), wait)
        except WrongAddress as wrong:
            await respond(send, 400, error_message(None, HostError(INVALID_REQUEST, str(wrong))))
        except UnreadableMessage as unreadable:
            await respond(send, unreadable.status, unreadable.body)
        except OwnerNotReached as missed:
            wait = {b"retry-after": b"%d" % missed.retry_after}
            await respond(send, missed.status, error_message(None, missed), wait)

    def _slot(self, principal: Principal, scope: Scope) -> tuple[AbstractContextManager[object], TooMany | None]:
        """Return a slot for a request, or none and why there is none.

        Raises:
            TooMany: there is none, and the request is too large to be read without one.
        """
        try:
            return self._limits.admission.acquire("pending", principal), None
        except TooMany as full:
            if not is_small(scope):
                raise
            return nullcontext(), full

    async def _kept_at(self, message: dict[str, Any], scope: Scope) -> str | None:
        """Return the other replica at which the call of a request waits, or its connection is open; mostly None."""
        params = message.get("params")
        if not isinstance(params, dict) or "requestState" not in params:
            return None
        owner = self._gateway.input_requests.kept_at(params)
        return owner if owner is not None and await self._forwarder.has(owner, scope) else None

    async def _message(self, scope: Scope, headers: Headers, receive: Receive) -> Any:
        """Return the decoded body of a post.

        Raises:
            UnreadableMessage: the body is no JSON, too large, or not announced as JSON.
        """
        if not (first(headers, "content-type") or "").lower().startswith("application/json"):
            raise UnreadableMessage(415, HostError(INVALID_REQUEST, "Content-Type must be application/json."))
        accept = first(headers, "accept") or "*/*"
        if "application/json" not in accept and "*/*" not in accept and "application/*" not in accept:
            wrong = HostError(INVALID_PARAMS, "Accept must allow application/json (and text/event-stream).")
            raise UnreadableMessage(406, wrong)
        try:
            return decode_from_host(await self._limits.read(scope, receive))
        except BodyRefused as refused:
            raise UnreadableMessage(refused.status, {"error": str(refused)}) from refused
        except MemoryError as full:
            log.error("a message of a host could not be read: there was no memory for it")
            wrong = HostError(INTERNAL_ERROR, "There was no memory to read this message. Nothing was done.")
            raise UnreadableMessage(503, wrong) from full
        except ValueError as problem:
            raise UnreadableMessage(400, HostError(PARSE_ERROR, f"Parse error: {error_text(problem)}")) from problem

    async def _serve_session(
        self, principal: Principal, scope: Scope, headers: Headers, receive: Receive, send: Send
    ) -> None:
        """Serve the other methods: `GET` opens the standing stream of a session, `DELETE` ends the session."""
        if scope["method"] not in ("GET", "DELETE") or first(headers, wire_headers.VERSION) in MODERN_VERSIONS:
            await respond(send, 405, {"error": "Messages are posted here."}, {b"allow": b"POST"})
            return
        session = await self._session(principal, headers, send)
        if session is not None and scope["method"] == "DELETE":
            await self._sessions.end(session)
            await self._forwarder.spread_end(session)
            await respond(send, 204)
        elif session is not None:
            with self._limits.admission.acquire("streams", principal):
                last = EventId.read(first(headers, wire_headers.LAST_EVENT))
                if last is None:
                    await self._stand(session, headers, receive, send)
                elif await self._forwarder.has(last.owner, scope):
                    await self._resume_elsewhere(session, last, principal, scope, receive, send)
                else:
                    await self._resume(session, last, receive, send)

    def _host(self, principal: Principal, headers: Headers, wishes: AddressWishes) -> Host:
        agent = first(headers, "user-agent")
        return Host("http", self._names, principal, wishes=wishes, schemas=self._schemas, user_agent=agent)

    # -- posts

    async def _post_modern(
        self,
        principal: Principal,
        message: dict[str, Any],
        headers: Headers,
        wishes: AddressWishes,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a message of 2026-07-28. Every request is a host of its own."""
        method, request_id = method_of(message), sane_id(message.get("id"))
        params: Any = message.get("params")
        if "id" not in message and method is not None:
            # No notification of a client means anything here: closing the stream is what cancels.
            version = first(headers, wire_headers.VERSION)
            if version in MODERN_VERSIONS:
                await respond(send, 202)
            else:
                await respond(send, 400, error_message(None, unsupported(str(version))))
            return
        if method is None or request_id is None:
            await respond(send, 400, error_message(None, _not_a_message()))
            return
        host = self._host(principal, headers, wishes)
        host.headers = headers
        async with Exchange(
            request_id, receive, send, self._tasks, modern=True, slow=self._slow, unread=self._limits.unread
        ) as exchange:
            check_envelope(method, params, headers)
            if method in ON_RECORD:
                params = with_context(params, headers)
            exchange.result = await self._gateway.answer(host, method, params, exchange)
            if method == TOOL_CALL:
                self._posts.remember(scope, host, params)

    async def _post_legacy(
        self,
        principal: Principal,
        message: Any,
        headers: Headers,
        wishes: AddressWishes,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if isinstance(message, dict) and method_of(message) == "initialize":
            await self._initialize(self._host(principal, headers, wishes), message, receive, send)
            return
        session = await self._session(principal, headers, send)
        if session is None:
            return
        with session:
            if isinstance(message, list) and message and session.host.version == _BATCHES:
                await self._post_batch(session, message, headers, send)
            elif not isinstance(message, dict):
                await respond(send, 400, error_message(None, _not_a_message()))
            elif "method" in message and "id" in message:
                await self._ask(session, message, headers, scope, receive, send)
            else:
                await self._take(session, message)
                await respond(send, 202)

    async def _initialize(self, host: Host, message: dict[str, Any], receive: Receive, send: Send) -> None:
        request_id, params = sane_id(message.get("id")), message.get("params")
        if request_id is None:
            await respond(send, 400, error_message(None, _not_a_message()))
            return
        if not isinstance(params, dict):
            wrong = HostError(INVALID_PARAMS, "`initialize` needs `params` with `protocolVersion`.")
            await respond(send, 400, error_message(request_id, wrong))
            return
        if self._gateway.group.awaited and self._gateway.group.enabled:
            # No other replica would know the session.
            await refuse_for_now(send)
            return
        try:
            take_initialize(host, params)  # the id of the session says it
        except HostError as wrong:
            await respond(send, 200, error_message(request_id, wrong))
            return
        session = self._sessions.open(host)
        async with Exchange(
            request_id,
            receive,
            send,
            self._tasks,
            modern=False,
            slow=self._slow,
            unread=self._limits.unread,
            headers={b"mcp-session-id": session.id.encode()},
        ) as exchange:
            exchange.result = await self._gateway.answer(session.host, "initialize", params, exchange)
        if not exchange.succeeded:
            self._sessions.let_go(session)

    async def _ask(
        self,
        session: HttpSession,
        message: dict[str, Any],
        headers: Headers,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        parsed, request_id = incoming(message), sane_id(message["id"])
        if parsed is None or request_id is None:
            await respond(send, 400, error_message(request_id, _not_a_message()))
        elif request_id in session.running:
            twice = HostError(INVALID_REQUEST, f"A request with id {request_id!r} is still running.")
            await respond(send, 400, error_message(request_id, twice))
        else:
            (method, params, _), by = parsed, session.host.principal
            exchange = session.running[request_id] = Exchange(
                request_id,
                receive,
                send,
                self._tasks,
                modern=False,
                slow=self._slow,
                peer=session.peer,
                unread=self._limits.unread,
                resumable=session.streams,
            )
            if method in ON_RECORD:
                params = with_context(params, headers)
            try:
                async with exchange:
                    host = session.host_of(method, by)
                    exchange.result = await self._gateway.answer(host, method, params, exchange)
                    if method == TOOL_CALL:
                        self._posts.remember(scope, host, params, session)
                    elif method in KEPT:
                        await self._sessions.note_set(session, method, params)
            finally:
                session.running.pop(request_id, None)

    async def _post_batch(self, session: HttpSession, batch: list[Any], headers: Headers, send: Send) -> None:
        """2025-03-26 allows several messages in one post; their answers come back in one."""
        parts, principal = [part for part in batch if isinstance(part, dict)], session.host.principal
        asked = [part for part in parts if "method" in part and "id" in part]
        # First what needs no answer: nothing was run where an answer to another replica could not be brought.
        await asyncio.gather(*(self._take(session, part) for part in parts if "method" not in part or "id" not in part))
        answers = await asyncio.gather(*(self._answer_part(session, principal, part, headers) for part in asked))
        await (respond(send, 200, answers) if answers else respond(send, 202))

    async def _answer_part(self, session: HttpSession, by: Principal, part: Any, headers: Headers) -> dict[str, Any]:
        parsed, request_id = incoming(part), sane_id(part["id"])
        try:
            if parsed is None or request_id is None:
                raise _not_a_message()
            method, params, _ = parsed
            if method in ON_RECORD:
                params = with_context(params, headers)
            with self._limits.admission.acquire("pending", by):
                result = await self._gateway.answer(
                    session.host_of(method, by), method, params, BatchChannel(request_id)
                )
            await self._sessions.note_set(session, method, params)
            return {"jsonrpc": "2.0", "id": request_id, "result": result}
        except Exception as error:
            return error_message(request_id, error)

    async def _take(self, session: HttpSession, message: dict[str, Any]) -> None:
        """Take a notification, or an answer to a question of this replica or another one.

        Raises:
            OwnerNotReached: the answer is for another one, and could not be brought there.
        """
        if "method" in message:
            self._on_notification(session, message)
        else:
            session.peer.feed(message)
            await self._forwarder.bring_answer(session, message)

    def _on_notification(self, session: HttpSession, message: dict[str, Any]) -> None:
        parsed = incoming(message)
        if parsed is None:
            return
        method, params, _ = parsed
        if method == "notifications/cancelled":
            request_id = sane_id(params.get("requestId"))
            exchange = session.running.get(request_id) if request_id is not None else None
            if exchange is not None:
                exchange.cancel()
            elif request_id is not None:
                self._sessions.publish_cancelled(session, request_id)
        else:
            self._gateway.on_notification(session.host, method, params)
            if method == ROOTS_CHANGED:
                self._sessions.publish_roots_changed(session)

    # -- sessions

    async def _session(self, principal: Principal, headers: Headers, send: Send) -> HttpSession | None:
        """The session a legacy request names; answers the request itself when there is none.

        A host that did not open the session gets the answer for an unknown one: an id proves nothing about its sender.
        """
        session_id = first(headers, wire_headers.SESSION)
        if session_id is None:
            missing = HostError(
                INVALID_REQUEST, "Mcp-Session-Id is missing: send `initialize` first and repeat its id."
            )
            await respond(send, 400, error_message(None, missing))
            return None
        session = await self._sessions.find(session_id, principal)
        if session is not None:
            return session
        group = self._gateway.group
        if group.awaited and await group.entered(ENTERING):
            session = await self._sessions.find(session_id, principal)
        if group.awaited:
            await refuse_for_now(send)
        elif session is None:
            gone = HostError(INVALID_REQUEST, "Session not found: it ended or never was; send `initialize` again.")
            await respond(send, 404, error_message(None, gone))
        return session

    async def _resume(self, session: HttpSession, last: EventId, receive: Receive, send: Send) -> None:
        """`GET` with `Last-Event-ID`: the rest of the answer to a request (L/basic/transports, Resumability)."""
        resumed = session.streams.find(last)
        if resumed is None:
            await self._answer_lost(last, "it is kept no longer", send)
            return
        stream = resumed.resume(last.number)
        watching = self._tasks.start(end_when_gone(receive, stream))
        try:
            with session:
                await stream.run(send)
        finally:
            watching.cancel()

    async def _resume_elsewhere(
        self, session: HttpSession, last: EventId, principal: Principal, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Have the replica that answers a request send the rest of its answer."""
        try:
            with session:
                lost = self._lost(last, "its replica ended") if last.request_id is not None else b""
                await self._forwarder.pass_on(last.owner, f"/{HTTP}", b"", principal, scope, receive, send, lost)
        except HopFailed as failed:
            await self._answer_lost(last, str(failed), send)

    async def _answer_lost(self, last: EventId, why: str, send: Send) -> None:
        """Answer the request of a host with the error that the rest of its answer is lost."""
        if last.request_id is None:
            await respond(send, 400, {"error": f"The rest of that answer cannot be had: {why}."})
            return
        stream = self._limits.unread.open()
        stream.push(self._lost(last, why))
        stream.end()
        await stream.run(send)

    @staticmethod
    def _lost(last: EventId, why: str) -> bytes:
        return encode(error_message(last.request_id, AnswerLost(f"The rest of the answer cannot be had ({why})")))

    async def _stand(self, session: HttpSession, headers: Headers, receive: Receive, send: Send) -> None:
        """`GET`: the standing stream of a session, for messages that belong to no request."""
        accept = first(headers, "accept") or "*/*"
        if "text/event-stream" not in accept and "*/*" not in accept:
            await respond(send, 406, {"error": "Accept must allow text/event-stream."})
            return
        stream = session.open_stream()
        if stream is None:
            await respond(send, 409, {"error": "This session has its standing stream already."})
            return
        self._sessions.note_stream(session, self._gateway.group.membership)
        watching = self._tasks.start(end_when_gone(receive, stream))
        try:
            with session:
                await stream.run(send)
        finally:
            watching.cancel()
            session.stream_closed(stream)


def _is_modern(message: Mapping[str, Any], headers: Headers) -> bool:
    """Return whether a message speaks 2026-07-28: by its header, or by the envelope in it."""
    version = first(headers, wire_headers.VERSION)
    if version is not None and version not in LEGACY_VERSIONS:
        return True
    if method_of(message) == "initialize":
        return False
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and META_VERSION in meta


def _not_a_message() -> HostError:
    return HostError(INVALID_REQUEST, "The body must be one JSON-RPC request, notification or response.")
