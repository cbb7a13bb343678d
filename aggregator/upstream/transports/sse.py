"""The HTTP+SSE transport of revision 2024-11-05: one GET stream down, POSTs up. A silent stream is pinged."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError, UpstreamBadAnswer, UpstreamError, UpstreamRefused, UpstreamUnavailable
from aggregator.domain.reasons import Reason
from aggregator.upstream.connection import (
    AnswerTooDeep,
    Connection,
    DeferredRequest,
    InboundHandlers,
    JsonRpcRequest,
    SessionExpired,
    too_many_values,
)
from aggregator.upstream.credentials import Credentials
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.duplex import DuplexConnection, is_message
from aggregator.upstream.transports.http_body import message_in, says_unknown, session_unknown
from aggregator.upstream.transports.http_clients.port import HttpRequests
from aggregator.upstream.transports.rate_limit import InboundRateLimit
from aggregator.upstream.transports.web import (
    NOTICE_TIMEOUT,
    describe,
    not_mcp,
    read_bounded,
    read_slices,
    refusal,
    requests_to,
)
from aggregator.wire.codec import TooDeep, decode_received
from aggregator.wire.lines import WINDOW, answered_by
from aggregator.wire.mending import parts_of
from aggregator.wire.message import is_answer
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest
from aggregator.wire.sse import EventReader, EventTooLarge
from aggregator.wire.values import TooManyValues

log = logging.getLogger(__name__)

# After so many silent seconds a stream gets a ping, which may take as long.
HEARTBEAT: Final = 60.0


class SseConnection(DuplexConnection):
    """The connection over an event stream; messages go as POSTs to the address that the stream named."""

    def __init__(self, server: ServerConfig, inbound: InboundHandlers, tasks: Tasks, http: HttpRequests) -> None:
        assert server.url is not None
        super().__init__(inbound, tasks, self._send)
        loop = asyncio.get_running_loop()
        self.endpoint: asyncio.Future[str] = loop.create_future()
        self._server = server
        self._url = server.url
        self._tasks = tasks
        self._http = http
        self._silent_since = loop.time()
        self._rate_limit = InboundRateLimit()
        self._warned = False

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """See `Connection`: each message takes a request over HTTP, and so a task."""
        return DeferredRequest(partial(self._request, request))

    async def _request(self, request: JsonRpcRequest) -> dict[str, Any]:
        posts: list[asyncio.Task[None]] = []

        def send(data: bytes, request_id: int | None) -> None:
            post = self._tasks.start(self._post(data, request_id))
            if request_id is None:
                _cancel_later(post)
            else:
                posts.append(post)

        try:
            return await self.ask(request, via=send).wait()
        finally:
            for post in posts:
                _cancel_later(post)

    async def read(self) -> None:
        """Read the stream until it ends."""
        try:
            async with self._http.send("GET", self._url, {"accept": "text/event-stream"}) as response:
                if response.status != 200:
                    raise refusal(self._server, response, events=True)
                if response.content_type != "text/event-stream":
                    kind = response.content_type
                    cause = not_mcp(kind).words
                    not_events = f"{self._server.id} answered with another content type, not with events: {cause}."
                    raise UpstreamBadAnswer(self._server.id, not_events, said=f"content-type: {kind}")
                reader = EventReader(self._server.limits.max_message_bytes)
                async for chunk in read_slices(response):
                    self._silent_since = asyncio.get_running_loop().time()
                    before = reader.lines
                    for event in reader.feed(chunk):
                        self._take_or_fail(event.event, event.data)
                    if pause := self._rate_limit.charge_lines(reader.lines - before):
                        await asyncio.sleep(pause)
            raise UpstreamUnavailable(self._server.id, f"{self._server.id} closed its event stream.")
        except EventTooLarge as error:
            said = f"{self._server.id} sent {error} (`limits.max_message_bytes` in its config raises the limit)."
            self._fail(UpstreamBadAnswer(self._server.id, said))
        except UpstreamError as error:
            self._fail(error)
        except OSError as error:
            self._fail(UpstreamUnavailable(self._server.id, f"{self._server.id} cannot be reached: {describe(error)}."))
        except Exception as error:  # of ours, or for want of memory: nothing reads the stream any more
            log.error("%s: its event stream could not be read", self._server.id, exc_info=error)
            why = f"an error of ours ({type(error).__name__})"
            self._fail(UpstreamUnavailable(self._server.id, f"The events of {self._server.id} cannot be read: {why}."))

    async def watch(self) -> None:
        """End the connection when its stream was silent for `HEARTBEAT` and a ping gets no answer in the same time."""
        loop = asyncio.get_running_loop()
        while not self.ended.done():
            silent = loop.time() - self._silent_since
            if silent < HEARTBEAT:
                await asyncio.sleep(HEARTBEAT - silent)
                continue
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self.peer.request("ping", {})
            except TimeoutError:
                self.end(f"its event stream was silent for {HEARTBEAT:g} s and a ping got no answer")
            except (RpcError, PeerGone, UpstreamError):
                # Even an error is a sign of life; `ended` shows a connection that is gone.
                self._silent_since = loop.time()

    def _take_or_fail(self, kind: str, data: bytes) -> None:
        """Take one event; one that cannot be taken, by an error of ours, costs the request that it answers.

        Raises:
            UpstreamError: the stream cannot be used.
        """
        try:
            self._take(kind, data)
        except UpstreamError:
            raise
        except Exception as error:
            self.fail_odd(self._server.id, data[:WINDOW], data[-WINDOW:], error)

    def _take(self, kind: str, data: bytes) -> None:
        """Take one event; charge it unless it answers a request of ours."""
        if kind == "endpoint":
            self._take_endpoint(data.decode("utf-8", "replace"))
        elif kind == "message" and data:
            try:
                message = decode_received(data, self._server.id, self._server.limits.max_message_values)
                if is_message(message):
                    awaited = is_answer(message) and self.peer.waits_for(message.get("id"))
                    self.peer.feed(message, len(data))
                    if awaited:
                        return
                elif not self.take_odd(data, self._server.id, parts_of(message)):
                    self._warn(data)
            except (TooDeep, TooManyValues) as problem:
                answered = answered_by(data[:WINDOW], data[-WINDOW:])
                if answered is not None:
                    too_deep = isinstance(problem, TooDeep)
                    error = AnswerTooDeep(self._server.id, data) if too_deep else too_many_values(self._server)
                    self.peer.fail(answered, error)
            except ValueError:
                if not self.take_odd(data, self._server.id, None):
                    self._warn(data)
        self._rate_limit.charge(len(data))

    def _warn(self, data: bytes) -> None:
        level = logging.DEBUG if self._warned else logging.WARNING
        log.log(level, "%s sent an event that is no message: %.200r", self._server.id, data)
        self._warned = True

    def _take_endpoint(self, said: str) -> None:
        try:
            endpoint = urljoin(self._url, said)
            ours, theirs = urlsplit(self._url), urlsplit(endpoint)
        except ValueError as error:
            raise UpstreamRefused(
                self._server.id, f"{self._server.id} wants its messages sent to what is no address."
            ) from error
        # To another origin our headers would go to a third party.
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            raise UpstreamRefused(self._server.id, f"{self._server.id} wants its messages sent to another origin.")
        if not self.endpoint.done():
            self.endpoint.set_result(endpoint)

    def _fail(self, error: UpstreamError) -> None:
        if not self.endpoint.done():
            self.endpoint.set_exception(error)
        self.end(Reason(error.message.rstrip("."), error.said))

    def _send(self, data: bytes, request_id: int | None) -> None:
        _cancel_later(self._tasks.start(self._post(data, request_id)))

    async def _post(self, data: bytes, request_id: int | None) -> None:
        self.note_sent(request_id)
        unknown: str | None = None
        error: Exception
        try:
            headers = {"content-type": "application/json"}
            url = self.endpoint.result()
            notice = request_id is None
            send = self._http.notice(url, headers, data) if notice else self._http.send("POST", url, headers, data)
            async with send as response:
                accepted = response.status < 300
                if accepted and request_id is None:
                    return
                body = await read_bounded(response, self._server, only_json=accepted)
                message = message_in(body, self._server)
                if accepted and not says_unknown(message.get("error"), ""):
                    self._take_body(message, request_id, len(body))
                    return
                error = refusal(self._server, response)
                if accepted or session_unknown(response.status, "", body, message.get("error")):
                    unknown = f"it no longer knows our session (HTTP {response.status})"
        except UpstreamError as cause:
            # There is no token: nothing was sent, or it was refused.
            error = cause
        except OSError as cause:
            error = UpstreamUnavailable(self._server.id, f"{self._server.id} cannot be reached: {describe(cause)}.")
            self.end(error.message.rstrip("."))
        if request_id is not None:
            # Before the end, which the others have to take for that of their calls: of this one nothing was run.
            self.peer.fail(request_id, SessionExpired() if unknown is not None else error)
        if unknown is not None:
            self.end(unknown)

    def _take_body(self, message: dict[str, Any], request_id: int | None, size: int) -> None:
        """Take the answer to a request from the body of its POST, where some servers put it."""
        ours = message.get("id") in (request_id, str(request_id))
        if ours and is_answer(message) and message.get("jsonrpc") == "2.0":
            self._on_fault("answers in place of an event")
            self.peer.feed(message, size)


@asynccontextmanager
async def open_sse(
    server: ServerConfig, inbound: InboundHandlers, reaper: Reaper, credentials: Credentials | None = None
) -> AsyncIterator[Connection]:
    """Open the event stream and wait for the address to send to.

    Raises:
        UpstreamError: there is no event stream at the URL.
    """
    async with requests_to(server, credentials) as http, Tasks(f"server {server.id}") as tasks:
        connection = SseConnection(server, inbound, tasks, http)
        tasks.start(connection.read())
        try:
            await connection.endpoint
            tasks.start(connection.watch())
            yield connection
        finally:
            connection.end("closed")


def _cancel_later(post: asyncio.Task[None]) -> None:
    """Cancel a POST after `NOTICE_TIMEOUT`, if the server has not accepted it by then."""
    if not post.done():
        asyncio.get_running_loop().call_later(NOTICE_TIMEOUT, post.cancel)
