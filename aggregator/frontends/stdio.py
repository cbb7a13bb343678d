"""The stdio frontend: newline-delimited JSON-RPC on stdin and stdout, both eras (S/basic/transports/stdio).

Law: only messages are written to stdout; everything else that prints goes to stderr.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO, Final

from aggregator.config.settings import StdioConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.first_request import FirstInput
from aggregator.frontends.stdout import is_pipe, open_stdout
from aggregator.gateway.ask.next_round import CALL
from aggregator.gateway.calls.direct_call import DirectCall
from aggregator.gateway.calls.known_host import KnownHost
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.host import Host
from aggregator.wire.codec import decode_from_host, encode
from aggregator.wire.lines import WINDOW, LineReader, answered_by, asked_by
from aggregator.wire.message import Incoming
from aggregator.wire.peer import Answered, Channel, Peer
from aggregator.wire.pipes import pipe_for
from aggregator.wire.responses import encode_error, error_message

log = logging.getLogger(__name__)

# Seconds after the end of stdin: for running calls to be answered, and then for the last bytes.
DRAIN: Final = 5.0
LAST_BYTES: Final = 1.0
# The host is read from even while it is asked something, which may bring so many requests beyond the limit.
_SPARE: Final = 1_000
# Requests of the host that are worked on at once: further ones are left unread until some are answered.
PENDING: Final = 1_000
# What may wait for a host that does not read our stdout: beyond it the session ends.
UNREAD_BYTES: Final = 64 * 2**20

_READ_SIZE: Final = 256 * 1024
# Bytes that are parsed between two checks of the number of requests.
_SLICE: Final = 16 * 1024
_LEFT: Final = "the host closed stdin"

# The output to the host. It never waits.
WriteBytes = Callable[[bytes], None]
# The wait for running requests before the process ends.
DrainRequests = Callable[[], Coroutine[Any, Any, None]]


class StdioFrontend(LineReader):
    """One host on the two pipes of this process."""

    def __init__(self, gateway: Dispatcher, host: Host, tasks: Tasks, write: WriteBytes, limits: StdioConfig) -> None:
        super().__init__(limits.max_message_bytes)
        self._gateway = gateway
        self._host = host
        self._write = write
        most = PENDING + _SPARE
        self.peer = Peer(self._send, tasks, self._answer, self._on_notification, most, self._begin)
        # The host as its last call showed it.
        self._known: KnownHost | None = None
        host.connection = self.peer

    def take_line(self, line: bytes) -> None:
        if line.isspace():
            return
        try:
            message = decode_from_host(line)
        except ValueError as error:
            self._refuse(line[:WINDOW], line[-WINDOW:], f"not JSON that can be read: {error_text(error)}")
        else:
            self.peer.feed(message)

    def fail_line(self, head: bytes, tail: bytes, error: Exception) -> None:
        answered, asked = answered_by(head, tail), asked_by(head, tail)
        if answered is not None:
            log.error("a message of the host could not be taken", exc_info=error)
            self.peer.fail(answered, RpcError(INTERNAL_ERROR, "The host's answer cannot be read: an error of ours."))
        elif asked is not None:
            self.peer.refuse(asked, error)
        else:
            self._send(encode_error(None, error), None)

    async def take_answered(self, request: Incoming) -> None:
        """Take a request that was answered before there was a gateway: it has to know of it."""
        assert request.id is not None
        with suppress(RpcError):
            await self._answer(request.method, request.params, self.peer.channel(request.id))

    def take_oversized(self, head: bytes, tail: bytes, *, ended: bool) -> None:
        # Refused at once when its head shows what it is; the end needs no second answer.
        told = asked_by(head, b"") is not None or answered_by(head, b"") is not None
        if told != ended:
            self._refuse(head, tail, f"a message of more than {self._limit} bytes")

    def _refuse(self, head: bytes, tail: bytes, why: str) -> None:
        """Report a message that cannot be read: to our request that it answers, or else to the host."""
        answered = answered_by(head, tail)
        if answered is not None:
            self.peer.fail(answered, RpcError(INVALID_REQUEST, f"The host's answer cannot be read: {why}."))
        else:
            error = error_message(asked_by(head, tail), RpcError(PARSE_ERROR, f"Parse error: {why}"))
            self._send(encode(error), None)

    def _send(self, data: bytes, request_id: int | None) -> None:
        self._write(data + b"\n")

    async def _answer(self, method: str, params: dict[str, Any], channel: Channel) -> Any:
        result = await self._gateway.answer(self._host, method, params, channel)
        if method == CALL and not (self._known is not None and self._known.holds(params.get("_meta"))):
            self._known = self._gateway.direct.known(self._host, params)
        return result

    def _begin(self, request_id: str | int, method: str, params: dict[str, Any]) -> DirectCall | Answered | None:
        """Begin a call that is like one before, without a task."""
        known, name = self._known, params.get("name")
        if method != CALL or known is None:
            return None
        if type(name) is str and name in self._gateway.direct.answered_again:
            result = self._gateway.direct.answer_again(known, params, request_id)
            if result is None:
                return None
            self.peer.finish(request_id, result)
            return Answered.ANSWERED
        return self._gateway.direct.send_at_once(known, params, StdioAnswer(self._gateway, self.peer, request_id))

    def _on_notification(self, method: str, params: dict[str, Any]) -> None:
        self._gateway.on_notification(self._host, method, params)


class StdioAnswer:
    """The answer to one call that no task works on."""

    __slots__ = ("_gateway", "_peer", "request_id")

    def __init__(self, gateway: Dispatcher, peer: Peer, request_id: str | int) -> None:
        self._gateway = gateway
        self._peer = peer
        self.request_id = request_id

    def answered(self, result: Mapping[str, Any], /) -> None:
        """See `DirectAnswer`."""
        self._peer.finish(self.request_id, result)

    def failed(self, error: Exception, /) -> None:
        """See `DirectAnswer`."""
        self._peer.refuse(self.request_id, error)

    def take_over(self, call: DirectCall, /) -> None:
        """See `DirectAnswer`."""
        self._peer.answer_in_task(self.request_id, partial(self._gateway.direct.take_over, call))


async def serve_stdio(
    gateway: Dispatcher,
    host: Host,
    stdin: BinaryIO,
    stdout: BinaryIO,
    limits: StdioConfig | None = None,
    drain: DrainRequests | None = None,
    first: FirstInput | None = None,
) -> None:
    """Serve one host until its stdin ends and its requests are answered, or it does not read its answers.

    `drain` waits for running requests; without it, they get `DRAIN` seconds. `first` was read of stdin before.
    """
    limits = limits or StdioConfig()
    out = open_stdout(stdout, UNREAD_BYTES)
    async with Tasks("the stdio frontend") as tasks, out.on(stdout):
        frontend = StdioFrontend(gateway, host, tasks, out.write, limits)

        async def take(data: bytes) -> None:
            for start in range(0, len(data), _SLICE):
                frontend.take(data[start : start + _SLICE])
                await frontend.peer.wait_to_read(PENDING)
                await out.drained()

        async def read() -> None:
            if first is not None:
                if first.answered is not None:
                    await frontend.take_answered(first.answered)
                await take(first.unread)
            async for data in _chunks(stdin):
                await take(data)

        reading = tasks.start(read())
        gateway.list_changes.attach(host)
        try:
            await asyncio.wait({reading, out.choked}, return_when=asyncio.FIRST_COMPLETED)
            if out.choked.done():
                return
            reading.result()
            gateway.list_changes.close()
            # No answer of the host can come any more.
            frontend.peer.end_input(_LEFT)
            if drain is not None:
                await drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN if drain is None else LAST_BYTES):
                    await frontend.peer.wait_running(0)
        finally:
            gateway.list_changes.detach(host, "unread" if out.choked.done() else None)
            frontend.peer.close(_LEFT)


async def _chunks(stdin: BinaryIO) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    if is_pipe(stdin):
        reader = asyncio.StreamReader(limit=_READ_SIZE)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe_for(loop, stdin))
        try:
            while data := await reader.read(_READ_SIZE):
                yield data
        finally:
            transport.close()
        return
    # The event loop cannot wait for files and terminals: a thread reads them, a few chunks ahead at most.
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    free_chunks = threading.Semaphore(4)

    def read() -> None:
        data = b"start"
        while data:
            free_chunks.acquire()
            try:
                data = stdin.read(_READ_SIZE)
            except (OSError, ValueError):  # the host is gone, or the program has ended
                data = b""
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, data)

    threading.Thread(target=read, daemon=True, name="stdin").start()
    while data := await queue.get():
        free_chunks.release()
        yield data
