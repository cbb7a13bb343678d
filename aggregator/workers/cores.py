"""The number of cores that this process may use."""

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# The kernel's limit for a container: microseconds of each period, or `max`.
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def cores(quota: Path = _QUOTA) -> int:
    """Return the number of cores for this process: its affinity, and at most the quota of its container."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        given, period = quota.read_text(encoding="ascii").split()
        if given != "max":
            found = min(found, math.ceil(int(given) / int(period)))
    return max(1, found)
