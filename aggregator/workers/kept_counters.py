"""The counters of workers, kept in the memory that all of them share, so that a sum never falls as a worker ends.

Rule: a worker writes its counters before it reports them; the text stays whole even if the process stops in the middle.
"""

import os
import struct
import sys
import zlib
from typing import Final

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
