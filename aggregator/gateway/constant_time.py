"""How long it takes to answer that there is no such thing: the same whether or not a policy hides one.

The work for something hidden and for something absent differs by tens of microseconds, which can be measured over many
requests. So neither is answered before both are surely done.
"""

import asyncio
from typing import Final

# Many times what either takes, and nothing to somebody who wrote a wrong name.
EVEN: Final = 0.005


async def evenly(began: float) -> None:
    """Wait until `EVEN` seconds after `began`, by the clock of the loop, are over."""
    await asyncio.sleep(max(0.0, began + EVEN - asyncio.get_running_loop().time()))
