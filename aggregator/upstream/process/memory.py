"""How much memory process groups hold, read from `/proc`. What is reserved and never used does not count.

An address space limit (RLIMIT_AS, RLIMIT_DATA) would end node and the JVM, which reserve far more than they use, in the
middle of a start; so what is held is looked at, and who holds too much is ended, with a reason.
"""

import asyncio
import os
from collections import defaultdict
from pathlib import Path
from typing import Final

# How often one who has a limit is looked at, and for how long one reading of `/proc` is good for all.
INTERVAL: Final = 1.0
_GOOD_FOR: Final = 0.5

_PROC: Final = Path("/proc")


class MemoryReader:
    """Memory by process group; one reading serves everybody who asks at that time."""

    def __init__(self) -> None:
        self._weighing = asyncio.Lock()
        self._weights: dict[int, int] = {}
        self._at = float("-inf")

    async def weigh(self, group: int) -> int:
        """Bytes of memory that the processes of a group do not share with others."""
        loop = asyncio.get_running_loop()
        async with self._weighing:
            if loop.time() - self._at > _GOOD_FOR:
                self._weights = await asyncio.to_thread(_weights)
                self._at = loop.time()
        return self._weights.get(group, 0)

    async def outgrown(self, group: int, limit: int) -> int:
        """What a group holds, once that is more than `limit` bytes."""
        while True:
            held = await self.weigh(group)
            if held > limit:
                return held
            await asyncio.sleep(INTERVAL)


def can_weigh() -> bool:
    """Whether this platform says what processes hold."""
    return (_PROC / "self" / "statm").exists()


def _weights() -> dict[int, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    weights: dict[int, int] = defaultdict(int)
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            # Behind the name, which may hold anything: state, parent, group.
            stat = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
            _, resident, shared, *_ = (_PROC / name / "statm").read_bytes().split()
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        weights[int(stat[2])] += (int(resident) - int(shared)) * page
    return weights
