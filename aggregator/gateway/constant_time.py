"""A constant answer time for items not found, whether absent or hidden by the policy.

The work for a hidden item and for an absent one differs by tens of microseconds, which can be measured over many
requests. Both are therefore answered after a fixed time that exceeds either.
"""

import asyncio
from typing import Final

# In seconds: many times the cost of either look-up, and too short for a user to notice.
EVEN: Final = 0.005


async def evenly(began: float) -> None:
    """Wait until `EVEN` seconds after `began` (event loop time) have passed."""
    await asyncio.sleep(max(0.0, began + EVEN - asyncio.get_running_loop().time()))
