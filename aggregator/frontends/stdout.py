"""Write to stdout without blocking the event loop: for a host that does not read, a bounded amount is queued."""

import asyncio
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final

from aggregator.wire.pipes import pipe_for
from aggregator.wire.thread_pipe import ThreadPipe

log = logging.getLogger(__name__)

# The host is not read from while more than this part of the bound waits for it.
_ENOUGH: Final = 16
# Seconds for the last bytes to be read.
_LAST_BYTES: Final = 5.0


class Stdout(asyncio.BaseProtocol):
    """A pipe to the host. `write` never waits, `drained` does.

    `choked` is done when more than `most` bytes wait: then the pipe is closed and they are dropped.
    """

    def __init__(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        self.choked: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._most = most
        self._loop = loop
        self._unsent: list[bytes] = []
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._transport: asyncio.WriteTransport | None = None

    def write(self, data: bytes) -> None:
        """Send bytes to the host, with one system call for all that is written in one turn of the event loop."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(data)

    def _flush(self) -> None:
        if not self._unsent or self.choked.done():
            self._unsent.clear()
            return
        assert self._transport is not None
        last = self._unsent[-1]
        self._transport.write(b"".join(self._unsent))
        self._unsent.clear()
        waiting = self._transport.get_write_buffer_size()
        if waiting > self._most + len(last):
            log.error(
                "the host does not read our stdout: %d bytes wait, so its session ends",
                waiting,
            )
            self.choked.set_result(None)
            self._transport.abort()

    async def drained(self) -> None:
        """Wait until the host has read most of the output."""
        await self._has_space.wait()

    @asynccontextmanager
    async def on(self, stdout: BinaryIO) -> AsyncIterator[None]:
        """Open the pipe inside; at the end, its last bytes are given a moment."""
        transport = await self._opened(stdout)
        transport.set_write_buffer_limits(self._most // _ENOUGH)
        self._transport = transport
        try:
            yield
        finally:
            self._flush()
            transport.close()
            await asyncio.wait([self._closed], timeout=_LAST_BYTES)

    async def _opened(self, stdout: BinaryIO) -> asyncio.WriteTransport:
        if sys.platform == "win32":
            # The pipes that hosts make are not overlapped, so that no event loop can wait for them.
            return ThreadPipe(self, stdout)
        loop = asyncio.get_running_loop()
        return (await loop.connect_write_pipe(lambda: self, pipe_for(loop, stdout)))[0]

    # -- asyncio's side

    def pause_writing(self) -> None:
        self._has_space.clear()

    def resume_writing(self) -> None:
        self._has_space.set()

    def connection_lost(self, exc: Exception | None) -> None:
        # The reader is gone: further bytes are dropped, and the end of stdin shows when the host has left.
        self._has_space.set()
        if not self._closed.done():
            self._closed.set_result(None)


class FileStdout(Stdout):
    """A file or terminal as stdout: it takes all bytes, and blocks meanwhile."""

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


def open_stdout(stdout: BinaryIO, most: int) -> Stdout:
    """Return the writer for the kind of stdout that there is."""
    return Stdout(most) if sys.platform == "win32" or is_pipe(stdout) else FileStdout()


def is_pipe(stream: BinaryIO) -> bool:
    """Return whether the event loop can wait for a stream."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
