"""Processes, as the system shows them."""

import os
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
    except FileNotFoundError:
        return False
