"""The machine that this program runs on, as paths of host files depend on it."""

import os
import sys
from pathlib import Path

from aggregator.hosts.model import Machine, System


def this_machine(folder: Path | None = None) -> Machine:
    """Return this machine; `folder` stands in for the working folder."""
    return Machine(_system(sys.platform), Path.home(), dict(os.environ), folder or Path.cwd())


def _system(platform: str) -> System:
    if platform == "win32":
        return "windows"
    return "macos" if platform == "darwin" else "linux"
