"""The end of the program, as hosts see it: what is under way is answered, and what comes then is told to come back.

Law: a request is refused before anything of it is sent, or it is under way; a call is on record in either case.
"""

import asyncio
import math
from types import TracebackType
from typing import Any, Final

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import ShuttingDown

# What anybody is told to wait at most, in seconds.
_LONGEST: Final = 30


class Drain:
    """Each request is one `with` of this while it is being answered. `begun`: nothing new is taken any more."""

    def __init__(self) -> None:
        self.begun = False
        self._under_way = 0
        self._until = 0.0
        self._quiet = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Closing {'begun' if self.begun else 'not begun'}, {self._under_way} under way>"

    def __len__(self) -> int:
        return self._under_way

    def __enter__(self) -> None:
        self._under_way += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way -= 1
        if self.begun and not self._under_way:
            self._quiet.set()

    def begin(self, limit: float) -> None:
        """From now on everything new is refused; within about `limit` seconds the program ends."""
        if not self.begun:
            self.begun, self._until = True, asyncio.get_running_loop().time() + limit

    @property
    def retry_after(self) -> int:
        """In how many seconds somebody may be here again: most often long before the last call has to end."""
        left = self._until - asyncio.get_running_loop().time()
        return min(max(1, math.ceil(left)), _LONGEST)

    def refusal(self) -> ShuttingDown:
        """What is answered to whatever is new."""
        return ShuttingDown(self.retry_after)

    async def refuse(self, record: CallRecord) -> dict[str, Any]:
        """The same, for a call: the way that it travels, which ends here."""
        raise self.refusal()

    async def quiet(self, limit: float) -> bool:
        """Wait until nothing is under way, at most `limit` seconds; whether nothing is."""
        try:
            async with asyncio.timeout(limit):
                while self._under_way:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            return False
        return True
