"""A mark beside a database file that says, without a look into the database, that nothing of a kind was committed.

Rule: a process changes the mark after its commit and before its consequences leave the process. One that reads the mark
and then the rows knows them for as long as the mark stays the same.
"""

import os
from pathlib import Path
from typing import Final

from aggregator.storage.errors import StorageError

_SIZE: Final = 16
# A pipe in its place keeps no reader waiting; Windows would translate bytes in a text file.
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE: Final = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class ChangeMark:
    """The mark in the file at `path`: 16 random bytes, anew with each change; without a path no mark is known.

    The processes that share the file run on one machine, as SQLite wants it of those that share a database.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None else str(path)

    def read(self) -> bytes | None:
        """Return the present mark; None if it is unknown, so that the rows have to be read. It costs a few
        microseconds.
        """
        if self._path is None:
            return None
        try:
            file = os.open(self._path, _READ)
        except OSError:
            return None
        try:
            mark = os.read(file, _SIZE)
        except OSError:
            return None
        finally:
            os.close(file)
        return mark if len(mark) == _SIZE else None

    def change(self) -> None:
        """Make every process see another mark.

        Raises:
            StorageError: it cannot be written; other processes may rely on what they knew before.
        """
        if self._path is None:
            return
        try:
            file = os.open(self._path, _WRITE, 0o600)
            try:
                os.write(file, os.urandom(_SIZE))
            finally:
                os.close(file)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise StorageError(f"The file {self._path} beside the database cannot be written: {why}.") from error
