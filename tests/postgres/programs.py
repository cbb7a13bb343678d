"""The programs of PostgreSQL on this machine, the user who may run them, and the words for a machine without them."""

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

SERVER: Final = "postgres"
NEEDED: Final = (SERVER, "initdb", "psql", "pg_basebackup")
# Debian has only the client programs on PATH.
FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
NOT_RUN: Final = (
    f"nothing was tried on PostgreSQL: {', '.join(NEEDED)} are not together in a folder of PATH, nor in {FOLDERS[0]}, "
    "nor in the folder that $POSTGRES_PROGRAMS names; Debian's package `postgresql` has them"
)
# The server refuses to run as root: it runs as the first of these then.
_USERS: Final = ("postgres", "nobody")
_PR_SET_PDEATHSIG: Final = 1


def find_programs(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder with the programs, None where there is none: `$POSTGRES_PROGRAMS`, else the newest version."""
    named = environ.get("POSTGRES_PROGRAMS")
    servers = [f"{named}/{SERVER}"] if named else _servers(environ.get("PATH", os.defpath))
    found = {Path(os.path.realpath(server)).parent for server in servers}
    whole = [folder for folder in found if all((folder / name).is_file() for name in NEEDED)]
    return max(whole, key=_version, default=None)


def _servers(path: str) -> list[str]:
    on_path = shutil.which(SERVER, path=path)
    installed = [str(file) for pattern in FOLDERS for file in Path("/").glob(f"{pattern[1:]}/{SERVER}")]
    return [on_path, *installed] if on_path is not None else installed


def _version(folder: Path) -> tuple[int, ...]:
    """Return the first number in the names of a folder, which is the version in each of the places."""
    numbers = ("".join(sign for sign in name if sign.isdigit()) for name in reversed(folder.parts))
    return tuple(int(number) for number in numbers if number)[:1]


def server_user() -> tuple[int, int] | None:
    """Return the ids of user and group that the server is to run with; None where it may run as we do."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    import pwd

    for name in _USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise LookupError(f"PostgreSQL does not run as root, and there is none of the users {', '.join(_USERS)}")


def ended_with_us() -> Callable[[], None] | None:
    """Return what a child does before its program starts, so that it ends when we are killed; on Linux only."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)

    return ask
