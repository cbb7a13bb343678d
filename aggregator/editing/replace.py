"""Files read whole, and replaced at once or not at all, by one of our processes at a time."""

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from aggregator.domain.ordinary_files import NotOrdinary, read_ordinary
from aggregator.domain.patient_files import move_over, patiently
from aggregator.editing.errors import EditError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LARGEST: Final = 16 * 2**20
PATIENCE: Final = 20.0
_PAUSE: Final = 0.005
# A new content beside its file, before it takes the place of the file: a dot, the name of the file, a random end.
_TEMPORARY: Final = re.compile(r"\.(.+)\.[0-9a-f]{12}", re.DOTALL)


def only_for_owner(*paths: Path) -> None:
    """Take the rights of other users from files with secrets in them, as far as this user may."""
    for path in paths:
        with suppress(OSError):
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                path.chmod(0o600)


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises EditError when it cannot be read, or is larger than 16 MiB."""
    try:
        content = patiently(lambda: read_ordinary(path, LARGEST + 1))
    except NotOrdinary:
        raise EditError(f"{path} is not a file. Name a file.") from None
    except FileNotFoundError:
        raise EditError(f"There is no file {path}. Create it, or name another.") from None
    except (OSError, ValueError) as error:
        raise EditError(f"{path} cannot be read: {_why(error)}.") from None
    if len(content) > LARGEST:
        raise EditError(f"{path} is larger than 16 MiB, which no file of settings is.")
    return content


def backup_path(path: Path) -> Path:
    """Return the place of the backup that a replacement leaves beside a file."""
    return path.with_name(f"{path.name}.bak")


def replace_file(path: Path, content: bytes, was: bytes | None) -> Path | None:
    """Replace the content of a file at once, and return the backup beside it; None if the file did not exist.

    `was` is the content as read: a file with any other content now stays unchanged. None: there must be no file yet; it
    is created for its owner alone, with its folders. A link stays, the file it leads to is replaced.

    Raises:
        EditError: the file has changed, or cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))
        if was is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        with one_writer(target.parent) as alone:
            if alone:
                _remove_cut_off(target)
            if was is None:
                _make(target, content, path)
                return None
            return _replaced(target, content, was, path)
    except (OSError, ValueError) as error:
        raise EditError(f"{path} cannot be written: {_why(error)}.") from None


def _replaced(target: Path, content: bytes, was: bytes, path: Path) -> Path:
    _check_same(target, was, path)
    backup = backup_path(path)
    state = os.stat(target)
    _move_in(backup, was, state)
    # Hosts know nothing of our hold, and write when they like.
    _check_same(target, was, path)
    _move_in(target, content, state)
    return backup


def _remove_cut_off(target: Path) -> None:
    """Remove what a killed process has left of its new contents for a file: they may hold secrets."""
    names = {target.name, backup_path(target).name}
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            parts = _TEMPORARY.fullmatch(entry.name)
            if parts is not None and parts[1] in names and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    os.unlink(entry.path)


def _check_same(target: Path, was: bytes, path: Path) -> None:
    if read_file(target) != was:
        raise EditError(f"{path} was changed in the meantime, so it was left as it is. Run the command again.")


def _make(target: Path, content: bytes, path: Path) -> None:
    temporary = _written(target, content, None)
    try:
        try:
            os.link(temporary, target)  # unlike a rename, refuses if there is a file meanwhile
        except FileExistsError:
            raise EditError(f"{path} was made in the meantime. Run the command again.") from None
        except OSError:  # a file system without hard links
            if os.path.lexists(target):
                raise EditError(f"{path} was made in the meantime. Run the command again.") from None
            move_over(temporary, target)
        _sync_folder(target.parent)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _move_in(target: Path, content: bytes, like: os.stat_result) -> None:
    temporary = _written(target, content, like)
    try:
        move_over(temporary, target)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _written(target: Path, content: bytes, like: os.stat_result | None) -> Path:
    """Return a new file beside the target with this content, and the mode and owner of another."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            if like is not None and sys.platform != "win32":
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):
                        os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        with suppress(OSError):  # some file systems cannot
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def one_writer(folder: Path) -> Iterator[bool]:
    """Lock a folder against our other processes; without support by its system, continue without a lock.

    Yields whether it is locked.

    Raises:
        EditError: another process has held it for 20 seconds.
    """
    handle, alone = _handle(folder), None
    try:
        if handle is not None:
            until = time.monotonic() + PATIENCE
            while (alone := _taken(handle)) is False:
                if time.monotonic() > until:
                    raise EditError(
                        f"Another command has been writing in {folder} for {PATIENCE:g} s. End it, then try again."
                    )
                time.sleep(_PAUSE)
        yield alone is True
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


def _taken(handle: int) -> bool | None:
    """Tell whether another process has the lock now; None if this file system has no locks."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
