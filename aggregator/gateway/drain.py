"""The drain before the process ends: running requests are answered, new ones are refused with the time to try again.

Law: a request is refused before anything of it is sent, or it runs; a call is recorded in either case.
"""

import asyncio
import math
from types import TracebackType
from typing import Final

from aggregator.domain.errors import ShuttingDown

# The longest `Retry-After` that a host is sent, in seconds.
_LONGEST: Final = 30


class Drain:
    """The count of running requests; each is inside a `with` of this object.

    `leaving`: the process is about to end and still serves everything. `started`: new requests are refused.
    """

    def __init__(self) -> None:
        self.started = False
        self.leaving = False
        self._running = 0
        self._until = 0.0
        self._quiet = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Drain {'started' if self.started else 'not started'}, {self._running} under way>"

    def __len__(self) -> int:
        return self._running

    def __enter__(self) -> None:
        self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin(self) -> None:
        """Count one running request more."""
        self._running += 1

    def end(self) -> None:
        """Count one running request less."""
        self._running -= 1
        if self.started and not self._running:
            self._quiet.set()

    def start(self, limit: float) -> None:
        """Refuse new requests from now on; the process ends within about `limit` seconds."""
        if not self.started:
            self.started, self._until = True, asyncio.get_running_loop().time() + limit

    @property
    def retry_after(self) -> int:
        """Seconds after which a restarted process may answer: usually long before the last call has to end."""
        left = self._until - asyncio.get_running_loop().time()
        return min(max(1, math.ceil(left)), _LONGEST)

    def refusal(self) -> ShuttingDown:
        """Return the error that new requests are answered with."""
        return ShuttingDown(self.retry_after)

    async def wait_idle(self, limit: float) -> bool:
        """Wait at most `limit` seconds for the running requests to end; return whether all did."""
        try:
            async with asyncio.timeout(limit):
                while self._running:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            return False
        return True
