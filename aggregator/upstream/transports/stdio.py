"""The stdio transport: newline-delimited JSON-RPC over the pipes of a child (S/basic/transports/stdio).

Other output on stdout is tolerated, and logged.
"""

import codecs
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import UpstreamBadAnswer, UpstreamUnavailable
from aggregator.upstream.connection import AnswerTooDeep, Connection, InboundHandlers, JsonRpcRequest, too_many_values
from aggregator.upstream.credentials import Credentials
from aggregator.upstream.process.process import ChildProcess, run_child
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.transports.duplex import DuplexConnection, is_message
from aggregator.upstream.transports.rate_limit import InboundRateLimit
from aggregator.wire.codec import TooDeep, decode_received
from aggregator.wire.lines import WINDOW, LineReader, answered_by
from aggregator.wire.mending import parts_of
from aggregator.wire.message import is_answer
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest
from aggregator.wire.spread_message import SpreadMessage
from aggregator.wire.values import TooManyValues

log = logging.getLogger(__name__)

# Bytes: a child that leaves this much of its stdin unread is sent no more requests.
UNREAD_LIMIT: Final = 16 * 1024 * 1024
# Unread answers to its own requests of this many times as much end the connection.
_UNREAD_FACTOR: Final = 1.5
# Bytes of other output in a row after which reading pauses, so that a flood cannot take the event loop.
NOISE_LIMIT: Final = 64 * 1024
NOISE_PAUSE: Final = 0.05
# The first bytes of UTF-16: a mark, or a brace and its zero byte.
_UTF16: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"{\0": "utf-16-le", b"\0{": "utf-16-be"}
# No message is shorter than `{"id":1,"result":{}}`.
_SHORTEST: Final = 20


class StdioConnection(DuplexConnection, LineReader):
    """The connection over the pipes of a child: splits its stdout into messages and feeds them to a peer."""

    def __init__(self, server: ServerConfig, inbound: InboundHandlers, tasks: Tasks) -> None:
        DuplexConnection.__init__(self, inbound, tasks, self._send)
        LineReader.__init__(self, server.limits.max_message_bytes)
        self.child: ChildProcess | None = None
        self._server = server.id
        self._most_values, self._too_many = server.limits.max_message_values, too_many_values(server)
        self._noise = 0
        self._rate_limit = InboundRateLimit()
        self._pause = 0.0
        self._spread = SpreadMessage(self._limit)
        # What decodes the output of a server that writes UTF-16; its first bytes show whether it does.
        self._utf16: codecs.IncrementalDecoder | None = None
        self._first = b""
        self._undecided = True

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """See `Connection`."""
        if self.child is not None and self.child.unread() > UNREAD_LIMIT:
            raise UpstreamUnavailable(self._server, f"{self._server} does not read what it is sent.")
        return self.ask(request, receiver)

    def take(self, data: bytes) -> None:
        """Take bytes of the stdout of the child, cut anywhere."""
        self._pause = 0.0
        if self._undecided:
            data = self._decided(data)
        if self._utf16 is not None:
            data = self._utf16.decode(data).encode()
        if not self._size and b"{" not in data and b"[" not in data and not self._spread.is_open:
            if data:
                self._on_noise(data)
        else:
            if self._size > self._limit:
                self._charge(len(data))
            super().take(data)
        if self._pause and self.child is not None:
            self.child.pause(self._pause)

    def take_line(self, line: bytes) -> None:
        plain = line[:1] == b"{"
        if not plain and line.isspace():
            return
        if len(line) < _SHORTEST:
            self._take_part(line)
            return
        message: Any = None
        odd = False
        try:
            if plain or line.lstrip()[:1] in b"{[":
                message = decode_received(line, self._server, self._most_values)
            else:
                odd = True
        except (TooDeep, TooManyValues) as problem:
            request_id = answered_by(line[:WINDOW], line[-WINDOW:])
            if request_id is None:
                self._charge(len(line))
            elif isinstance(problem, TooDeep):
                self.peer.fail(request_id, AnswerTooDeep(self._server, line))
            else:
                self.peer.fail(request_id, self._too_many)
            return
        except ValueError:
            odd = True
        if type(message) is dict and message.get("jsonrpc") == "2.0" and self.peer.take_result(message, len(line)):
            self._noise = 0
        elif is_message(message):
            self._noise = 0
            if not is_answer(message) or not self.peer.waits_for(message.get("id")):
                self._charge(len(line))
            self._spread.drop()
            self.peer.feed(message, len(line))
        elif (
            # An indented line of a message that is being written is data, whatever stands in it.
            not (odd and self._spread.is_open and line[:1].isspace())
            and (b'"id"' in line or b'"jsonrpc"' in line)
            and self.take_odd(line, self._server, None if odd else parts_of(message))
        ):
            self._noise = 0
            self._charge(len(line))
        else:
            self._take_part(line)

    def _take_part(self, line: bytes) -> None:
        """Take a line that is no message, but may be one of the lines of one."""
        whole = self._spread.take(line)
        if whole is not None and self._take_spread(whole):
            self._noise = 0
        elif not self._spread.is_open:
            self._on_noise(line)
            return
        self._charge(len(line))

    def _take_spread(self, text: bytes) -> bool:
        """Take a message that was written over several lines; return False if it is none, or answers nothing."""
        parts: list[Any] | None = None
        try:
            parts = parts_of(decode_received(text, self._server, self._most_values))
        except TooManyValues:
            request_id = answered_by(text[:WINDOW], text[-WINDOW:])
            if request_id is not None:
                self.peer.fail(request_id, self._too_many)
            return request_id is not None
        except ValueError:
            pass  # said by `take_odd`, if it is an answer
        taken = self.take_odd(text, self._server, parts)
        if taken:
            self._on_fault("messages over several lines")
        return taken

    def _decided(self, data: bytes) -> bytes:
        """Return the bytes to read, once the first ones show in which encoding they are."""
        data = self._first + data
        if len(data) < 2:
            self._first = data
            return b""
        self._undecided, self._first = False, b""
        name = next((name for begins, name in _UTF16.items() if data.startswith(begins)), None)
        if name is not None:
            self._utf16 = codecs.getincrementaldecoder(name)(errors="replace")
            self._on_fault("UTF-16, where UTF-8 is expected")
        return data

    def fail_line(self, head: bytes, tail: bytes, error: Exception) -> None:
        self.fail_odd(self._server, head, tail, error)

    def take_oversized(self, head: bytes, tail: bytes, *, ended: bool) -> None:
        request_id = answered_by(head, tail)
        if request_id is not None:
            too_large = UpstreamBadAnswer(
                self._server,
                f"{self._server} sent a message of more than {self._limit} bytes "
                "(`limits.max_message_bytes` in its config raises the limit).",
            )
            self.peer.fail(request_id, too_large)

    def _on_noise(self, data: bytes) -> None:
        if not self._noise:
            log.warning("%s writes what is not MCP to its stdout: %.200r", self._server, data)
        self._noise += len(data)
        self._pause = max(self._pause, self._rate_limit.charge_lines(1))
        if self._noise > NOISE_LIMIT:
            self._noise = 1
            self._pause = max(self._pause, NOISE_PAUSE)

    def _charge(self, size: int) -> None:
        """Charge bytes of messages that answer no request of ours."""
        pause = self._rate_limit.charge(size)
        if pause:
            self._pause = max(self._pause, pause, NOISE_PAUSE)

    def _send(self, data: bytes, request_id: int | None) -> None:
        self.note_sent(request_id)
        child = self.child
        if child is None:
            return
        if request_id is None and child.unread() > UNREAD_LIMIT * _UNREAD_FACTOR:
            self.end("it does not read what it is sent")
        else:
            child.write(data + b"\n")


@asynccontextmanager
async def open_stdio(
    server: ServerConfig, inbound: InboundHandlers, reaper: Reaper, credentials: Credentials | None = None
) -> AsyncIterator[Connection]:
    """Start the process of the server and connect over its pipes.

    Raises:
        UpstreamError: the process could not be started.
    """
    assert server.command is not None
    async with Tasks(f"server {server.id}") as tasks:
        connection = StdioConnection(server, inbound, tasks)
        async with run_child(
            server.id,
            server.command,
            server.args,
            server.env,
            server.cwd,
            connection.take,
            reaper,
            memory_limit=server.limits.memory_limit,
        ) as child:
            connection.child = child
            child.exited.add_done_callback(lambda _: connection.end(child.end_reason()))
            child.silent.add_done_callback(lambda _: connection.end("it closed its stdout"))
            try:
                yield connection
            finally:
                connection.end("closed")
