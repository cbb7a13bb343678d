"""stdio: newline-delimited JSON-RPC over a child's pipes (S/basic/transports/stdio). Noise on stdout is tolerated."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import UpstreamBadAnswer, UpstreamUnavailable
from aggregator.domain.tasks import Tasks
from aggregator.upstream.connection import Connection, Inbound
from aggregator.upstream.process import Child, Warden, running
from aggregator.wire.codec import decode
from aggregator.wire.peer import OnProgress, Peer

log = logging.getLogger(__name__)

# A child that leaves this much unread is not reading at all.
UNREAD_LIMIT: Final = 16 * 1024 * 1024
# Noise in a row after which its stdout is left alone for a moment, so that a flood cannot take the loop.
NOISE_LIMIT: Final = 64 * 1024
NOISE_PAUSE: Final = 0.05

_ID: Final = re.compile(rb'"id"\s*:\s*"?(\d+)')
_ID_WINDOW: Final = 4096


class StdioConnection:
    """Splits the child's stdout into messages and feeds them to a peer."""

    def __init__(self, server: ServerConfig, inbound: Inbound, tasks: Tasks) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.child: Child | None = None
        self._server = server.id
        self._limit = server.max_message_bytes
        self._peer = Peer(self._send, tasks, inbound.on_request, inbound.on_notification)
        self._partial: list[bytes] = []
        self._size = 0
        self._noise = 0

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        if self.child is not None and self.child.unread() > UNREAD_LIMIT:
            raise UpstreamUnavailable(self._server, f"{self._server} does not read what it is sent.")
        # `initialize` must not be cancelled (L/basic/utilities/cancellation).
        return await self._peer.request(method, params, on_progress, cancellable=method != "initialize")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self._peer.notify(method, params)

    def speak(self, version: str) -> None:
        """Nothing on this wire depends on it."""

    def end(self, reason: str) -> None:
        """The connection is over; everyone who waits is told."""
        self._peer.close(reason)
        if not self.ended.done():
            self.ended.set_result(reason)

    def take(self, data: bytes) -> None:
        """Bytes from the child's stdout, cut anywhere."""
        if not self._partial and b"{" not in data and b"[" not in data:
            self._hear_noise(data)
            return
        head, *lines = data.split(b"\n")
        self._grow(head)
        for line in lines:
            self._take_line(b"".join(self._partial))
            self._partial.clear()
            self._size = 0
            self._grow(line)

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            if piece:
                self._partial.append(piece)
        else:
            self._drop_oversized(piece)

    def _take_line(self, line: bytes) -> None:
        if self._size > self._limit or not line.strip():
            return
        try:
            message = decode(line) if line.lstrip()[:1] in b"{[" else None
        except ValueError:
            message = None
        if isinstance(message, dict) and ("method" in message or "id" in message):
            self._noise = 0
            self._peer.feed(message)
        elif isinstance(message, list) and all(isinstance(part, dict) for part in message):
            self._peer.feed(message)
        else:
            self._hear_noise(line)

    def _drop_oversized(self, piece: bytes) -> None:
        """Forget a message past the limit; fail the request it answers, if its head or tail says which."""
        start = b"".join(self._partial)[:_ID_WINDOW]
        self._partial = [start] if start else []
        for found in (*_ID.finditer(start), *_ID.finditer(piece[-_ID_WINDOW:])):
            too_large = UpstreamBadAnswer(
                self._server,
                f"{self._server} sent a message of more than {self._limit} bytes "
                "(`max_message_bytes` in its config raises the limit).",
            )
            self._peer.fail(int(found[1]), too_large)

    def _hear_noise(self, data: bytes) -> None:
        if not self._noise:
            log.warning("%s writes what is not MCP to its stdout: %.200r", self._server, data)
        self._noise += len(data)
        if self._noise > NOISE_LIMIT and self.child is not None:
            self._noise = 1
            self.child.pause(NOISE_PAUSE)

    def _send(self, data: bytes, request_id: int | None) -> None:
        if self.child is not None:
            self.child.write(data + b"\n")


@asynccontextmanager
async def open_stdio(server: ServerConfig, inbound: Inbound, warden: Warden) -> AsyncIterator[Connection]:
    """Start the server's process and talk to it over its pipes.

    Raises:
        UpstreamError: it could not be started.
    """
    assert server.command is not None
    async with Tasks(f"server {server.id}") as tasks:
        connection = StdioConnection(server, inbound, tasks)
        async with running(
            server.id, server.command, server.args, server.env, server.cwd, connection.take, warden
        ) as child:
            connection.child = child
            child.exited.add_done_callback(lambda done: connection.end(_obituary(child, done.result())))
            try:
                yield connection
            finally:
                connection.end("closed")


def _obituary(child: Child, code: int) -> str:
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    words = child.last_words()
    return f"its process ended with {how}" + (f"; it last said: {words}" if words else "")
