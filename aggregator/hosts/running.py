"""Signs in a program's own folder that it runs now."""

import os
from pathlib import Path

from aggregator.hosts.model import System
from aggregator.hosts.parse import is_there


def single_instance(system: System, folder: Path) -> Path | None:
    """Return the mark that a running program made of Chromium (Electron) keeps in its folder; None if it does not run.

    On Windows the file is gone when the program ends, however it ends. Elsewhere it is a link to `HOST-PID`, which a
    crash leaves behind. Source: chrome/browser/process_singleton_win.cc and process_singleton_posix.cc of Chromium.
    """
    if system == "windows":
        mark = folder / "lockfile"
        return mark if is_there(mark) else None
    mark = folder / "SingletonLock"
    try:
        pid = int(os.readlink(mark).rpartition("-")[2])
    except (OSError, ValueError):
        return None
    return mark if pid > 0 and _runs(pid) else None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
