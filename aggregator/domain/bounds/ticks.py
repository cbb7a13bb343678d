"""The waits between two looks at what gives no event, such as files that another program writes.

An idle process wakes for its looks alone, and a laptop pays for each time. Looks of one period fall on the same moments
of the event loop's clock, so they wake the process together.
"""

import asyncio
from typing import Final

# The part of a period under which a wait is lengthened by a period, since timers of some event loops fire early.
_SHORT: Final = 0.1


def until_next(period: float) -> float:
    """Return the seconds until the running event loop's clock is at a multiple of `period`: 0.1 to 1.1 periods."""
    wait = period - asyncio.get_running_loop().time() % period
    return wait if wait >= _SHORT * period else wait + period
