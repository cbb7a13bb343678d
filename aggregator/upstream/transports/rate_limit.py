"""How fast an upstream may say what nobody asked for. Beyond that it is left unread for a while: nothing is lost."""

import asyncio
from typing import Final

from aggregator.domain.bounds.token_bucket import TokenBucket

# Messages a second in the long run, and at once; a large one counts as many.
RATE: Final = 1_000.0
BURST: Final = 2_000.0
_MESSAGE: Final = 4096
# Lines that are no message of their own are taken apart all the same: so many count as one message.
_LINES: Final = 32


class InboundRateLimit:
    """Of one connection."""

    __slots__ = ("_bucket", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bucket = TokenBucket(RATE, BURST)

    def charge(self, size: int) -> float:
        """A message of so many bytes came; for how many seconds no more should be read."""
        return self._bucket.charge(1 + size / _MESSAGE, self._loop.time())

    def charge_lines(self, lines: int) -> float:
        """So many lines came, whether they make a message or not; for how many seconds no more should be read."""
        return self._bucket.charge(lines / _LINES, self._loop.time())
