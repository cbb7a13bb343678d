"""A mark beside a database file that says, without a look into the database, that nothing of a kind was committed.

Rule: a process changes the mark after its commit and before its consequences leave the process. One that reads the mark
and then the rows knows them for as long as the mark stays the same.

The file is mapped into memory, as SQLite maps its own file of shared memory: a system call would let other threads of
the process have the interpreter, and wait to get it back, at each look.
"""

import mmap
import os
import stat
from pathlib import Path
from typing import Final

from aggregator.storage.errors import StorageError

_SIZE: Final = 16
# A pipe in its place keeps nothing waiting; Windows would translate bytes in a text file.
_OPEN: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class ChangeMark:
    """The mark in the file at `path`: 16 bytes, random ones with each change; without a path no mark is known.

    The processes that share the file run on one machine, as SQLite wants it of those that share a database.
    """

    __slots__ = ("_identity", "_map", "_path")

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None else str(path)
        self._map: mmap.mmap | None = None
        self._identity = (0, 0)

    def read(self) -> bytes | None:
        """Return the present mark; None if it is unknown, so that the rows have to be read."""
        return None if self._map is None else self._map[:_SIZE]

    def look(self) -> None:
        """Use the file that is at the path now, which is made if there is none. Before the first look no mark is known.

        Call it again and again: the file may have been deleted or replaced.
        """
        if self._path is None:
            return
        try:
            self._use(self._path)
        except OSError:
            self._map = None

    def change(self) -> None:
        """Make every process see another mark, also those that have not noticed yet that the file was replaced.

        Raises:
            StorageError: it cannot be written; other processes may rely on what they knew before.
        """
        if self._path is None:
            return
        if self._map is not None:
            self._map[:_SIZE] = os.urandom(_SIZE)
        try:
            mapped = self._use(self._path)
        except OSError as error:
            self._map = None
            why = error.strerror or type(error).__name__
            raise StorageError(f"The file {self._path} beside the database cannot be written: {why}.") from error
        mapped[:_SIZE] = os.urandom(_SIZE)

    def _use(self, path: str) -> mmap.mmap:
        """Map the file that is at the path, unless it is mapped already.

        Raises:
            OSError: it cannot be opened, or is no file.
        """
        try:
            found = os.stat(path)
        except FileNotFoundError:
            found = None
        if self._map is not None and found is not None and (found.st_dev, found.st_ino) == self._identity:
            return self._map
        file = os.open(path, _OPEN, 0o600)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(None, "it is no file")
            if found.st_size < _SIZE:
                os.ftruncate(file, _SIZE)
            self._map, self._identity = mmap.mmap(file, _SIZE), (found.st_dev, found.st_ino)
        finally:
            os.close(file)
        return self._map
