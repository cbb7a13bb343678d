"""Files of settings are ordinary files: a FIFO or device in their place would hold up a read, or never end it.

Law: no file is opened in a way that waits for another process.
"""

import os
import stat
from pathlib import Path
from typing import Final

_KINDS: Final = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_PIECE: Final = 2**20
# With any ending: `nul.txt` is the null device too.
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(10))}
)


class NotOrdinary(OSError):
    """A path to something other than an ordinary file; `strerror` names its kind, and the expected one."""


def read_ordinary(path: str | Path, at_most: int | None = None) -> bytes:
    """Return the content of an ordinary file, which a link may lead to, or its first `at_most` bytes.

    Raises:
        NotOrdinary: it is something else.
        OSError: it cannot be read.
        ValueError: the path holds a NUL.
    """
    # Before it is opened: that alone does something to some devices.
    _check(os.stat(path), path)
    handle = os.open(path, _FLAGS)
    try:
        _check(os.fstat(handle), path)
        pieces, left = [], at_most
        while left is None or left > 0:
            piece = os.read(handle, _PIECE if left is None else min(_PIECE, left))
            if not piece:
                break
            pieces.append(piece)
            left = None if left is None else left - len(piece)
        return b"".join(pieces)
    finally:
        os.close(handle)


def _check(status: os.stat_result, path: str | Path) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = next((said for test, said in _KINDS if test(status.st_mode)), "it is something else")
    raise NotOrdinary(None, f"{kind}, and an ordinary file is wanted", str(path))


def is_reserved(name: str) -> bool:
    """Return whether Windows takes the name of a file for a device, or for another name."""
    return name.partition(".")[0].lower() in _RESERVED or name.endswith((".", " "))
