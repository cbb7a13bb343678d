"""A small process that outlives the aggregator by a moment and ends what it left behind.

Run as `python -I -S warden.py`. Reads `+PGID` and `-PGID` lines on stdin; when stdin ends, however the aggregator
died (`kill -9` included), every process group still listed is terminated, then killed.
"""

import os
import signal
import sys
import time

GRACE = 1.0


def main() -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        group = int(line[1:])
        if line.startswith(b"+"):
            groups.add(group)
        else:
            groups.discard(group)
    if groups and _signal_all(groups, signal.SIGTERM):
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and _signal_all(groups, 0):
            time.sleep(0.02)
        _signal_all(groups, signal.SIGKILL)


def _signal_all(groups: set[int], number: int) -> bool:
    """Whether any group still had a member."""
    alive = False
    for group in groups:
        try:
            os.killpg(group, number)
            alive = True
        except (ProcessLookupError, PermissionError):
            continue
    return alive


if __name__ == "__main__":
    main()
