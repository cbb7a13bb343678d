"""Pipes that an event loop is to read or write: each descriptor has one owner, and is closed once.

uvloop closes the descriptor of a pipe, and then the file object it was given, which closes the same number again. A
file or socket that another thread opened in between would be closed by that.
"""

import asyncio
import os
import sys
from typing import IO, Any


class _GivenAway:
    """A pipe whose descriptor is uvloop's from `fileno` on."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def fileno(self) -> int:
        """Return a descriptor that the caller closes; the file is closed."""
        with self._file:
            return os.dup(self._file.fileno())

    def close(self) -> None:
        """Close the file, if its descriptor was not given away."""
        self._file.close()


def pipe_for(loop: asyncio.AbstractEventLoop, file: IO[bytes]) -> Any:
    """Return the argument for `connect_read_pipe` and `connect_write_pipe` of this loop for a pipe."""
    uvloop = sys.modules.get("uvloop")
    return _GivenAway(file) if uvloop is not None and isinstance(loop, uvloop.Loop) else file
