"""When one upstream runs at all: from when on (`start`), and until when (`idle_timeout`)."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aggregator.config.durations import format_duration
from aggregator.config.model import ServerConfig

# Servers with `start: lazy` come up within this time after the others, not all at once.
LAZY_FROM: Final = 2.0
LAZY_TO: Final = 10.0
# How long it may take to look up what a server had; after that it counts as one that nobody knows.
LOOK_UP_WAIT: Final = 2.0
# One that runs only to tell what it has, and is in use all the same, is looked at again after this.
_AGAIN: Final = 1.0


class IdleStop:
    """`use` counts who needs it, `idle` waits until nobody does. `needed`: somebody did, ever.

    Law: between the end of `idle` and the connection being taken away nothing may be awaited, so that no call is lost.
    """

    def __init__(self, server: Callable[[], ServerConfig]) -> None:
        self._server = server
        self.uses = 0
        self._used = 0.0
        self._until = 0.0
        self.needed = False
        self._only_to_learn = False
        self._amended = asyncio.Event()
        self._freed = asyncio.Event()
        self._looked_up = asyncio.Event()

    @property
    def _timeout(self) -> float | None:
        return self._server().idle_timeout

    @contextmanager
    def use(self) -> Iterator[None]:
        """It is needed inside."""
        self.need()
        self.uses += 1
        try:
            yield
        finally:
            self.uses -= 1
            self._used = _now()
            if not self.uses:
                self._freed.set()

    async def free(self, limit: float) -> bool:
        """Wait until nobody needs it, at most `limit` seconds; whether nobody does."""
        try:
            async with asyncio.timeout(limit):
                while self.uses:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return False
        return True

    def need(self) -> None:
        """Somebody is about to use it."""
        self.needed = True
        self._only_to_learn = False
        self._used = _now()

    def stay(self, seconds: float) -> None:
        """It is needed for so long, whoever uses it."""
        self._until = max(self._until, _now() + seconds)

    def begin(self) -> None:
        """It has just come up."""
        self._used = _now()

    def amended(self) -> None:
        """Its configuration may say something else by now."""
        self._amended.set()

    def learn(self) -> None:
        """It runs only until it has said what it has, unless somebody needs it meanwhile."""
        self._only_to_learn = True

    async def idle(self, wanted: Callable[[], bool]) -> None:
        """Wait until nobody has used it for long enough. `wanted`: whether it is, by others than `use` tells."""
        while (left := self._left(wanted())) != 0:
            self._amended.clear()
            try:
                async with asyncio.timeout(left):
                    await self._amended.wait()
            except TimeoutError:
                pass

    def _left(self, wanted: bool) -> float | None:
        """Seconds until it is worth looking again; none, if it may come to rest now, and None, if it never may."""
        limit = 0.0 if self._only_to_learn else self._timeout
        if limit is not None and (self.uses or wanted):
            return limit or _AGAIN
        return max(0.0, max(self._used + limit, self._until) - _now()) if limit is not None else None

    def told(self) -> str:
        """Why it came to rest."""
        if self._only_to_learn or self._timeout is None:
            return "it starts with its first call"
        return f"nobody used it for {format_duration(self._timeout)}; it starts with its next call"

    # -- at the very start

    def looked_up(self) -> None:
        """What it had is known by now, or nothing is."""
        self._looked_up.set()

    async def known(self) -> None:
        """Wait for that, for a moment."""
        try:
            async with asyncio.timeout(LOOK_UP_WAIT):
                await self._looked_up.wait()
        except TimeoutError:
            pass


def _now() -> float:
    return asyncio.get_running_loop().time()


def lazy(chance: float) -> float:
    """After how many seconds a `lazy` server starts by itself; `chance` is uniform in [0, 1)."""
    return LAZY_FROM + chance * (LAZY_TO - LAZY_FROM)
