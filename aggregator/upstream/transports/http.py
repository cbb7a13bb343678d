"""The Streamable HTTP transport (S/basic/transports/streamable-http; sessions, resumption: L/basic/transports)."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from aggregator.config.model import ServerConfig
from aggregator.domain.bounds.result_memory import hold
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import (
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.versions import MODERN_VERSIONS
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import AnswerTooDeep, Connection, InboundHandlers, SessionExpired, too_many_values
from aggregator.upstream.process.process import Reaper
from aggregator.upstream.transports.http_body import message_in, object_in, session_unknown
from aggregator.upstream.transports.rate_limit import InboundRateLimit
from aggregator.upstream.transports.web import (
    NOTICE_TIMEOUT,
    RETRY_DELAY,
    HttpRequests,
    asks_for_patience,
    describe,
    read_bounded,
    read_slices,
    refusal,
    requests_to,
    retry_delay,
)
from aggregator.wire import headers as wire_headers
from aggregator.wire.codec import TooDeep, encode
from aggregator.wire.lines import WINDOW, answered_by
from aggregator.wire.message import error_of, incoming, method_of, sane_id
from aggregator.wire.peer import PeerGone, error_message
from aggregator.wire.sent_request import AnswerReceiver, OnProgress, SentRequest
from aggregator.wire.sse import EventReader, EventTooLarge
from aggregator.wire.values import TooManyValues

log = logging.getLogger(__name__)

_ACCEPT: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_RESUME_ATTEMPTS: Final = 3
# Seconds that a server may take to end our session when the connection closes.
_END_SESSION_WITHIN: Final = 2.0
_OPENINGS: Final = frozenset({"initialize", "server/discover"})


class HttpConnection:
    """The connection to one endpoint: every request is a POST of its own, so that any number run side by side."""

    def __init__(self, server: ServerConfig, inbound: InboundHandlers, tasks: Tasks, http: HttpRequests) -> None:
        assert server.url is not None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._server = server
        self._url = server.url
        self._inbound = inbound
        self._tasks = tasks
        self._http = http
        self._ids = itertools.count(1)
        self._version: str | None = None
        self._session: str | None = None
        self._listening: asyncio.Task[None] | None = None
        # Requests of the server that are being answered, by their id.
        self._answering: dict[str | int | None, asyncio.Task[None]] = {}
        self.rate_limit = InboundRateLimit()

    @property
    def _modern(self) -> bool:
        return self._version in MODERN_VERSIONS

    def use_version(self, version: str) -> None:
        self._version = version

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
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}
        opens = method == "initialize"
        session = None if opens else self._session
        body = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        sent = dict(_ACCEPT) if opens else self._headers() | self._routing(method, params) | dict(headers or {})
        answer = _ResponseReader(self, request_id, on_progress, origin)
        try:
            async with self._http.send("POST", self._url, sent, body) as response:
                result = await answer.read(response, session, opens=opens, greeted=method not in _OPENINGS)
            return result if result is not None else await self._resume(answer)
        except asyncio.CancelledError:
            # A closed stream is the modern way to cancel; before that a disconnect meant nothing.
            if not self._modern and method not in _OPENINGS:
                gone = {"requestId": request_id, "reason": "no longer waited for"}
                self._tasks.start(self.notify("notifications/cancelled", gone))
            raise
        except EventTooLarge as error:
            raise self._too_large(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._connection_error(error) from error

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
        return None

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
                self._http.notice(self._url, self._headers(), encode(message)) as response,
            ):
                response.release()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.debug("%s did not take %s: %s", self._server.id, message.get("method", "an answer"), describe(error))

    async def forget_session(self) -> None:
        """End the session at the server (L/basic/transports, Session Management)."""
        if self._session is not None:
            bound = aiohttp.ClientTimeout(total=_END_SESSION_WITHIN)
            async with self._http.send("DELETE", self._url, self._headers(), timeout=bound) as response:
                response.release()

    # -- headers

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

    def keep_session(self, response: aiohttp.ClientResponse) -> None:
        """Remember the session id in a response, if there is one.

        Raises:
            UpstreamBadAnswer: the id cannot be sent back (L/basic/transports, Session Management).
        """
        session = response.headers.get(wire_headers.SESSION)
        if session is not None and not (session.isascii() and session.isprintable()):
            said = f"{self._server.id} named its session by other characters than visible ASCII."
            raise UpstreamBadAnswer(self._server.id, said)
        self._session = session

    async def raise_for_status(
        self, response: aiohttp.ClientResponse, session: str | None, greeted: bool
    ) -> dict[str, Any]:
        """Raise the error of a response with another status than 200. session: the one that the request was sent in."""
        body = await read_bounded(response, self._server)
        message = message_in(body, self._server)
        error = message.get("error")
        # Without a session of ours, too: the server may have been replaced by one that has sessions.
        if greeted and session_unknown(response.status, session, body, error):
            raise SessionExpired
        if isinstance(error, dict) and response.status not in (401, 403) and not asks_for_patience(response):
            raise error_of(message)
        raise refusal(self._server, response)

    async def _resume(self, answer: "_ResponseReader") -> dict[str, Any]:
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
            except (aiohttp.ClientError, OSError) as error:
                log.debug("%s: the stream could not be resumed: %s", self._server.id, describe(error))
        raise PeerGone("the response stream ended without an answer")

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
                    reader = EventReader(self._server.max_message_bytes)
                    async for chunk in read_slices(response):
                        before = reader.lines
                        for event in reader.feed(chunk):
                            last_event = event.id or last_event
                            delay = retry_delay(event.retry, delay)
                            self.on_message(message_in(event.data, self._server))
                            self.rate_limit.charge(len(event.data))
                        if pause := self.rate_limit.charge_lines(reader.lines - before):
                            await asyncio.sleep(pause)
            except EventTooLarge as error:
                log.warning("%s: %s on its standing stream; it is opened anew", self._server.id, error)
            except aiohttp.ClientConnectorError as error:
                self.end(f"cannot be reached: {describe(error)}")
            except (aiohttp.ClientError, OSError) as error:
                log.debug("%s: its standing stream broke off: %s", self._server.id, describe(error))
            await asyncio.sleep(delay)

    def _too_large(self, what: str) -> UpstreamError:
        return UpstreamBadAnswer(
            self._server.id, f"{self._server.id} sent {what} (`max_message_bytes` in its config raises the limit)."
        )

    def _connection_error(self, error: Exception) -> Exception:
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientProxyConnectionError):
            reason = f"cannot be reached: {describe(error)}"
            self.end(reason)
            return UpstreamUnavailable(self._server.id, f"{self._server.id} {reason}.")
        if isinstance(error, aiohttp.InvalidURL):
            return UpstreamRefused(self._server.id, f"{self._server.id}: its url is not one.")
        return PeerGone(describe(error))


class _ResponseReader:
    """The response to one request, over as many streams as it takes."""

    def __init__(
        self, connection: HttpConnection, request_id: int, on_progress: OnProgress | None, origin: RunningCall | None
    ) -> None:
        self._connection = connection
        self._id = request_id
        self._on_progress = on_progress
        self._origin = origin
        self.last_event: str | None = None
        self.retry: int | None = None

    async def read(
        self, response: aiohttp.ClientResponse, session: str | None = None, *, opens: bool = False, greeted: bool = True
    ) -> dict[str, Any] | None:
        """Read a response, and return the result; None if a stream ended before it came."""
        connection = self._connection
        server = connection._server
        if response.status != 200:
            if response.status == 202:
                raise UpstreamBadAnswer(server.id, f"{server.id} accepted the request (202) but will not answer it.")
            return await connection.raise_for_status(response, session, greeted)
        if opens:
            connection.keep_session(response)
        if response.content_type == "application/json":
            body = await read_bounded(response, server)
            message = self._message(body)
            if not message:
                raise UpstreamBadAnswer(server.id, f"{server.id} answered something that is not JSON-RPC.")
            return self._result(message)
        if response.content_type != "text/event-stream":
            kind = response.content_type
            raise UpstreamBadAnswer(server.id, f"{server.id} answered with {kind}, which is not MCP.")
        reader = EventReader(server.max_message_bytes)
        async for chunk in read_slices(response):
            before = reader.lines
            for event in reader.feed(chunk):
                self.last_event = event.id or self.last_event
                self.retry = event.retry if event.retry is not None else self.retry
                message = self._message(event.data)
                if "method" in message:
                    self._on_message(message)
                elif message and (result := self._result(message)) is not None:
                    hold(len(event.data))
                    return result
                connection.rate_limit.charge(len(event.data))
            if pause := connection.rate_limit.charge_lines(reader.lines - before):
                await asyncio.sleep(pause)
        return None

    def _message(self, data: bytes) -> dict[str, Any]:
        try:
            return object_in(data, self._connection._server)
        except TooManyValues:
            raise too_many_values(self._connection._server) from None
        except TooDeep:
            if answered_by(data[:WINDOW], data[-WINDOW:]) in (self._id, str(self._id)):
                raise AnswerTooDeep(self._connection._server.id, data) from None
        except ValueError:
            pass
        return {}

    def _result(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("id") not in (self._id, str(self._id), None):
            log.debug("dropped an answer nobody waits for")
            return None
        if isinstance(result := message.get("result"), dict):
            return result
        raise error_of(message)

    def _on_message(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        if method_of(message) == "notifications/progress" and isinstance(params, dict):
            if self._on_progress is not None and params.get("progressToken") == self._id:
                self._on_progress({key: value for key, value in params.items() if key != "progressToken"})
        else:
            self._connection.on_message(message, self._origin)


@asynccontextmanager
async def open_http(server: ServerConfig, inbound: InboundHandlers, reaper: Reaper) -> AsyncIterator[Connection]:
    """Connect to a Streamable HTTP endpoint; nothing is sent before the first request."""
    async with requests_to(server) as http, Tasks(f"server {server.id}") as tasks:
        connection = HttpConnection(server, inbound, tasks, http)
        try:
            yield connection
        finally:
            connection.end("closed")
            try:
                await connection.forget_session()
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                log.debug("%s: its session could not be ended: %s", server.id, describe(error))
