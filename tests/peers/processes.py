"""Processes, as the system shows them."""

import os
from contextlib import suppress
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether a process runs and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.parent.parent.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        # It ended between the look at the file and its reading.
        return False


def child_commands() -> dict[int, str]:
    """Return the command lines of the children that the main thread started, by process id; Linux only."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    found = {}
    for pid in path.read_text().split() if path.exists() else ():
        with suppress(FileNotFoundError, ProcessLookupError):
            found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found
