"""The state of one upstream: moved by the table, told in one line of the log, waited for by whoever needs it."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Final

from aggregator.config.durations import format_duration
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.upstream.lifecycle.states import SHOWN, SHOWN_IF_KNOWN, Event, State, StateAndReason, after

log = logging.getLogger(__name__)

# What is kept of a reason, which may be an upstream's own words.
_LONGEST: Final = 2_000
_SOON: Final = "try again in a moment"
_ADVICE: Final[dict[State, str]] = {
    "starting": _SOON,
    "ready": _SOON,
    "reconnecting": _SOON,
    "unavailable": "use another tool, or try again once it is back",
    "stopped": _SOON,
}


class UpstreamState:
    """`known`: there is a list of what it had. `tried`: it has come up, failed or been held back once.

    `changed` is called after each move, `discreet` takes secrets out of what is told.
    """

    def __init__(
        self,
        server: str,
        condition: StateAndReason,
        grace: Callable[[], float],
        changed: Callable[[], None],
        discreet: Callable[[str], str],
    ) -> None:
        self.condition = condition
        self.known = False
        self.over = False
        self.tried = condition.state != "starting"
        self._server = server
        self._grace = grace
        self._changed = changed
        self._discreet = discreet
        self._moved = asyncio.Event()
        self._giving_up: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Life {self._server} {self.condition}>"

    @property
    def state(self) -> State:
        """Where it is in the table."""
        return self.condition.state

    @property
    def asleep(self) -> bool:
        """Whether it is stopped, and a call would start it."""
        return self.state == "stopped" and not self.over

    @property
    def shown(self) -> bool:
        """Whether its tools are listed and callable."""
        return self.state in SHOWN or (self.known and not self.over and self.state in SHOWN_IF_KNOWN)

    def move(self, event: Event, reason: str = "", pause: float | None = None) -> None:
        """What happened, why, and in how many seconds the next attempt is made.

        Raises:
            ValueError: that cannot happen now.
        """
        now, before = time.time(), self.condition
        state = after(before.state, event)
        # Cut once more behind that: in what was cut first, half a secret is not known.
        reason = self._discreet(reason[: 2 * _LONGEST])[:_LONGEST]
        reason = reason.removeprefix(f"{self._server}: ").removeprefix(f"{self._server} ").rstrip(".")
        next_try = now + pause if pause is not None else None
        if state == before.state:
            self.condition = StateAndReason(state, reason, before.since, next_try)
            if reason and reason != before.reason:
                log.info("server %s is still %s: %s", self._server, state, self.condition.told(now))
            return
        self.condition = StateAndReason(state, reason, now, next_try)
        self.tried = True
        self.known |= state == "ready"
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if state == "reconnecting":
            self._giving_up = asyncio.get_running_loop().call_later(self._grace(), self._give_up)
        self._tell(now)
        self._moved.set()
        self._moved = asyncio.Event()
        self._changed()

    def away(self) -> UpstreamUnavailable:
        """Why it cannot be asked anything now, and what to do."""
        now, why = self.condition, self.condition.told(time.time())
        said = f"{self._server} is {now.state}" + (f": {why}" if why else "")
        make = UpstreamUnavailable.for_good if now.state == "disabled" else UpstreamUnavailable
        error = make(self._server, f"{said.rstrip('.')}.", state=now.state, since=now.since)
        if now.state in _ADVICE:
            error.advice = f"Nothing was sent to it; {_ADVICE[now.state]}."
        if now.next_try is not None:
            error.details["retry_after"] = max(1, math.ceil(now.next_try - time.time()))
        return error

    def trying(self) -> None:
        """The next attempt is being made."""
        now = self.condition
        self.condition = StateAndReason(now.state, now.reason, now.since)

    def end(self) -> None:
        """Nothing happens to it any more."""
        self.over = True
        self.move("stop")

    def wake(self) -> None:
        """Somebody needs it."""
        if self.asleep:
            self.move("wake")

    async def moved(self) -> None:
        """Wait for the next move."""
        await self._moved.wait()

    def _give_up(self) -> None:
        now = self.condition
        pause = max(0.0, now.next_try - time.time()) if now.next_try is not None else None
        self.move("gave_up", now.reason, pause)

    def _tell(self, now: float) -> None:
        state, why = self.state, self.condition.told(now)
        if state == "reconnecting":
            why += f"; its tools stay listed for {format_duration(self._grace())}"
        elif state == "unavailable":
            why += "; its tools are not listed until it is back"
        level = logging.WARNING if state in ("reconnecting", "unavailable") else logging.INFO
        log.log(level, "server %s is %s%s", self._server, state, f": {why}" if why else "")
