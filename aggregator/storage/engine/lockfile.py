"""One process at a time opens, mends or migrates a file. The system frees the lock when its holder dies."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aggregator.storage.errors import StorageBusy, StorageReadOnly

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PAUSE: Final = 0.01
# Binary, since rows are written into a file that is held: Windows would write each line end as two bytes.
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@asynccontextmanager
async def locked(path: Path, patience: float) -> AsyncIterator[None]:
    """Hold the lock file `path`. Each try is one system call that does not wait.

    Raises:
        StorageBusy: another process held it for `patience` seconds.
        StorageReadOnly: the lock file cannot be created.
    """
    import asyncio  # the supervisor of workers, which holds a lock too, loads no event loop

    try:
        descriptor = os.open(path, _FLAGS, 0o600)
    except OSError as error:
        raise StorageReadOnly(f"{path} cannot be written ({error.strerror}); make its folder writable.") from error
    try:
        try:
            async with asyncio.timeout(patience):
                while not _taken(descriptor):  # noqa: ASYNC110 - another process gives no event
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            held = f"{path} has been locked by another process for {patience:g} s; is one hanging?"
            raise StorageBusy(held) from None
        yield
    finally:
        os.close(descriptor)


def hold(path: Path) -> int:
    """Create a lock file and hold its lock until the returned descriptor is closed, or this process ends.

    Raises:
        OSError: it cannot be created, or is locked already.
    """
    descriptor = os.open(path, _FLAGS, 0o600)
    if not _taken(descriptor):
        os.close(descriptor)
        raise OSError(f"{path} is locked by another process")
    return descriptor


def is_held(path: Path) -> bool | None:
    """Tell whether a process holds the lock of this file; None if there is no file."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    except OSError:
        return True
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
