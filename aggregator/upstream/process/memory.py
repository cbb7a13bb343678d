"""The memory that process groups hold, read from `/proc`. Memory that is reserved and never used does not count.

A limit on the address space (RLIMIT_AS, RLIMIT_DATA) would end node and the JVM, which reserve far more than they use,
in the middle of a start. So the memory in use is measured, and a group over its limit is ended, with a reason.
"""

import asyncio
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

# Seconds between two measurements of a group with a limit, and for which one reading of `/proc` serves all groups.
INTERVAL: Final = 1.0
_GOOD_FOR: Final = 0.5

_PROC: Final = Path("/proc")


class MemoryReader:
    """A meter of the memory of process groups; one reading of `/proc` serves all groups that are measured then."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._by_group: dict[int, int] = {}
        self._at = float("-inf")

    async def measure(self, group: int) -> int:
        """Return the bytes of memory that the processes of a group do not share with others."""
        loop = asyncio.get_running_loop()
        async with self._reading:
            if loop.time() - self._at > _GOOD_FOR:
                self._by_group = await asyncio.to_thread(_by_group)
                self._at = loop.time()
        return self._by_group.get(group, 0)

    async def wait_exceeded(self, group: int, limit: int) -> int:
        """Wait until a group holds more than `limit` bytes, and return how many it holds."""
        while True:
            held = await self.measure(group)
            if held > limit:
                return held
            await asyncio.sleep(INTERVAL)


def can_measure() -> bool:
    """Return True if this platform tells the memory of processes."""
    return (_PROC / "self" / "statm").exists()


def _by_group() -> dict[int, int]:
    if sys.platform == "win32":
        raise NotImplementedError
    page = os.sysconf("SC_PAGE_SIZE")
    by_group: dict[int, int] = defaultdict(int)
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            # The fields after the name, which may hold any characters: state, parent, group.
            stat = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
            _, resident, shared, *_ = (_PROC / name / "statm").read_bytes().split()
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        by_group[int(stat[2])] += (int(resident) - int(shared)) * page
    return by_group
