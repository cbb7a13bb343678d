"""The common part of transports with one stream in each direction: a peer, and an end that fails all that wait."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.domain.text.error_text import error_text
from aggregator.upstream.connection import AnswerTooDeep, Connection, InboundHandlers, JsonRpcRequest, unreadable
from aggregator.upstream.list_kinds import LIST_METHODS
from aggregator.wire.codec import TooDeep
from aggregator.wire.lines import WINDOW, answered_by
from aggregator.wire.mending import MARK, NO_ID, is_bare_answer, is_unnamed_answer, mended
from aggregator.wire.message import error_of
from aggregator.wire.peer import Channel, Peer
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest, Send

log = logging.getLogger(__name__)

_LISTS: Final = frozenset(kind.method for kind in LIST_METHODS.values())


class UnclearAnswer(UpstreamBadAnswer):
    """An answer without an id that ends a request for a list, but may be for a notification before it.

    error: the error that the list ends with if the answer is for the list.
    """

    def __init__(self, server: str, error: Exception) -> None:
        super().__init__(server, f"{server} sent an answer without an id, which may be for this request.")
        self.error = error


class DuplexConnection(Connection):
    """A `Connection` over a peer. A transport provides `send`, and feeds `peer` the messages that come."""

    def __init__(self, inbound: InboundHandlers, tasks: Tasks, send: Send) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        # With one stream for everything, no message can be assigned to one of our requests.
        async def on_request(method: str, params: dict[str, Any], channel: Channel) -> dict[str, Any]:
            return await inbound.on_request(method, params, None)

        def on_notification(method: str, params: dict[str, Any]) -> None:
            inbound.on_notification(method, params, None)

        self.peer = Peer(send, tasks, on_request, on_notification)
        self._on_fault = inbound.on_fault
        # The id of the last request that was sent, and that of the first request after our last other message.
        self._last_sent = self._after_notice = 0
        # The id of the last request for a list.
        self._list_request = 0

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """See `Connection`."""
        return self.ask(request, receiver)

    def ask(
        self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None, via: Send | None = None
    ) -> PendingRequest:
        """Send a request through the peer. `initialize` must not be cancelled (L/basic/utilities/cancellation)."""
        method, origin = request.method, request.origin
        sent = self.peer.begin(
            method,
            request.params,
            receiver,
            request.on_progress,
            cancellable=method != "initialize",
            via=via,
            late=origin.answer if origin is not None else None,
        )
        if origin is not None:
            origin.sent_as = sent.id
        if method in _LISTS:
            self._list_request = sent.id
        return sent

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See `Connection`. The request for a list is repeated after an `UnclearAnswer`."""
        try:
            return await super().request(method, params)
        except UnclearAnswer:
            pass
        try:
            return await super().request(method, params)
        except UnclearAnswer as again:
            # The notification is answered once: at least one of the two answers is about the list.
            raise again.error from None

    def answers(self, message: Any) -> bool:
        """Return True if a message without its version is the answer to a request of ours."""
        return is_bare_answer(message) and self.peer.waits_for(message.get("id"))

    def fail_odd(self, server: str, head: bytes, tail: bytes, error: Exception) -> None:
        """Fail the request of an answer that an error of ours kept from it."""
        log.error("%s: a message of it could not be taken", server, exc_info=error)
        request_id = answered_by(head, tail)
        if request_id is not None:
            self.peer.fail(request_id, unreadable(server, f"an error of ours ({type(error).__name__})"))

    def take_odd(self, data: bytes, server: str, parts: list[Any] | None) -> bool:
        """Take a text that is no message as it stands; return False if nothing in it is one.

        parts: the values that it holds; None if it is not JSON. An answer that cannot be read fails its request.
        """
        fault: str | None = None
        try:
            if parts is None:
                parts, fault = mended(data, server)
        except ValueError as problem:
            request_id = answered_by(data[:WINDOW].removeprefix(MARK), data[-WINDOW:])
            if request_id is None or not self.peer.waits_for(request_id):
                return False
            self._on_fault("answers that cannot be read")
            too_deep = isinstance(problem, TooDeep)
            self.peer.fail(
                request_id, AnswerTooDeep(server, data) if too_deep else unreadable(server, error_text(problem))
            )
            return True
        used = False
        for part in parts:
            bare = not is_message(part)
            if bare and not self.answers(part):
                used = self._take_unnamed(part, server) or used
                continue
            used = True
            if bare:
                self._on_fault('answers without "jsonrpc": "2.0"')
            if fault is not None:
                self._on_fault(fault)
            self.peer.feed(part, len(data))
        return used

    def note_sent(self, request_id: int | None) -> None:
        """Note that a message of ours is sent. request_id: None for one that has no answer."""
        if request_id is None:
            self._after_notice = self._last_sent + 1
        else:
            self._last_sent = request_id

    def _take_unnamed(self, message: Any, server: str) -> bool:
        """Take an answer whose id is missing, null or empty, which ends the one request under way that it must be for.

        An error with the id null says that the server could not read the id of a request (JSON-RPC 2.0, section 5): it
        is the answer. The content of any other is not used, since it may belong to another request.

        Both may also be for a message of ours that has no answer, such as a notification. That is ruled out once a
        request which was sent after the last of these has ended: servers answer in order, or with ids. Until then only
        a request for a list is ended, since that has no effect and can be sent again.
        """
        if not is_unnamed_answer(message):
            return False
        self._on_fault("answers without an id")
        waiting = self.peer.only_waiting()
        unclear = self._last_sent - self._after_notice + 1 <= (waiting is not None and waiting >= self._after_notice)
        if waiting is None or (unclear and waiting != self._list_request):
            # Its words are left out: written with escapes, a secret in them would not be recognised.
            log.info("%s: an answer without an id was dropped, since it may be for a notification", server)
            return True
        error: Exception
        if "id" in message and isinstance(message.get("error"), dict):
            error = error_of(message)
        else:
            error = UpstreamBadAnswer(
                server,
                f"{server} sent an answer without an id while this was its only request. The aggregator did not use "
                "it, since it may belong to another request.",
            )
        if unclear:
            error = UnclearAnswer(server, error)
            # One more answer without an id may come: that of the list or that of the notification.
            self.note_sent(None)
        self.peer.fail(waiting, error)
        return True

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """See `Connection`."""
        self.peer.notify(method, params)

    def use_version(self, version: str) -> None:
        """Ignore the revision: these transports do not depend on it."""

    def end(self, reason: str) -> None:
        """End the connection and fail all that wait. May be called twice."""
        self.peer.close(reason)
        if not self.ended.done():
            self.ended.set_result(reason)


def is_message(part: Any) -> bool:
    """Return True for JSON-RPC with a method or an id; a log line in JSON is none, though it may have either."""
    return isinstance(part, dict) and part.get("jsonrpc") == "2.0" and ("method" in part or part.get("id") not in NO_ID)
