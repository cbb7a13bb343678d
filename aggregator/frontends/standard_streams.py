"""The stdin and stdout of this process, for the stdio frontend alone.

Rule: on Windows they stay open until the process ends: to close a file waits there for the thread that reads or writes.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def standard_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Reserve stdin and stdout for the protocol: meanwhile fd 0 is empty and fd 1 is stderr."""
    sys.stdout.flush()
    own_in, own_out = os.dup(0), os.dup(1)
    closes = sys.platform != "win32"
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        with (
            os.fdopen(own_in, "rb", buffering=0, closefd=closes) as stdin,
            os.fdopen(own_out, "wb", buffering=0, closefd=closes) as stdout,
        ):
            yield stdin, stdout
    finally:
        os.close(nothing)
