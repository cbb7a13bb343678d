"""The time that an upstream runs: from when on (`start` in its config), and until when (`limits.idle_timeout`)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from aggregator.config.durations import format_duration
from aggregator.upstream.current_config import CurrentConfig

# Servers with `start: lazy` are started within these seconds after the others, spread out.
LAZY_FROM: Final = 2.0
LAZY_TO: Final = 10.0
# Seconds to wait for the stored tools of a server; after that it counts as one of which none are stored.
RESTORE_WAIT: Final = 2.0
# The same for a server that is started at once: reading takes less time than starting programs beside it.
EAGER_WAIT: Final = 0.5
# Seconds to the next look at a server that runs only until it has listed its tools, and is in use nevertheless.
_AGAIN: Final = 1.0


# The function that returns True while the upstream is needed for more than the requests that `use` counts.
InUse = Callable[[], bool]


class IdleStop:
    """The use of one upstream: `use` counts it, and `wait_idle` waits until there has been none for long enough.

    uses: the number of users now.
    needed: there has been a user since the start of the aggregator.

    Law: between the end of `wait_idle` and the end of the connection nothing may be awaited, so that no call is lost.
    """

    def __init__(self, config: CurrentConfig) -> None:
        self._config = config
        self.uses = 0
        self.needed = False
        self._use = _Use(self)
        self._used = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alive_until = 0.0
        self._once_listed = False
        self._reconfigured = asyncio.Event()
        self._unused = asyncio.Event()
        self._restored = asyncio.Event()

    @property
    def _timeout(self) -> float | None:
        return self._config.value.limits.idle_timeout

    def use(self) -> AbstractContextManager[None]:
        """Return a context manager that counts a user, as often as it is entered."""
        return self._use

    def begin_use(self) -> None:
        """Count one user more."""
        self.needed, self._once_listed = True, False
        self.uses += 1

    def end_use(self) -> None:
        """Count one user less."""
        self.uses -= 1
        self._used = self._now()
        if not self.uses:
            self._unused.set()

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    async def wait_unused(self, limit: float) -> bool:
        """Wait until there is no user, at most `limit` seconds; return True if there is none."""
        try:
            async with asyncio.timeout(limit):
                while self.uses:
                    self._unused.clear()
                    await self._unused.wait()
        except TimeoutError:
            return False
        return True

    def need(self) -> None:
        """Take note that the upstream is about to be used."""
        self.needed = True
        self._once_listed = False
        self._used = self._now()

    def keep_alive(self, seconds: float) -> None:
        """Let the upstream run for so long, with or without a user."""
        self._alive_until = max(self._alive_until, self._now() + seconds)

    def begin(self) -> None:
        """Restart the time without use: the upstream has just been connected."""
        self._used = self._now()

    def reconfigured(self) -> None:
        """Look at the configuration again: it may have another `limits.idle_timeout`."""
        self._reconfigured.set()

    def stop_once_listed(self) -> None:
        """Stop the upstream as soon as it has listed its tools, unless it is used meanwhile."""
        self._once_listed = True

    async def wait_idle(self, in_use: InUse) -> None:
        """Wait until the upstream has not been used for long enough."""
        while (left := self._left(in_use())) != 0:
            self._reconfigured.clear()
            try:
                async with asyncio.timeout(left):
                    await self._reconfigured.wait()
            except TimeoutError:
                pass

    def _left(self, in_use: bool) -> float | None:
        """Return the seconds until the next look; 0 if the upstream may stop now, None if it never may."""
        limit = 0.0 if self._once_listed else self._timeout
        if limit is not None and (self.uses or in_use):
            return limit or _AGAIN
        return max(0.0, max(self._used + limit, self._alive_until) - self._now()) if limit is not None else None

    def reason(self) -> str:
        """Return why the upstream is stopped, and when it is started again."""
        if self._once_listed or self._timeout is None:
            return "it starts with its first call"
        return f"it was not used for {format_duration(self._timeout)}; it starts with its next call"

    # -- at the start of the aggregator

    def restored(self) -> None:
        """Take note that the stored tools have been read, or that there are none."""
        self._restored.set()

    async def wait_restored(self, at_most: float = RESTORE_WAIT) -> None:
        """Wait for `restored`, at most so many seconds."""
        try:
            async with asyncio.timeout(at_most):
                await self._restored.wait()
        except TimeoutError:
            pass


class _Use:
    """Counts a user of an upstream for as long as the context lasts."""

    __slots__ = ("_idle",)

    def __init__(self, idle: IdleStop) -> None:
        self._idle = idle

    def __enter__(self) -> None:
        self._idle.begin_use()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._idle.end_use()


def lazy_delay(chance: float) -> float:
    """Return the seconds after which a `lazy` server starts by itself; `chance` is uniform in [0, 1)."""
    return LAZY_FROM + chance * (LAZY_TO - LAZY_FROM)
