"""The Streamable HTTP transport (S/basic/transports/streamable-http; sessions, resumption: L/basic/transports)."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
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
from aggregator.upstream.connection import Connection, InboundHandlers, SessionExpired
from aggregator.upstream.credentials import Credentials, NoTokenNow
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.http_body import message_in, messages_in, session_unknown
from aggregator.upstream.transports.http_clients.port import (
    BadAddress,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    Unreachable,
)
from aggregator.upstream.transports.http_sent import HttpSentRequest
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
from aggregator.wire.responses import error_message
from aggregator.wire.sent_request import AnswerReceiver, OnProgress, SentRequest
from aggregator.wire.sse import EventReader, EventTooLarge

log = logging.getLogger(__name__)

_ACCEPT: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_RESUME_ATTEMPTS: Final = 3
# Seconds that a server may take to end our session when the connection closes.
_END_SESSION_WITHIN: Final = 2.0
_OPENINGS: Final = frozenset({"initialize", "server/discover"})
# Requests whose headers are remembered for one connection, and the name of all where they have the same headers.
_REQUESTS: Final = 256
# Bytes of a body in which a server may say that it wants TLS.
_TELLING: Final = 2_000
_ANY: Final = ("", "")


class HttpConnection:
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

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: RunningCall | None = None,
    ) -> dict[str, Any]:
        if self.ended.done():
            raise PeerGone(self.ended.result())
        request_id = next(self._ids)
        if on_progress is not None:
            params = _with_token(params, request_id)
        opens = method == "initialize"
        session = None if opens else self._session
        body = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        if opens:
            sending = self._http.send("POST", self._url, _ACCEPT, body)
        else:
            sending = self._http.send_prepared(self._prepared(method, params, headers), body)
        return await self.read(sending, ResponseReader(self, request_id, on_progress, origin), method, session)

    def begin(
        self,
        method: str,
        params: dict[str, Any],
        receiver: AnswerReceiver,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: RunningCall | None = None,
    ) -> SentRequest | None:
        """See `Connection`."""
        if self.ended.done() or method in _OPENINGS or not self._http.can_begin():
            return None
        request_id = next(self._ids)
        if on_progress is not None:
            params = _with_token(params, request_id)
        try:
            body = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            response = self._http.begin(self._prepared(method, params, headers), body)
        except ValueError:
            # `request` says what is wrong with it.
            return None
        if response is None:
            return None
        reader = ResponseReader(self, request_id, on_progress, origin)
        return HttpSentRequest(self, response, reader, method, self._session, receiver)

    async def read(
        self,
        sending: AbstractAsyncContextManager[HttpResponse],
        answer: ResponseReader,
        method: str,
        session: str | None,
    ) -> dict[str, Any]:
        """Return the result of a request that is being sent, in this session, as `request` does."""
        try:
            async with sending as response:
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
        raise PeerGone("the response stream ended without an answer")

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
                    reader = EventReader(self.server.max_message_bytes)
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
            self.server.id, f"{self.server.id} sent {what} (`max_message_bytes` in its config raises the limit)."
        )

    def _connection_error(self, error: Exception) -> Exception:
        if isinstance(error, Unreachable):
            reason = f"cannot be reached: {describe(error)}"
            self.end(reason)
            return UpstreamUnavailable(self.server.id, f"{self.server.id} {reason}.")
        if isinstance(error, BadAddress):
            return UpstreamRefused(self.server.id, f"{self.server.id}: its url is not one.")
        return PeerGone(describe(error))


def _with_token(params: dict[str, Any], request_id: int) -> dict[str, Any]:
    """Return params that ask for progress under the id of the request."""
    return {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}


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
