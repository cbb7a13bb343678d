"""A table in memory that all workers and their supervisor share: a line for each worker, and their counters.

Law: only its own worker writes a line; the supervisor empties it once that process has ended. Rule: a worker writes its
counters before it reports them, so that a sum never falls as it ends; the text stays whole even if the process stops in
the middle.
"""

import mmap
import os
import struct
import sys
import zlib
from typing import Final

# The process, its connections, how often it has reported, and 1 while it takes connections; 0 in all for a free line.
_LINE: Final = struct.Struct("=qqqq")
_PID, _CONNECTIONS, _BEATS, _ACCEPTS = range(0, _LINE.size, 8)
_FIELD: Final = struct.Struct("=q")
# Bytes before the counters, which the table of workers takes, and for the counters of one line of that table.
TABLE_BYTES: Final = 64 * 1024
_HALF: Final = 16 * 1024 * 1024
_EACH: Final = 2 * _HALF
# Number, length and checksum of the text. The half with the higher number is the newer.
_HEAD: Final = struct.Struct("=QQQ")


def file_bytes(lines: int) -> int:
    """Return the size of a file for so many lines; it is sparse."""
    return TABLE_BYTES + lines * _EACH


class KeptCounters:
    """The texts in the file `descriptor`, one for each line of the table."""

    def __init__(self, descriptor: int) -> None:
        self._file = descriptor
        self.lines = (os.fstat(descriptor).st_size - TABLE_BYTES) // _EACH

    def keep(self, line: int, text: bytes) -> bool:
        """Replace the last text; only the worker of that line may. Return False if the text is too long."""
        if sys.platform == "win32":
            raise NotImplementedError
        if len(text) > _HALF - _HEAD.size:
            return False
        numbers = [self._half(line, half)[0] for half in (0, 1)]
        start = self._start(line, int(numbers[0] > numbers[1]))
        os.pwrite(self._file, text, start + _HEAD.size)
        os.pwrite(self._file, _HEAD.pack(max(numbers) + 1, len(text), zlib.crc32(text)), start)
        return True

    def read(self, line: int) -> bytes:
        """Return the newest whole text of a line, or an empty one."""
        return max(self._half(line, 0), self._half(line, 1))[1]

    def _half(self, line: int, half: int) -> tuple[int, bytes]:
        if sys.platform == "win32":
            raise NotImplementedError
        start = self._start(line, half)
        number, length, checksum = _HEAD.unpack(os.pread(self._file, _HEAD.size, start))
        text = os.pread(self._file, length, start + _HEAD.size) if length < _HALF else b""
        return (number, text) if zlib.crc32(text) == checksum else (0, b"")

    def _start(self, line: int, half: int) -> int:
        return TABLE_BYTES + line * _EACH + half * _HALF


def make_table_file(lines: int) -> int:
    """Return the descriptor of a file that child processes may inherit: an empty table, and room for counters."""
    if hasattr(os, "memfd_create"):
        descriptor: int = os.memfd_create("workers")
    else:
        # As `tempfile` does, which takes 2 MiB of memory to import.
        path = f"{os.environ.get('TMPDIR', '/tmp')}/aggregator-{os.urandom(12).hex()}"  # noqa: S108
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    os.truncate(descriptor, file_bytes(lines))
    return descriptor


class WorkerTable:
    """The table in the file `descriptor`, with all of its lines."""

    def __init__(self, descriptor: int) -> None:
        lines = KeptCounters(descriptor).lines
        self._memory = mmap.mmap(descriptor, TABLE_BYTES)
        self._starts = range(0, lines * _LINE.size, _LINE.size)

    def __len__(self) -> int:
        return len(self._starts)

    def enter(self, line: int, pid: int) -> None:
        """Take a line for a process."""
        _LINE.pack_into(self._memory, self._starts[line], pid, 0, 0, 0)

    def clear(self, line: int) -> None:
        """Free a line."""
        _LINE.pack_into(self._memory, self._starts[line], 0, 0, 0, 0)

    def free(self) -> int:
        """Return a free line. There are more lines than processes."""
        return next(line for line, start in enumerate(self._starts) if not self._get(start + _PID))

    def beat(self, line: int) -> None:
        """Report that the event loop of a worker runs."""
        self._put(self._starts[line] + _BEATS, self.beats(line) + 1)

    def beats(self, line: int) -> int:
        """Return how often a worker has reported."""
        return self._get(self._starts[line] + _BEATS)

    def accept(self, line: int, accepts: bool) -> None:
        """Record whether a worker takes connections."""
        self._put(self._starts[line] + _ACCEPTS, int(accepts))

    def count(self, line: int, connections: int) -> None:
        """Record how many connections a worker has."""
        self._put(self._starts[line] + _CONNECTIONS, connections)

    def connections(self, line: int) -> int:
        """Return how many connections a worker has."""
        return self._get(self._starts[line] + _CONNECTIONS)

    def fewer_elsewhere(self, line: int, connections: int) -> bool:
        """Return whether another worker that takes connections has fewer."""
        for start in self._starts:
            if start == self._starts[line] or not self._get(start + _ACCEPTS):
                continue
            if self._get(start + _CONNECTIONS) < connections:
                return True
        return False

    def _get(self, at: int) -> int:
        return int(_FIELD.unpack_from(self._memory, at)[0])

    def _put(self, at: int, value: int) -> None:
        _FIELD.pack_into(self._memory, at, value)
