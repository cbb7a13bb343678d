"""The course of one upstream: held back at first, connected, tried again after setbacks, asleep until it is needed."""

import asyncio
from collections.abc import Awaitable, Callable
from random import SystemRandom

from aggregator.config.model import ServerConfig
from aggregator.upstream.lifecycle import idle as rest
from aggregator.upstream.lifecycle.backoff import Attempts
from aggregator.upstream.lifecycle.failures import Failure
from aggregator.upstream.lifecycle.idle import IdleStop
from aggregator.upstream.lifecycle.state import UpstreamState


class ReconnectLoop:
    """`once` lives one connection from start to end and says why it ended, or None if it came to rest; `close` closes
    what else belongs to it."""

    def __init__(
        self,
        config: Callable[[], ServerConfig],
        life: UpstreamState,
        rest: IdleStop,
        once: Callable[[], Awaitable[Failure | None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._config = config
        self._life = life
        self._rest = rest
        self._once = once
        self._close = close

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        own_task, life = asyncio.current_task(), self._life
        tries = Attempts()
        try:
            if self._config().start != "eager":
                await self._hold_back()
            while True:
                while life.asleep:
                    await life.moved()
                life.trying()
                end = await self._once()
                if own_task is not None and own_task.cancelling():
                    # A library lost the cancellation on its way here.
                    raise asyncio.CancelledError
                if end is None or life.asleep:
                    tries = Attempts()
                    await self._close()
                else:
                    tries = tries.after(end)
                    await asyncio.sleep(self._set_back(end, tries))
        finally:
            await self._close()
            life.end()

    async def _hold_back(self) -> None:
        """Until it is needed, or its time has come (`start`)."""
        life = self._life
        await self._rest.known()
        if self._rest.needed:
            return
        if self._config().start == "on_call":
            if life.known:
                life.move("rest", self._rest.told())
            else:
                self._rest.learn()
            return
        life.move("rest", "it starts in a moment, or with its first call")
        try:
            async with asyncio.timeout(rest.lazy(SystemRandom().random())):
                while life.asleep:
                    await life.moved()
        except TimeoutError:
            life.wake()

    def _set_back(self, end: Failure, tries: Attempts) -> float:
        """Take note of an attempt that failed or a connection that ended; the seconds until the next."""
        life, reason = self._life, tries.told(end)
        pause = tries.pause(end, SystemRandom().random())
        life.move("lost" if life.state == "ready" else "failed", reason, pause)
        if end.lasting and life.state == "reconnecting":
            life.move("gave_up", reason, pause)
        return pause
