"""The response to one JSON-RPC request over Streamable HTTP: a body, or an event stream that may be resumed."""

import asyncio
import logging
from typing import Any, Final, Protocol

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.result_memory import hold
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.domain.text.error_text import error_text
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import AnswerTooDeep, SessionExpired, too_many_values, unreadable
from aggregator.upstream.transports.http_body import message_in, messages_in, says_unknown
from aggregator.upstream.transports.http_clients.port import HttpResponse
from aggregator.upstream.transports.rate_limit import InboundRateLimit
from aggregator.upstream.transports.web import not_mcp, read_bounded, read_slices
from aggregator.wire.codec import TooDeep
from aggregator.wire.lines import WINDOW, answered_by
from aggregator.wire.mending import MARK, NO_ID
from aggregator.wire.message import error_of, is_answer, method_of
from aggregator.wire.pending_request import OnProgress
from aggregator.wire.sse import EventReader
from aggregator.wire.values import TooManyValues

log = logging.getLogger(__name__)

# Statuses of an answer; that of what was created, or changed on its way, is as good as 200.
_GOOD: Final = frozenset({200, 201, 203})


class ReadingSession(Protocol):
    """The connection that a request belongs to, as the reader of its response knows it."""

    server: ServerConfig
    rate_limit: InboundRateLimit

    def keep_session(self, response: HttpResponse) -> None:
        """Remember the session id in a response."""
        ...

    async def raise_for_status(self, response: HttpResponse, session: str | None, greeted: bool) -> dict[str, Any]:
        """Raise the error of a response with another status than 200."""
        ...

    def on_fault(self, fault: str, /) -> None:
        """Take the fault of a message that is used in spite of it."""
        ...

    def on_message(self, message: dict[str, Any], origin: RunningCall | None = None) -> None:
        """Take a request or notification of the server."""
        ...


class ResponseReader:
    """The response to one request, over as many streams as it takes."""

    def __init__(
        self, connection: ReadingSession, request_id: int, on_progress: OnProgress | None, origin: RunningCall | None
    ) -> None:
        self._connection = connection
        self.id = request_id
        self._on_progress = on_progress
        self._origin = origin
        self.last_event: str | None = None
        self.retry: int | None = None
        self._unread: str | None = None
        # Why a response that is over held no answer.
        self.no_answer = "the response stream ended without an answer"
        self._session: str | None = None

    async def read(
        self, response: HttpResponse, session: str | None = None, *, opens: bool = False, greeted: bool = True
    ) -> dict[str, Any] | None:
        """Read a response, and return the result; None if a stream ended before it came.

        session, greeted: the session that the request was sent in, and False for one that opens it.

        Raises:
            SessionExpired: the server says that it does not know the session; nothing was run.
        """
        connection = self._connection
        self._session = session if greeted else None
        server = connection.server
        if response.status not in _GOOD:
            if response.status == 202:
                raise UpstreamBadAnswer(server.id, f"{server.id} accepted the request (202) but will not answer it.")
            return await connection.raise_for_status(response, session, greeted)
        if opens:
            connection.keep_session(response)
        if response.content_type == "application/json":
            body = await read_bounded(response, server)
            messages = self._messages(body, alone=True)
            if not any(messages):
                raise UpstreamBadAnswer(server.id, f"{server.id} answered something that is not JSON-RPC.")
            for message in messages:
                if not is_answer(message):
                    self._on_message(message)
                elif message and (result := self._result(message)) is not None:
                    return result
            return None
        if response.content_type != "text/event-stream":
            kind = response.content_type
            if (result := await self._undeclared(response)) is not None:
                return result
            not_ours = f"{server.id} answered with another content type: {not_mcp(kind).words}."
            raise UpstreamBadAnswer(server.id, not_ours, said=f"content-type: {kind}")
        reader = EventReader(server.limits.max_message_bytes)
        async for chunk in read_slices(response):
            before = reader.lines
            for event in reader.feed(chunk):
                self.last_event = event.id or self.last_event
                self.retry = event.retry if event.retry is not None else self.retry
                for message in self._messages(event.data):
                    if not is_answer(message):
                        self._on_message(message)
                    elif message and (result := self._result(message)) is not None:
                        hold(len(event.data))
                        return result
                connection.rate_limit.charge(len(event.data))
            if pause := connection.rate_limit.charge_lines(reader.lines - before):
                await asyncio.sleep(pause)
        if (result := self._unended(reader)) is not None:
            return result
        if self._unread is not None:
            # What could not be read may have been the answer, and would not come again.
            raise unreadable(server.id, self._unread)
        return None

    async def _undeclared(self, response: HttpResponse) -> dict[str, Any] | None:
        """Return the result in a body of another content type; None if it is not the answer to this request."""
        body = await read_bounded(response, self._connection.server, only_json=True)
        return self._certain(body, "answers with another content type than application/json")

    def _unended(self, reader: EventReader) -> dict[str, Any] | None:
        """Return the result in an event that lacks its end; None if it is not the whole answer to this request."""
        return self._certain(reader.unended(), "answers without the end of their event")

    def _certain(self, data: bytes, fault: str) -> dict[str, Any] | None:
        """Return the result in a text that is one JSON-RPC response with the id of this request; None for others."""
        message = message_in(data, self._connection.server)
        if message.get("jsonrpc") != "2.0" or message.get("id") not in (self.id, str(self.id)):
            return None
        if not (isinstance(message.get("result"), dict) or isinstance(message.get("error"), dict)):
            return None
        self._connection.on_fault(fault)
        return self._result(message)

    def _messages(self, data: bytes, *, alone: bool = False) -> list[dict[str, Any]]:
        """Return the messages of a text; none if it cannot be read and may be something else than the answer.

        alone: the text is all that comes, and so the answer.
        """
        server = self._connection.server
        try:
            return messages_in(data, server, self._connection.on_fault)
        except TooManyValues:
            raise too_many_values(server) from None
        except ValueError as problem:
            answers = answered_by(data[:WINDOW].removeprefix(MARK), data[-WINDOW:]) in (self.id, str(self.id))
            if isinstance(problem, TooDeep):
                if answers:
                    raise AnswerTooDeep(server.id, data) from None
                return []
            if alone or answers:
                raise unreadable(server.id, error_text(problem)) from None
            self._unread = error_text(problem)
        return []

    def _result(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("id") not in (self.id, str(self.id), *NO_ID):
            log.debug("dropped an answer nobody waits for")
            self.no_answer = "the answer has the id of another request"
            return None
        if isinstance(result := message.get("result"), dict):
            return result
        if self._session is not None and says_unknown(message.get("error"), self._session):
            raise SessionExpired
        raise error_of(message)

    def _on_message(self, message: dict[str, Any]) -> None:
        # The request is worked on, so that an error that comes later is no word about the session.
        self._session = None
        params = message.get("params")
        if method_of(message) == "notifications/progress" and isinstance(params, dict):
            if self._on_progress is not None and params.get("progressToken") in (self.id, str(self.id)):
                self._on_progress({key: value for key, value in params.items() if key != "progressToken"})
        else:
            self._connection.on_message(message, self._origin)
