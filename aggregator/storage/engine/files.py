"""The database as files: made for its owner alone, and set aside, never deleted, when it is damaged."""

import logging
import os
import stat
import time
from pathlib import Path
from typing import Final

from aggregator.domain.patient_files import move_over, patiently
from aggregator.storage.errors import StorageError, StorageReadOnly

log = logging.getLogger(__name__)

# The file, and what SQLite keeps beside it: they belong together.
_PARTS: Final = ("", "-wal", "-shm", "-journal")
_ASIDE: Final = ".damaged-"
_REPLACED: Final = ".replaced-"


def make_file(path: Path) -> None:
    """Create an empty file that only its owner may read, in a folder that only its owner may enter.

    An existing folder keeps its mode; an existing file loses the rights of others.

    Raises:
        StorageError: it cannot be created.
    """
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        # As root we would change the rights of a device, and remove it, since it looks like an empty database.
        raise StorageError(f"{path} is a device or pipe, no file. Name another file with `storage`.")
    try:
        _make_folder(path.parent)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        mode = stat.S_IMODE(path.stat().st_mode)
        if os.name == "posix" and mode & 0o077:
            log.warning("%s could be read by others (mode %o); now only its owner can", path, mode)
            for part in _parts(path):
                part.chmod(0o600)
    except PermissionError as error:
        raise StorageReadOnly(unwritable(path)) from error
    except OSError as error:
        raise StorageError(f"The database {path} cannot be made: {error.strerror}.") from error


def make_folder(path: Path) -> None:
    """Create the folder of this file.

    Raises:
        StorageError: it cannot be created.
    """
    try:
        _make_folder(path.parent)
    except OSError as error:
        raise StorageError(f"The folder of the database {path} cannot be made: {error.strerror}.") from error


def _make_folder(folder: Path) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def unwritable(path: Path) -> str:
    """Return what to tell an operator whose file or folder is read-only."""
    return (
        f"The database {path} cannot be written. Make the file and its folder writable for the user who runs "
        "aggregator, or name another file with `storage`."
    )


def lost(path: Path) -> str:
    """Return what to tell an operator whose file is not there any more."""
    return f"The database {path} cannot be opened; is it still there?"


def is_empty(path: Path) -> bool:
    """Return whether nothing was ever written to the file."""
    return path.stat().st_size == 0


def unmake(path: Path) -> None:
    """Remove an empty file that could not become a database, with its companion files."""
    for part in _parts(path):
        part.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Move a damaged file aside, with its companion files; return its new path."""
    return _moved(path, _free(path, _ASIDE))


def put_in_place(new: Path, path: Path, *, keep: bool) -> Path | None:
    """Move a whole database, without companion files, to `path`; return the new path of the file before it.

    With `keep` that file stays beside it; otherwise it was empty, and is removed. After a crash one of the two is at
    `path`, or none if the file before had companion files.

    Raises:
        OSError: the move failed.
    """
    aside = None
    if keep and path.exists():
        aside = _free(path, _REPLACED)
        try:
            if len(_parts(path)) > 1:
                raise OSError
            os.link(path, aside)
        except OSError:
            _moved(path, aside)
    for part in _parts(path):
        if part != path:
            patiently(part.unlink)
    with new.open("r+b") as file:  # Windows syncs no file that is open for reading alone
        os.fsync(file.fileno())
    move_over(new, path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return aside


def _free(path: Path, mark: str) -> Path:
    """Return the first name beside this one, with the mark and the time, that is not taken."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number = 1
    while (target := Path(f"{path}{mark}{stamp}-{number}")).exists():
        number += 1
    return target


def _moved(path: Path, target: Path) -> Path:
    # The file last: a crash half-way leaves it to be set aside again.
    for part in reversed(_parts(path)):
        move_over(part, f"{target}{part.name.removeprefix(path.name)}")
    return target


def set_aside_before(path: Path) -> tuple[Path, ...]:
    """Return the damaged files that still lie beside this one, oldest first."""
    found = (one for one in path.parent.iterdir() if one.name.startswith(path.name + _ASIDE))
    return tuple(sorted(one for one in found if not one.name.endswith(_PARTS[1:])))


def identity(path: Path) -> int:
    """Return a number that changes when another file takes this one's place; 0 while there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _parts(path: Path) -> list[Path]:
    return [part for ending in _PARTS if (part := Path(f"{path}{ending}")).exists()]
