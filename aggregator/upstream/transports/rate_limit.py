"""The rate of messages that an upstream may send unasked. Beyond it, reading pauses for a while; nothing is lost."""

import asyncio
from typing import Final

from aggregator.domain.bounds.token_bucket import TokenBucket

# Messages a second in the long run, and in a burst; a large one counts as several.
RATE: Final = 1_000.0
BURST: Final = 2_000.0
_MESSAGE: Final = 4096
# Lines of events that make no message cost work too: so many count as one message.
_LINES: Final = 32


class InboundRateLimit:
    """The rate limit of one connection."""

    __slots__ = ("_bucket", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bucket = TokenBucket(RATE, BURST)

    def charge(self, size: int) -> float:
        """Charge a message of `size` bytes; return the seconds for which reading should pause."""
        return self._bucket.charge(1 + size / _MESSAGE, self._loop.time())

    def charge_lines(self, lines: int) -> float:
        """Charge lines, whether or not they make a message; return the seconds for which reading should pause."""
        return self._bucket.charge(lines / _LINES, self._loop.time())
