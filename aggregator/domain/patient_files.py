"""Files moved and removed while other processes read them, and paths that mean one file.

Windows refuses to replace or remove a file that another process has open, such as an editor, a scanner for viruses, or
a host that reads its settings at this moment. That ends within moments, so it is tried again, for a bounded time.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

Result = TypeVar("Result")

ON_WINDOWS: Final = sys.platform == "win32"
PATIENCE: Final = 3.0
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.25
# From this length on, Windows takes a path only with the prefix, unless an administrator has switched that off.
_LONG: Final = 240


def patiently(act: Callable[[], Result], *, windows: bool = ON_WINDOWS) -> Result:
    """Return the result of an act on files; on Windows it is tried again for three seconds if it is not permitted."""
    until, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while True:
        try:
            return act()
        except PermissionError:
            if not windows or time.monotonic() + pause > until:
                raise
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def move_over(source: str | Path, target: str | Path) -> None:
    """Put a file in the place of another at once. Raises OSError."""
    patiently(lambda: os.replace(source, target))


def same_path(one: str | Path, other: str | Path) -> bool:
    """Tell whether two paths lead to one file, or would: macOS and Windows take either case of a letter."""
    try:
        if os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other)):
            return True
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def long_path(path: str, below: int = 0, *, windows: bool = ON_WINDOWS) -> str:
    r"""Return an absolute path in the form that Windows takes at any length: `\\?\C:\...`, `\\?\UNC\server\...`.

    `below` is the length of what will be added to it. A path that stays short is returned as it is.
    """
    if not windows or len(path) + below < _LONG or path.startswith(("\\\\?\\", "\\\\.\\")):
        return path
    whole = path.replace("/", "\\")
    return f"\\\\?\\UNC\\{whole[2:]}" if whole.startswith("\\\\") else f"\\\\?\\{whole}"
