"""Our stdout, to a host that may not read it: what waits for it is bounded."""

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final

log = logging.getLogger(__name__)

# From this part of what may wait on, the host is to read before it is read from.
_ENOUGH: Final = 16
# How long what was said last may be on its way.
_LAST_BYTES: Final = 5.0


class Stdout(asyncio.BaseProtocol):
    """`write` never waits, `room` does. `choked` is done when more than `most` bytes wait: then all are dropped."""

    def __init__(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        self.choked: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._most = most
        self._room = asyncio.Event()
        self._room.set()
        self._transport: asyncio.WriteTransport | None = None

    def write(self, data: bytes) -> None:
        """Say something to the host."""
        assert self._transport is not None
        if self.choked.done():
            return
        self._transport.write(data)
        waiting = self._transport.get_write_buffer_size()
        if waiting > self._most + len(data):
            log.error(
                "the host does not read our stdout: %d bytes wait (`stdio.max_unread_bytes`), so its session ends",
                waiting,
            )
            self.choked.set_result(None)
            self._transport.abort()

    async def room(self) -> None:
        """Wait until the host has read most of what it was sent."""
        await self._room.wait()

    @asynccontextmanager
    async def on(self, stdout: BinaryIO) -> AsyncIterator[None]:
        """Open inside. What a pipe still holds at the end is given a moment."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_write_pipe(lambda: self, stdout)
        transport.set_write_buffer_limits(self._most // _ENOUGH)
        self._transport = transport
        try:
            yield
        finally:
            transport.close()
            await asyncio.wait([self._closed], timeout=_LAST_BYTES)

    # -- asyncio's side

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        # Nobody reads any more: what is said is dropped, and stdin tells when the host is gone.
        self._room.set()
        if not self._closed.done():
            self._closed.set_result(None)


class FileStdout(Stdout):
    """A file or a terminal takes what it is given, and holds us up meanwhile."""

    def __init__(self) -> None:
        super().__init__(0)
        self._stdout: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        assert self._stdout is not None
        self._stdout.write(data)

    @asynccontextmanager
    async def on(self, stdout: BinaryIO) -> AsyncIterator[None]:
        self._stdout = stdout
        yield


def outlet(stdout: BinaryIO, most: int) -> Stdout:
    """The one for what our stdout is."""
    return Stdout(most) if is_pipe(stdout) else FileStdout()


def is_pipe(stream: BinaryIO) -> bool:
    """Whether it can be waited for."""
    if os.name != "posix":
        return False
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
