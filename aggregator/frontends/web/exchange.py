"""One request over HTTP and its answer: plain JSON if it comes quickly and alone, an event stream if not.

Rule 1: a quick call costs no task and no stream.
Rule 2: in the modern era a closed connection cancels the request; in the handshake eras it means nothing (S, L
basic/transports), and the host may resume the stream.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import ShuttingDown, to_wire
from aggregator.frontends.web.answer import Answer, lacking_scopes, scopes_refused
from aggregator.frontends.web.event_stream import KEEP_ALIVE_INTERVAL, EventStream, UnreadBytes
from aggregator.frontends.web.host_guard import Receive, Send, respond_bytes
from aggregator.frontends.web.resumable import ResumableStream, ResumableStreams
from aggregator.wire.codec import encode
from aggregator.wire.peer import NoBackChannel, Peer, PeerGone
from aggregator.wire.responses import encode_error

# The connection of a request that still runs is watched after this many seconds, or at most twice as many.
SLOW: Final = 0.05

_FORBIDDEN: Final = 403
# JSON-RPC code -> HTTP status, modern era (SH). Every other error is a 200, as results are.
_STATUS: Final[Mapping[int, int]] = {
    -32700: 400,
    -32600: 400,
    -32602: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
    -32601: 404,
}


def refused(request_id: str | int | None, error: Exception, *, modern: bool) -> tuple[int, bytes]:
    """Return the status and the body of an error."""
    return _STATUS.get(to_wire(error)["code"], 200) if modern else 200, encode_error(request_id, error)


class SlowRequests:
    """The requests in flight: one timer for all of them starts the watch on connections of slow ones."""

    def __init__(self) -> None:
        # Requests from after the last turn of the timer, and older ones.
        self._new: dict[Exchange, None] = {}
        self._older: dict[Exchange, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, exchange: "Exchange") -> None:
        """Add an exchange."""
        self._new[exchange] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SLOW, self._turn)

    def remove(self, exchange: "Exchange") -> None:
        """Forget an exchange that is over."""
        self._new.pop(exchange, None)
        self._older.pop(exchange, None)

    def _turn(self) -> None:
        slow, self._older, self._new = self._older, self._new, {}
        self._timer = asyncio.get_running_loop().call_later(SLOW, self._turn) if self._older else None
        for exchange in slow:
            exchange.watch()


class Exchange:
    """One HTTP request and its answer: an async context manager, and the `Channel` of the request in it.

    The block puts the answer into `result`. On the way out it sends that, or the error that ended the block;
    `succeeded` then says which. Enter it in the task that owns the response.
    """

    def __init__(
        self,
        request_id: str | int,
        receive: Receive,
        send: Send,
        tasks: Tasks,
        *,
        modern: bool,
        slow: SlowRequests | None = None,
        peer: Peer | None = None,
        unread: UnreadBytes | None = None,
        headers: Mapping[bytes, bytes] | None = None,
        resumable: ResumableStreams | None = None,
    ) -> None:
        self.request_id = request_id
        self._resumable = resumable
        self.result: Any = None
        self.succeeded = False
        self._headers = headers
        self._unread = unread or UnreadBytes()
        self._peer = peer
        self._receive = receive
        self._send = send
        self._tasks = tasks
        self._slow = slow or SlowRequests()
        self._modern = modern
        self._stream: EventStream | ResumableStream | None = None
        self._writing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._running: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def __aenter__(self) -> Self:
        self._running = asyncio.current_task()
        self._slow.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Send the answer, unless the host no longer wants it, or this task ends for another reason."""
        status, body, running = 200, b"", self._running
        try:
            if error is None:
                status, body = self._written()
            elif isinstance(error, Exception):
                status, body = self._refused(error)
            elif isinstance(error, asyncio.CancelledError) and self._cancelled and running is not None:
                running.uncancel()
            else:
                await self._break_off()
                return False
        finally:
            self._running = None
            self._slow.remove(self)
            if self._watching is not None:
                self._watching.cancel()
        if self._stream is None and body:
            send = self._send
            if self._headers is not None or not isinstance(send, Answer) or not send.write_whole(status, body):
                await respond_bytes(send, status, body, self._headers)
        else:
            await self._finish(body)
        return True

    def _written(self) -> tuple[int, bytes]:
        """Return the status and the body of the result, or of the error if it cannot be written."""
        try:
            body = encode({"jsonrpc": "2.0", "id": self.request_id, "result": self.result})
        except Exception as error:
            return self._refused(error)
        self.succeeded = True
        return self._with_challenge(lacking_scopes(self.result)) or 200, body

    def _with_challenge(self, scopes: Sequence[str] | None) -> int | None:
        """Return the status of an answer that asks for a token with more scopes; None for any other answer, and once a
        part of the answer was sent.
        """
        ask_for = self._send.ask_for if scopes is not None and isinstance(self._send, Answer) else None
        if ask_for is None or scopes is None or self._stream is not None:
            return None
        self._headers = {**(self._headers or {}), b"www-authenticate": ask_for(scopes)}
        return _FORBIDDEN

    def _refused(self, error: Exception) -> tuple[int, bytes]:
        """Return the status and the body of an error."""
        if isinstance(error, ShuttingDown):
            self._headers = {b"retry-after": b"%d" % error.retry_after, b"connection": b"close"}
            return error.status, encode_error(self.request_id, error)
        status, body = refused(self.request_id, error, modern=self._modern)
        return self._with_challenge(scopes_refused(error)) or status, body

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification before the answer; the response is a stream from then on."""
        self._open().push(encode({"jsonrpc": "2.0", "method": method, "params": params}))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the host, on this request's own stream (L/basic/transports).

        Raises:
            NoBackChannel: the host speaks 2026-07-28.
            RpcError, PeerGone: as of any request to a peer.
        """
        if self._peer is None:
            raise NoBackChannel
        stream = self._open()
        if stream.ended and not (isinstance(stream, ResumableStream) and await stream.wait_attached()):
            raise PeerGone("the host closed its stream")
        return await self._peer.request(method, params, via=lambda data, _: stream.push(data), within=self.cancel)

    def cancel(self) -> bool:
        """Cancel the request: the host no longer wants the answer, and gets none. Return False if it is on its way.

        A request that already ends for another reason keeps that reason.
        """
        if self._running is not None and not self._cancelled and not self._running.cancelling():
            self._cancelled = True
            self._running.cancel()
        return self._running is not None

    async def _break_off(self) -> None:
        """End the stream, which is written in another task, since this task is cancelled."""
        if self._stream is not None and self._writing is not None:
            self._stream.drop()
            await asyncio.wait({self._writing})

    async def _finish(self, body: bytes) -> None:
        stream = self._open()
        if body:
            stream.push(body)
        stream.end()
        assert self._writing is not None
        await self._writing

    def _open(self) -> EventStream | ResumableStream:
        if self._stream is None:
            resumable = self._resumable
            self._stream = resumable.open(self.request_id) if resumable is not None else self._unread.open()
            self._writing = self._tasks.start(self._stream.run(self._send))
        return self._stream

    def watch(self) -> None:
        """Watch the connection from now on."""
        self._watching = self._tasks.start(self._watch_connection())

    async def _watch_connection(self) -> None:
        if self._resumable is not None and self._resumable.primes:
            # A host can then get the rest on another connection.
            self._open()
        try:
            async with asyncio.timeout(KEEP_ALIVE_INTERVAL):
                await self._gone()
        except TimeoutError:
            # Keep-alives need a stream, and proxies cut silent ones.
            self._open()
            await self._gone()
        if self._modern:
            self.cancel()
        elif self._stream is not None:
            self._stream.disconnected()

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
