"""Processes, as the system shows them."""

import os
from collections.abc import Iterable
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


def children() -> set[int]:
    """Return the process ids of the children that the main thread started; Linux only."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in path.read_text().split()} if path.exists() else set()


def commands_of(pids: Iterable[int]) -> dict[int, str]:
    """Return the command lines of those processes that still run, by process id."""
    found = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def child_commands() -> dict[int, str]:
    """Return the command lines of the children that the main thread started, by process id; Linux only."""
    return commands_of(children())
