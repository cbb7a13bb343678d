"""The reconnect loop of one upstream, and the owner of its state: held back at first, connected, tried again.

Law: only this module moves the state. Everything else reports what it noticed (`connected`, `lost`, `idle`, `start`,
`stop`), and the table of `states` says what follows. One connection, or one attempt to make one, ends in one event.
"""

import asyncio
from contextlib import suppress
from random import SystemRandom
from typing import Protocol

from aggregator.domain.reasons import Reason, for_operator, said_in
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.lifecycle.backoff import Attempts
from aggregator.upstream.lifecycle.failures import Failure
from aggregator.upstream.lifecycle.idle import EAGER_WAIT, IdleStop, lazy_delay
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.lifecycle.states import Event, event_of_failure
from aggregator.upstream.stderr_tail import StderrTail


class Connections(Protocol):
    """The connections of one upstream, as the loop runs them."""

    async def run_once(self) -> Failure | None:
        """Connect, wait for the end of the connection, and return why it ended, or why it failed.

        Reports `connected`, and as soon as the end shows `lost` or `idle`. Returns None after `idle`.
        """
        ...

    async def close_isolated(self) -> None:
        """Close the sessions beside the one that all callers share."""
        ...


class ReconnectLoop:
    """The loop that connects one upstream again and again, and the owner of its state.

    state: read by everything, moved here alone.
    reconnects: connections after the first.
    words: the last words of the server, to which each failure is added.
    """

    def __init__(
        self, config: CurrentConfig, state: UpstreamState, idle: IdleStop, words: StderrTail | None = None
    ) -> None:
        self.state = state
        self.words = words if words is not None else StderrTail()
        self.reconnects = 0
        self._config = config
        self._idle = idle
        self._attempts = Attempts()
        # True from the report that the current connection has ended to the beginning of the next attempt.
        self._end_reported = False
        self._grace_timer: asyncio.TimerHandle | None = None
        # Set when the next attempt is not to wait any longer.
        self._hurry = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ReconnectLoop {self.state!r}>"

    async def run(self, connections: Connections) -> None:
        """Connect, and connect again, until cancelled."""
        try:
            if self._config.value.start == "eager":
                await self._idle.wait_restored(EAGER_WAIT)
            else:
                await self._hold_back()
            while True:
                await self._started()
                match await self._run_once(connections):
                    case Failure() as failure:
                        await self._wait(self._set_back(failure))
                    case None:
                        self._attempts = Attempts()
                        await connections.close_isolated()
        finally:
            await connections.close_isolated()
            self.stop()

    # -- reported from elsewhere

    def connected(self) -> None:
        """Report that the upstream was reached and has listed its tools."""
        self.reconnects += self.state.state != "starting"
        self._move("connected")

    def lost(self, reason: str) -> None:
        """Report at once that the connection has ended: closing it may take a while."""
        if not self._end_reported:
            self._end_reported = True
            self._move(event_of_failure(self.state.state), reason)

    def idle(self) -> None:
        """Report that the upstream is not used, so that its connection is closed."""
        self._end_reported = True
        self._move("idle", self._idle.reason())

    def start(self) -> None:
        """Report that the upstream is needed; it is started if it is stopped."""
        if self.state.startable:
            self._move("start")

    def hurry(self) -> None:
        """Report that the missing part is there, which ends the pause before the next attempt."""
        self._hurry.set()

    def stop(self) -> None:
        """Report the end of the upstream. May be called twice."""
        self._cancel_grace()
        self.state.close()

    # -- the loop

    async def _started(self) -> None:
        while self.state.startable:
            await self.state.changed()

    async def _run_once(self, connections: Connections) -> Failure | None:
        task = asyncio.current_task()
        self._end_reported = False
        self._hurry.clear()
        self.state.attempt()
        end = await connections.run_once()
        if task is not None and task.cancelling():
            # A library swallowed the cancellation.
            raise asyncio.CancelledError
        return None if self.state.startable else end

    async def _wait(self, pause: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._hurry.wait()

    async def _hold_back(self) -> None:
        """Wait until the upstream is needed, or may start by itself (`start` in its config)."""
        await self._idle.wait_restored()
        if self._idle.needed:
            return
        if self._config.value.start == "on_call":
            if self.state.known:
                self._move("idle", self._idle.reason())
            else:
                self._idle.stop_once_listed()
            return
        self._move("idle", "it starts in a moment, or with its first call")
        try:
            async with asyncio.timeout(lazy_delay(SystemRandom().random())):
                await self._started()
        except TimeoutError:
            self.start()

    def _set_back(self, failure: Failure) -> float:
        """Record a failure, unless its event was reported before, and return the seconds until the next attempt."""
        self._attempts = self._attempts.after(failure)
        reason, pause = self._attempts.reason(failure), self._attempts.pause(failure, SystemRandom().random())
        self.words.add(for_operator(reason, said_in(reason)), "failure")
        if self._end_reported:
            self.state.schedule(reason, pause)
        else:
            self._move(event_of_failure(self.state.state, lasting=failure.lasting), reason, pause)
        return pause

    # -- the state

    def _move(self, event: Event, reason: str = "", pause: float | None = None) -> None:
        before = self.state.state
        self.state.move(event, reason, pause)
        if self.state.state != before:
            self._cancel_grace()
            if self.state.state == "reconnecting":
                loop = asyncio.get_running_loop()
                self._grace_timer = loop.call_later(self._config.value.limits.grace, self._give_up)

    def _give_up(self) -> None:
        current = self.state.current
        pause = max(0.0, current.next_try - self.state.now()) if current.next_try is not None else None
        self._move("gave_up", Reason(current.reason, current.said), pause)

    def _cancel_grace(self) -> None:
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None
