"""The machine that this program runs on, as paths of host files depend on it, and the variables that hosts hand on.

Programs that a desktop starts do not read the files of a shell, where version managers add their folders to PATH.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aggregator.hosts.model import HostProgram, Machine, System

# Given to servers by every host.
GIVEN: Final = frozenset(
    {"HOME", "USER", "LOGNAME", "PATH", "SHELL", "TERM", "LANG", "TMPDIR", "APPDATA", "LOCALAPPDATA", "TEMP"}
    | {"HOMEDRIVE", "HOMEPATH", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE"}
)
# Without what shells add: systemd's and launchd's defaults. On Windows, PATH is the same everywhere.
_PATHS: Final[Mapping[System, str]] = {
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin",
    "macos": "/usr/bin:/bin:/usr/sbin:/sbin",
}


def this_machine(folder: Path | None = None) -> Machine:
    """Return this machine; `folder` stands in for the working folder."""
    return Machine(_system(sys.platform), Path.home(), dict(os.environ), folder or Path.cwd())


def _system(platform: str) -> System:
    if platform == "win32":
        return "windows"
    return "macos" if platform == "darwin" else "linux"


def desktop_path(system: System, shell: str) -> str:
    """Return the `PATH` of a host that is started from the desktop; on Windows it is the same as a shell's."""
    return _PATHS.get(system, shell)


def host_environment(host: HostProgram, system: System, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program started by a host; `environ` are the shell's."""
    shell = environ.get("PATH", "")
    path = shell if host.shell_path else desktop_path(system, shell)
    kept = environ if host.all_variables else {name: environ[name] for name in GIVEN if name in environ}
    return {**kept, "PATH": path} if path else dict(kept)
