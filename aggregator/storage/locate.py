"""The place of the database: the platform's data folder, or a URL."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aggregator.secret_sources.deferred_url import DeferredUrl
from aggregator.storage.errors import StorageError

FILE: Final = "aggregator.db"
SQLITE: Final = "sqlite+aiosqlite:///"
# A drive after a slash too many, which the form for POSIX has.
_DRIVE: Final = re.compile(r"(sqlite(?:\+aiosqlite)?:///)/(?=[A-Za-z]:[/\\])")
# URLs as users write them, without a driver.
_SHORT: Final = {"sqlite:///": SQLITE, "postgresql://": "postgresql+asyncpg://", "postgres://": "postgresql+asyncpg://"}


def default_url(environ: Mapping[str, str]) -> str:
    """Return the SQLite file in the platform's folder for data."""
    return f"{SQLITE}{data_folder(environ) / 'aggregator' / FILE}"


def base_path(storage: str | None, environ: Mapping[str, str]) -> Path:
    """Return the path that files beside the database are named after.

    For a database that is no file, it is in the data folder; without a database it is never used.

    Raises:
        StorageError: there is no data folder.
    """
    if storage is None:
        return Path(FILE)
    return sqlite_path(full_url(storage)) or data_folder(environ) / "aggregator" / FILE


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which programs of this platform keep their data.

    Raises:
        StorageError: this user has no home, so that the folder would be one in the working folder.
    """
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        given = environ.get("XDG_DATA_HOME", "")
        folder = Path(given) if os.path.isabs(given) else home / ".local" / "share"
    if not os.path.isabs(folder):
        raise StorageError("There is no home folder to keep data in: set HOME, or `storage` in the configuration.")
    return folder


def full_url(url: str, *, windows: bool = sys.platform == "win32") -> str:
    r"""Return the URL with the asynchronous driver that we use.

    On Windows a path with a drive has three slashes or four before it: `sqlite:///C:/data/a.db`; a share is written
    with backslashes, `sqlite:///\\server\share\a.db`, or as a path on POSIX is.
    """
    if windows and (found := _DRIVE.match(url)):
        url = found[1] + url[found.end(1) + 1 :]
    for short, full in _SHORT.items():
        if url.startswith(short):
            whole = full + url.removeprefix(short)
            return DeferredUrl(whole, url.password) if isinstance(url, DeferredUrl) else whole
    return url


def sqlite_path(url: str) -> Path | None:
    """Return the absolute path of the file a full SQLite URL names; None for other databases.

    Raises:
        StorageError: it names no file.
    """
    if not url.startswith("sqlite"):
        return None
    path = url.removeprefix(SQLITE)
    if path == url or not path or path == ":memory:" or "?" in path or "\0" in path:
        raise StorageError(
            f"The storage URL must name a file and no options, as in {SQLITE}/var/lib/aggregator/{FILE} "
            f"(an absolute path, with four slashes) or {SQLITE}{FILE}."
        )
    return Path(os.path.abspath(os.path.expanduser(path)))
