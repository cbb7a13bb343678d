"""The Streamable HTTP transport (S/basic/transports/streamable-http; sessions, resumption: L/basic/transports)."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.result_memory import SMALL
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.connection_causes import cause_of_beginning
from aggregator.domain.errors import (
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.missing import LoginRequired
from aggregator.domain.versions import MODERN_VERSIONS
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import Connection, InboundHandlers, JsonRpcRequest, SessionExpired
from aggregator.upstream.credentials import Credentials, NoTokenNow
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.http_body import message_in, messages_in, object_in, session_unknown
from aggregator.upstream.transports.http_clients.port import (
    BadAddress,
    HttpExchange,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    Unreachable,
)
from aggregator.upstream.transports.rate_limit import InboundRateLimit
from aggregator.upstream.transports.response_reader import ResponseReader
from aggregator.upstream.transports.web import (
    NOTICE_TIMEOUT,
    RETRY_DELAY,
    asks_for_patience,
    describe,
    read_bounded,
    read_slices,
    refusal,
    requests_to,
    retry_delay,
)
from aggregator.wire import headers as wire_headers
from aggregator.wire.codec import encode
from aggregator.wire.message import error_of, incoming, sane_id
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest
from aggregator.wire.responses import error_message
from aggregator.wire.sse import EventReader, EventTooLarge

log = logging.getLogger(__name__)

_ACCEPT: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_RESUME_ATTEMPTS: Final = 3
# Seconds that a server may take to end our session when the connection closes.
_END_SESSION_WITHIN: Final = 2.0
_OPENINGS: Final = frozenset({"initialize", "server/discover"})
# Requests whose headers are remembered for one connection, and the name of all if they have the same headers.
_REQUESTS: Final = 256
# Bytes of a body in which a server may say that it wants TLS.
_TELLING: Final = 2_000
_ANY: Final = ("", "")


class HttpConnection(Connection):
    """The connection to one endpoint: every request is a POST of its own, so that any number run side by side."""

    def __init__(self, server: ServerConfig, inbound: InboundHandlers, tasks: Tasks, http: HttpRequests) -> None:
        assert server.url is not None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.server = server
        self._url = server.url
        self._inbound = inbound
        self.on_fault = inbound.on_fault
        self._tasks = tasks
        self._http = http
        self._ids = itertools.count(1)
        self._version: str | None = None
        self._session: str | None = None
        # Requests by method and name, each with the headers of this revision and session.
        self._requests: dict[tuple[str, str], PreparedRequest] = {}
        self._listening: asyncio.Task[None] | None = None
        # Requests of the server that are being answered, by their id.
        self._answering: dict[str | int | None, asyncio.Task[None]] = {}
        self.rate_limit = InboundRateLimit()

    @property
    def _modern(self) -> bool:
        return self._version in MODERN_VERSIONS

    def use_version(self, version: str) -> None:
        self._version = version
        self._requests.clear()

    def end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """See `Connection`."""
        if self.ended.done():
            raise PeerGone(self.ended.result())
        request_id, method, params = next(self._ids), request.method, request.params
        if request.origin is not None:
            request.origin.sent_as = request_id
        if request.on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}
        body = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        if method == "initialize":
            session, prepared = None, self._http.prepare("POST", self._url, _ACCEPT)
        else:
            session, prepared = self._session, self._prepared(method, params, request.headers)
        exchange = self._http.begin(prepared, body)
        reader = ResponseReader(self, request_id, request.on_progress, request.origin)
        return HttpPendingRequest(self, exchange, reader, method, session, receiver)

    async def read(
        self, exchange: HttpExchange, answer: ResponseReader, method: str, session: str | None
    ) -> dict[str, Any]:
        """Return the result of a request that was begun in this session."""
        try:
            async with exchange as response:
                result = await answer.read(
                    response, session, opens=method == "initialize", greeted=method not in _OPENINGS
                )
            return result if result is not None else await self._resume(answer)
        except asyncio.CancelledError:
            # A closed stream is the modern way to cancel; before that a disconnect meant nothing.
            if not self._modern and method not in _OPENINGS:
                gone = {"requestId": answer.id, "reason": "no longer waited for"}
                self._tasks.start(self.notify("notifications/cancelled", gone))
            raise
        except EventTooLarge as error:
            raise self._too_large(str(error)) from error
        except OSError as error:
            raise self._connection_error(error) from error

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._post(message)
        if method == "notifications/initialized":
            if self._listening is not None:
                self._listening.cancel()
            self._listening = self._tasks.start(self._listen())

    async def _post(self, message: Mapping[str, Any]) -> None:
        """Send a message without an answer; a failure is only logged."""
        if self._http.closed:
            return
        try:
            async with (
                asyncio.timeout(NOTICE_TIMEOUT),
                self._http.notice(self._url, self._headers(), encode(message)),
            ):
                pass
        except (OSError, UpstreamError) as error:
            log.debug("%s did not take %s: %s", self.server.id, message.get("method", "an answer"), describe(error))

    async def forget_session(self) -> None:
        """End the session at the server (L/basic/transports, Session Management)."""
        if self._session is not None:
            async with asyncio.timeout(_END_SESSION_WITHIN), self._http.send("DELETE", self._url, self._headers()):
                pass

    # -- headers

    def _prepared(self, method: str, params: Mapping[str, Any], more: Mapping[str, str] | None) -> PreparedRequest:
        """Return a request with all headers that it needs; `more` are those of this one alone."""
        if more:
            headers = self._headers() | self._routing(method, params) | dict(more)
            return self._http.prepare("POST", self._url, headers)
        named_by = wire_headers.NAMED_BY.get(method)
        # Before 2026-07-28 the headers are the same for every method.
        key = (method, str(params.get(named_by, "")) if named_by is not None else "") if self._modern else _ANY
        prepared = self._requests.get(key)
        if prepared is None:
            prepared = self._http.prepare("POST", self._url, self._headers() | self._routing(method, params))
            if len(self._requests) >= _REQUESTS:
                self._requests.clear()
            self._requests[key] = prepared
        return prepared

    def _headers(self) -> dict[str, str]:
        headers = dict(_ACCEPT)
        if self._version is not None:
            headers[wire_headers.VERSION] = self._version
        if self._session is not None:
            headers[wire_headers.SESSION] = self._session
        return headers

    def _routing(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        if not self._modern:
            return {}
        routing = {wire_headers.METHOD: method}
        named_by = wire_headers.NAMED_BY.get(method)
        if named_by is not None:
            routing[wire_headers.NAME] = wire_headers.encode_value(str(params.get(named_by, "")))
        return routing

    # -- answers

    def on_message(self, message: dict[str, Any], origin: RunningCall | None = None) -> None:
        """Take a request or notification of the server; `origin` is the call whose stream it came on, if any."""
        received = incoming(message)
        if received is None:
            return
        method, params, request_id = received
        if request_id is None:
            if method == "notifications/cancelled":
                task = self._answering.get(sane_id(params.get("requestId")))
                if task is not None:
                    task.cancel()
            else:
                self._inbound.on_notification(method, params, origin)
        elif request_id not in self._answering:
            self._answering[request_id] = task = self._tasks.start(self._answer(request_id, method, params, origin))
            task.add_done_callback(lambda _: self._answering.pop(request_id, None))

    async def _answer(
        self, request_id: str | int, method: str, params: dict[str, Any], origin: RunningCall | None
    ) -> None:
        try:
            result = await self._inbound.on_request(method, params, origin)
            await self._post({"jsonrpc": "2.0", "id": request_id, "result": result})
        except Exception as error:
            await self._post(error_message(request_id, error))

    def keep_session(self, response: HttpResponse) -> None:
        """Remember the session id in a response, if there is one.

        Raises:
            UpstreamBadAnswer: the id cannot be sent back (L/basic/transports, Session Management).
        """
        session = response.headers.get(wire_headers.SESSION)
        if session is not None and not (session.isascii() and session.isprintable()):
            said = f"{self.server.id} named its session by other characters than visible ASCII."
            raise UpstreamBadAnswer(self.server.id, said)
        self._session = session
        self._requests.clear()

    async def raise_for_status(self, response: HttpResponse, session: str | None, greeted: bool) -> dict[str, Any]:
        """Raise the error of a response with another status than 200. session: the one that the request was sent in."""
        body = await read_bounded(response, self.server)
        message = message_in(body, self.server)
        error = message.get("error")
        # Without a session of ours, too: the server may have been replaced by one that has sessions.
        if greeted and session_unknown(response.status, session, body, error):
            raise SessionExpired
        if isinstance(error, dict) and response.status not in (401, 403) and not asks_for_patience(response):
            raise error_of(message)
        cause = cause_of_beginning(body[:_TELLING]) if not greeted else None
        if cause is not None and cause.kind in ("tls", "certificate"):
            said = f"{self.server.id} answered HTTP {response.status}: {cause.words}."
            raise UpstreamRefused(self.server.id, said, status=response.status)
        raise refusal(self.server, response)

    async def _resume(self, answer: "ResponseReader") -> dict[str, Any]:
        """Resume a stream that broke off, as far as the server numbered its events, and return the result."""
        for attempt in range(_RESUME_ATTEMPTS):
            if answer.last_event is None or self._modern or self.ended.done():
                break
            await asyncio.sleep(retry_delay(answer.retry, RETRY_DELAY * attempt))
            headers = self._headers() | {"accept": "text/event-stream", "last-event-id": answer.last_event}
            try:
                async with self._http.send("GET", self._url, headers) as response:
                    if response.status != 200:
                        break
                    result = await answer.read(response)
                    if result is not None:
                        return result
            except (OSError, NoTokenNow, LoginRequired) as error:
                log.debug("%s: the stream could not be resumed: %s", self.server.id, describe(error))
        raise PeerGone(answer.no_answer)

    def _take(self, data: bytes) -> None:
        """Take an event of the standing stream; one that cannot be read is passed over."""
        try:
            messages = messages_in(data, self.server, self.on_fault)
        except ValueError as problem:
            log.debug("%s sent an event that cannot be read: %s", self.server.id, problem)
            return
        for message in messages:
            self.on_message(message)

    async def _listen(self) -> None:
        """Read the standing GET stream of a legacy session; servers without one answer 405."""
        last_event: str | None = None
        while not self.ended.done():
            headers = self._headers() | {"accept": "text/event-stream"}
            if last_event is not None:
                headers["last-event-id"] = last_event
            delay = RETRY_DELAY
            try:
                async with self._http.send("GET", self._url, headers) as response:
                    if response.status != 200 or "text/event-stream" not in response.content_type:
                        return
                    reader = EventReader(self.server.limits.max_message_bytes)
                    async for chunk in read_slices(response):
                        before = reader.lines
                        for event in reader.feed(chunk):
                            last_event = event.id or last_event
                            delay = retry_delay(event.retry, delay)
                            self._take(event.data)
                            self.rate_limit.charge(len(event.data))
                        if pause := self.rate_limit.charge_lines(reader.lines - before):
                            await asyncio.sleep(pause)
            except EventTooLarge as error:
                log.warning("%s: %s on its standing stream; it is opened anew", self.server.id, error)
            except Unreachable as error:
                self.end(f"cannot be reached: {describe(error)}")
            except (OSError, NoTokenNow, LoginRequired) as error:
                log.debug("%s: its standing stream broke off: %s", self.server.id, describe(error))
            await asyncio.sleep(delay)

    def _too_large(self, what: str) -> UpstreamError:
        return UpstreamBadAnswer(
            self.server.id, f"{self.server.id} sent {what} (`limits.max_message_bytes` in its config raises the limit)."
        )

    def _connection_error(self, error: Exception) -> Exception:
        if isinstance(error, Unreachable):
            reason = f"cannot be reached: {describe(error)}"
            self.end(reason)
            return UpstreamUnavailable(self.server.id, f"{self.server.id} {reason}.")
        if isinstance(error, BadAddress):
            return UpstreamRefused(self.server.id, f"{self.server.id}: its url is not one.")
        return PeerGone(describe(error))


class HttpPendingRequest:
    """A request that was begun. A whole answer of few bytes goes to its receiver; everything else is for `wait`."""

    __slots__ = ("_connection", "_exchange", "_method", "_most", "_reader", "_receiver", "_session", "_started")

    def __init__(
        self,
        connection: HttpConnection,
        exchange: HttpExchange,
        reader: ResponseReader,
        method: str,
        session: str | None,
        receiver: AnswerReceiver | None,
    ) -> None:
        self._connection = connection
        self._exchange = exchange
        self._reader = reader
        self._method = method
        self._session = session
        self._receiver = receiver
        self._started = started = exchange.started
        if receiver is not None and started is not None:
            self._most = min(SMALL, connection.server.limits.max_message_bytes)
            started.on_change = self._look

    @property
    def is_sent(self) -> bool:
        """See `PendingRequest`."""
        return self._started is not None

    async def wait(self) -> dict[str, Any]:
        """See `PendingRequest`."""
        if self._started is not None:
            self._started.on_change = None
        return await self._connection.read(self._exchange, self._reader, self._method, self._session)

    def __del__(self) -> None:
        # A task may be cancelled before it could wait. Nothing else would ever read the response then.
        if self._started is not None:
            self._started.release()

    def _look(self) -> None:
        """Examine the part of the response that has come: the answer, the beginning of one, or neither."""
        response, receiver = self._started, self._receiver
        assert response is not None
        assert receiver is not None
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
            receiver.take_over()
        else:
            receiver.take_result(result)

    def _result(self, body: bytes) -> dict[str, Any] | None:
        """Return the result in a body, if that is the plain answer to this request."""
        try:
            message = object_in(body, self._connection.server)
        except ValueError:
            return None
        given, result = message.get("id"), message.get("result")
        return result if type(given) is int and given == self._reader.id and isinstance(result, dict) else None


@asynccontextmanager
async def open_http(
    server: ServerConfig, inbound: InboundHandlers, reaper: Reaper, credentials: Credentials | None = None
) -> AsyncIterator[Connection]:
    """Connect to a Streamable HTTP endpoint; nothing is sent before the first request."""
    async with requests_to(server, credentials) as http, Tasks(f"server {server.id}") as tasks:
        connection = HttpConnection(server, inbound, tasks, http)
        try:
            yield connection
        finally:
            connection.end("closed")
            try:
                await connection.forget_session()
            except (OSError, UpstreamError) as error:
                log.debug("%s: its session could not be ended: %s", server.id, describe(error))
