"""A request over Streamable HTTP that was sent without a task: its answer is taken where the bytes come in."""

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from aggregator.domain.bounds.result_memory import SMALL
from aggregator.upstream.transports.http_body import object_in
from aggregator.upstream.transports.http_clients.port import HttpResponse, StartedResponse
from aggregator.upstream.transports.response_reader import ReadingSession, ResponseReader
from aggregator.wire.sent_request import AnswerReceiver

log = logging.getLogger(__name__)


class SendingSession(ReadingSession, Protocol):
    """The connection that a request was sent over."""

    async def read(
        self,
        sending: AbstractAsyncContextManager[HttpResponse],
        answer: ResponseReader,
        method: str,
        session: str | None,
    ) -> dict[str, Any]:
        """Return the result of a request that is being sent."""
        ...


class HttpSentRequest:
    """The request. A whole answer of few bytes goes to the receiver; everything else is for `wait`."""

    __slots__ = ("_connection", "_method", "_most", "_reader", "_receiver", "_response", "_session")

    def __init__(
        self,
        connection: SendingSession,
        response: StartedResponse,
        reader: ResponseReader,
        method: str,
        session: str | None,
        receiver: AnswerReceiver,
    ) -> None:
        self._connection = connection
        self._response = response
        self._reader = reader
        self._method = method
        self._session = session
        self._receiver = receiver
        self._most = min(SMALL, connection.server.max_message_bytes)
        response.on_change = self._look

    async def wait(self) -> dict[str, Any]:
        self._response.on_change = None
        return await self._connection.read(self._response, self._reader, self._method, self._session)

    def __del__(self) -> None:
        # A task may be cancelled before it could wait. Nothing else would ever read the response then.
        self._response.release()

    def _look(self) -> None:
        response = self._response
        try:
            body = response.whole_json(self._most)
            if body is None and response.may_be_small_json(self._most):
                return
            result = self._result(body) if body is not None else None
        except Exception as error:  # of ours, or for want of memory: the task that waits says what is wrong
            log.debug("%s: an answer cannot be taken at once: %r", self._connection.server.id, error)
            result = None
        response.on_change = None
        if result is None:
            self._receiver.take_over()
        else:
            self._receiver.take_result(result)

    def _result(self, body: bytes) -> dict[str, Any] | None:
        """Return the result in a body, if that is the plain answer to this request."""
        try:
            message = object_in(body, self._connection.server)
        except ValueError:
            return None
        given, result = message.get("id"), message.get("result")
        return result if type(given) is int and given == self._reader.id and isinstance(result, dict) else None
