"""The write end of a pipe that the event loop cannot wait for, such as a host's on Windows: a thread writes.

Rule: the file is not closed while the thread may be writing it; the system closes it with the process.
"""

import asyncio
import queue
import threading
from contextlib import suppress
from typing import BinaryIO


class ThreadPipe(asyncio.WriteTransport):
    """A transport over a file that blocks. Nothing is lost between `write` and the end of the thread."""

    def __init__(self, protocol: asyncio.BaseProtocol, file: BinaryIO) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._file = file
        self._high = 64 * 1024
        self._waiting = 0
        self._paused = self._closing = self._lost = False
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name="stdout").start()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._lost:
            return
        self._waiting += len(data)
        self._queue.put(bytes(data))
        if self._waiting > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high = high

    def is_closing(self) -> bool:
        return self._closing or self._lost

    def close(self) -> None:
        """Write what waits, then end the thread."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)

    def abort(self) -> None:
        """Drop the waiting lines; the reader may never take the one that is being written."""
        self.close()
        self._on_lost(None)

    def _run(self) -> None:
        error: Exception | None = None
        with suppress(RuntimeError):  # the loop has ended
            while (data := self._queue.get()) is not None and not self._lost:
                rest = memoryview(data)
                try:
                    while rest:
                        rest = rest[self._file.write(rest) or 0 :]
                except (OSError, ValueError) as problem:  # ValueError: the file was closed
                    error = problem
                    break
                self._loop.call_soon_threadsafe(self._on_written, len(data))
            self._loop.call_soon_threadsafe(self._on_lost, error)

    def _on_written(self, size: int) -> None:
        self._waiting -= size
        if self._paused and self._waiting <= self._high // 4 and not self._lost:
            self._paused = False
            self._protocol.resume_writing()

    def _on_lost(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._waiting = 0
            self._protocol.connection_lost(error)
