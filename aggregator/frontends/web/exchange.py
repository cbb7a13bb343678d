"""One request over HTTP and its answer: plain JSON if it comes quickly and alone, an event stream if not.

Rule 1: a quick call costs no task and no stream.
Rule 2: in the modern era a closed connection cancels the request; before that it says nothing (S, L basic/transports).
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import ShuttingDown, to_wire
from aggregator.frontends.web.event_stream import KEEP_ALIVE_INTERVAL, EventStream, UnreadBytes
from aggregator.frontends.web.host_guard import Receive, Send, respond_bytes
from aggregator.wire.codec import encode
from aggregator.wire.peer import NoBackChannel, Peer, PeerGone, encode_error

# A request that runs this long gets someone who watches its connection.
SLOW: Final = 0.05

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


class Exchange:
    """The way back of one request (a `Channel`). `run` is called once, in the task that owns the response."""

    def __init__(
        self,
        request_id: str | int,
        receive: Receive,
        send: Send,
        tasks: Tasks,
        *,
        modern: bool,
        peer: Peer | None = None,
        unread: UnreadBytes | None = None,
    ) -> None:
        self.request_id = request_id
        self._unread = unread or UnreadBytes()
        self._peer = peer
        self._receive = receive
        self._send = send
        self._tasks = tasks
        self._modern = modern
        self._stream: EventStream | None = None
        self._writing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._running: asyncio.Task[Any] | None = None
        self._cancelled = False

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Say something before the answer; from here on the response is a stream."""
        self._open().push(encode({"jsonrpc": "2.0", "method": method, "params": params}))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the host on this request's own stream (L/basic/transports); 2026-07-28 has no such requests."""
        if self._peer is None:
            raise NoBackChannel
        stream = self._open()
        if stream.ended:
            raise PeerGone("the host closed its stream")
        return await self._peer.request(method, params, via=lambda data, _: stream.push(data), within=self.cancel)

    def cancel(self) -> bool:
        """The host no longer wants the answer, and gets none; False if it is on its way.

        A request that is being ended for another reason keeps that reason.
        """
        if self._running is not None and not self._cancelled and not self._running.cancelling():
            self._cancelled = True
            self._running.cancel()
        return self._running is not None

    async def run(self, answer: Awaitable[Any], headers: Mapping[bytes, bytes] | None = None) -> bool:
        """Carry out the request and send what comes of it; returns whether it was a result."""
        self._running = running = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(SLOW, self._watch)
        succeeded = False
        status = 200
        body = b""
        try:
            body = encode({"jsonrpc": "2.0", "id": self.request_id, "result": await answer})
            succeeded = True
        except asyncio.CancelledError:
            if not self._cancelled or running is None:
                await self._break_off()
                raise
            running.uncancel()
        except Exception as error:
            body = encode_error(self.request_id, error)
            if isinstance(error, ShuttingDown):
                status, headers = error.status, {b"retry-after": b"%d" % error.retry_after, b"connection": b"close"}
            elif self._modern:
                status = _STATUS.get(to_wire(error)["code"], 200)
        finally:
            self._running = None
            timer.cancel()
            if self._watching is not None:
                self._watching.cancel()
        if self._stream is None and body:
            await respond_bytes(self._send, status, body, headers)
        else:
            await self._finish(body)
        return succeeded

    async def _break_off(self) -> None:
        """Our own task is cancelled: what is written in another one must not go on."""
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

    def _open(self) -> EventStream:
        if self._stream is None:
            self._stream = self._unread.open()
            self._writing = self._tasks.start(self._stream.run(self._send))
        return self._stream

    def _watch(self) -> None:
        self._watching = self._tasks.start(self._attend())

    async def _attend(self) -> None:
        try:
            async with asyncio.timeout(KEEP_ALIVE_INTERVAL):
                await self._gone()
        except TimeoutError:
            # Keep-alives need a stream, and proxies cut what stays silent.
            self._open()
            await self._gone()
        if self._modern:
            self.cancel()
        elif self._stream is not None:
            self._stream.end()

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
