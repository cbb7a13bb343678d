"""One of our processes at a time compares and replaces files of a folder. The system ends the hold of a dead one."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from aggregator.editing.errors import EditError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PAUSE: Final = 0.005
PATIENCE: Final = 20.0


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Hold a folder against our other processes; where its system has no such holds, go on without.

    Raises:
        EditError: another process has held it for 20 seconds.
    """
    handle = _handle(folder)
    try:
        if handle is not None:
            until = time.monotonic() + PATIENCE
            while not _taken(handle):
                if time.monotonic() > until:
                    raise EditError(
                        f"Another command has been writing in {folder} for {PATIENCE:g} s. End it, then try again."
                    )
                time.sleep(_PAUSE)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _handle(folder: Path) -> int | None:
    with suppress(OSError):
        if sys.platform != "win32":
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        # Folders cannot be opened there.
        name = sha256(os.path.normcase(folder).encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return os.open(Path(gettempdir()) / f"aggregator-{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    return None


def _taken(handle: int) -> bool:
    """Return whether the hold is taken now, or cannot be had at all here."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True
