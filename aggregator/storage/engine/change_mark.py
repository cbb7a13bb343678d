"""A mark beside a database file that says, without a look into the database, that nothing of a kind was committed.

Rule: a process changes the mark after its commit and before its consequences leave the process. One that reads the mark
and then the rows knows them for as long as the mark stays the same.
"""

import mmap
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from aggregator.storage.errors import StorageError

_SIZE: Final = 16
# A pipe in its place keeps nothing waiting, and a link leads to no other file; Windows would translate bytes of a text.
_FLAGS: Final = ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY")
_OPEN: Final = os.O_RDWR | os.O_CREAT | sum(getattr(os, flag, 0) for flag in _FLAGS)


class ChangeMark:
    """The mark in the file `<database>.<kind>`: 16 bytes, random ones with each change; without a database no mark is
    known.

    The processes that share the file run on one machine, as SQLite wants it of those that share a database. `read` is
    for the thread of the event loop, `look` and `change` for any.
    """

    __slots__ = ("_database", "_file", "_kind")

    def __init__(self, database: Path | None, kind: str) -> None:
        self._database = database
        self._kind = kind
        self._file: _MarkFile | None = None

    def read(self) -> bytes | None:
        """Return the present mark; None if it is unknown, so that the rows have to be read."""
        file = self._file
        return None if file is None else file.read()

    def look(self) -> None:
        """Use the file that is at the path now, which is made if there is none. Before the first look no mark is known.

        Call it again and again: the file may have been deleted or replaced.
        """
        if self._database is None:
            return
        try:
            self._use(self._database)
        except OSError:
            self._file = None

    def change(self) -> None:
        """Make every process see another mark, also those that have not noticed yet that the file was replaced.

        Raises:
            StorageError: it cannot be written; other processes may rely on what they knew before.
        """
        if self._database is None:
            return
        try:
            before = self._file
            if before is not None:
                before.write()
            file = self._use(self._database)
            if file is not before:
                file.write()
        except OSError as error:
            self._file = None
            why = error.strerror or type(error).__name__
            raise StorageError(f"The file {self._path(self._database)} cannot be written: {why}.") from error

    def _path(self, database: Path) -> str:
        # Behind links, as SQLite names its own files: another process may use the database by another name.
        return f"{os.path.realpath(database)}.{self._kind}"

    def _use(self, database: Path) -> "_MarkFile":
        """Open the file that is at the path, unless it is open already; it has a mark then.

        Raises:
            OSError: it cannot be opened or written, or is no mark.
        """
        path = self._path(database)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            found = None
        file = self._file
        if file is not None and found is not None and (found.st_dev, found.st_ino) == file.identity:
            if found.st_size < _SIZE:
                file.write()
            return file
        handle = os.open(path, _OPEN, 0o600)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _SIZE:
                raise OSError(None, "it is something else")
            if sys.platform != "win32" and os.geteuid() == 0:
                # As SQLite does with its files: the next gateway may not run as root.
                owner = os.stat(database)
                os.fchown(handle, owner.st_uid, owner.st_gid)
        except OSError:
            os.close(handle)
            raise
        file = _MarkFile(handle, (found.st_dev, found.st_ino))
        if found.st_size < _SIZE:
            file.write()
        self._file = file
        return file


if sys.platform == "win32":

    class _MarkFile:
        """An open file of a mark. It is mapped into memory: Windows cuts no file that is, and has no pread."""

        __slots__ = ("_map", "identity")

        def __init__(self, handle: int, identity: tuple[int, int]) -> None:
            if os.fstat(handle).st_size < _SIZE:
                os.ftruncate(handle, _SIZE)
            self._map = mmap.mmap(handle, _SIZE)
            self.identity = identity
            os.close(handle)

        def read(self) -> bytes | None:
            """Return the mark."""
            return self._map[:_SIZE]

        def write(self) -> None:
            """Write another mark."""
            self._map[:_SIZE] = os.urandom(_SIZE)

else:

    class _MarkFile:
        """An open file of a mark, closed with its last reference.

        It is not mapped into memory: a file that is cut, or on a full disk, would end the process (SIGBUS).
        """

        __slots__ = ("_handle", "identity", "read")

        read: Callable[[], bytes | None]

        def __init__(self, handle: int, identity: tuple[int, int]) -> None:
            self.read = _reader(handle)
            self._handle = handle
            self.identity = identity

        def __del__(self) -> None:
            os.close(self._handle)

        def write(self) -> None:
            """Write another mark.

            Raises:
                OSError: it cannot be written, or not whole.
            """
            if os.pwrite(self._handle, os.urandom(_SIZE), 0) < _SIZE:
                raise OSError(None, "no space left")

    # Of `statx` (Linux, the same on every processor): the file itself, the number of links, its bit and its place.
    _EMPTY_PATH: Final = 0x1000
    _LINKS: Final = 4
    _LINKS_AT: Final = 16
    _STATUS_SIZE: Final = 256

    def _reader(handle: int) -> Callable[[], bytes | None]:
        """Return a function that returns the mark in an open file; None if the file was deleted or replaced, is cut, or
        cannot be read. A process that has only the file in its place cannot change the mark of a deleted one.

        It keeps the interpreter, if that is possible: `os.fstat` and `os.pread` let other threads have it, and wait to
        get it back, at each look.
        """
        try:
            import ctypes  # some builds of Python lack it; others need it only for flow rules

            here = ctypes.PyDLL(None)
            pread, statx = here.pread, here.statx
        except (ImportError, OSError, AttributeError):
            return partial(_read_and_let_others_run, handle)
        pread.restype = ctypes.c_ssize_t
        buffer, status = ctypes.create_string_buffer(_SIZE), ctypes.create_string_buffer(_STATUS_SIZE)
        filled, links = ctypes.c_uint32.from_buffer(status), ctypes.c_uint32.from_buffer(status, _LINKS_AT)
        # Made once: a look takes a quarter longer if its arguments are converted each time.
        number, size, start = ctypes.c_int(handle), ctypes.c_size_t(_SIZE), ctypes.c_long(0)
        to_read = number, ctypes.c_void_p(ctypes.addressof(buffer)), size, start
        wanted = ctypes.c_int(_EMPTY_PATH), ctypes.c_uint(_LINKS)
        to_look = number, ctypes.c_char_p(b""), *wanted, ctypes.c_void_p(ctypes.addressof(status))
        if statx(*to_look) or not filled.value & _LINKS:
            # A sandbox that does not know the call, or a file system without links.
            return partial(_read_and_let_others_run, handle)

        def read() -> bytes | None:
            if statx(*to_look) or not links.value or pread(*to_read) != _SIZE:
                return None
            return buffer.raw

        return read

    def _read_and_let_others_run(handle: int) -> bytes | None:
        try:
            found = os.pread(handle, _SIZE, 0) if os.fstat(handle).st_nlink else b""
        except OSError:
            return None
        return found if len(found) == _SIZE else None
