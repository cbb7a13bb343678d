"""The state of one upstream: moved by the table of `states`, logged once for each transition, awaited by callers."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Final

from aggregator.config.durations import format_duration
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.reasons import SAID_AT_MOST, said_in
from aggregator.redaction.beginning import RedactText, beginning
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.lifecycle.states import LISTED, LISTED_IF_KNOWN, Event, State, StateAndReason, next_state

log = logging.getLogger(__name__)

# Characters that are kept of a reason.
_REASON_LIMIT: Final = 2_000
_SOON: Final = "try again in a moment"
_ADVICE: Final[dict[State, str]] = {
    "starting": _SOON,
    "ready": _SOON,
    "reconnecting": _SOON,
    "unavailable": "use another tool, or try again once it is back",
    "stopped": _SOON,
}


# The function that is called after something that hosts can see of an upstream has changed.
OnChange = Callable[[], None]


class UpstreamState:
    """The state of one upstream. Law: only `reconnect_loop` calls the methods that change it.

    current: the state with its reason and times.
    known: a list of its tools is there, from this connection or an earlier one.
    tried: it has been connected, has failed or was held back at least once.
    closed: the upstream has ended; no event follows.
    """

    def __init__(self, config: CurrentConfig, current: StateAndReason, on_change: OnChange, redact: RedactText) -> None:
        self.current = current
        self.known = False
        self.closed = False
        self.tried = current.state != "starting"
        self._config = config
        # The clock of times and the one that cannot be set, at the last change.
        self._read_at = current.since, time.monotonic()
        self._on_change = on_change
        self._redact = redact
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<UpstreamState {self._config.value.id} {self.current}>"

    # -- read by everything

    @property
    def state(self) -> State:
        """The state of the table that the upstream is in."""
        return self.current.state

    @property
    def startable(self) -> bool:
        """True if the upstream is stopped and a call would start it."""
        return self.state == "stopped" and not self.closed

    @property
    def listed(self) -> bool:
        """True if the tools of the upstream are listed, whether or not it can be reached."""
        return self.state in LISTED or (self.known and not self.closed and self.state in LISTED_IF_KNOWN)

    async def changed(self) -> None:
        """Wait for the next transition to another state."""
        await self._changed.wait()

    def unavailable(self) -> UpstreamUnavailable:
        """Return the error for a call that cannot be sent now: the state, the reason, and advice."""
        current, why = self.current, self.current.text(self.now())
        server = self._config.value.id
        message = f"{server} is {current.state}" + (f": {why}" if why else "")
        make = UpstreamUnavailable.for_good if current.state == "disabled" else UpstreamUnavailable
        error = make(server, f"{message.rstrip('.')}.", state=current.state, since=current.since)
        if current.state in _ADVICE:
            error.advice = f"Nothing was sent to it; {_ADVICE[current.state]}."
        if current.next_try is not None:
            error.details["retry_after"] = max(1, math.ceil(current.next_try - self.now()))
        return error

    def now(self) -> float:
        """Return the time, in seconds since 1970, by the clock as it was at the last change, though it was set since:
        `next_try` is no further away than the pause is.
        """
        at, steady = self._read_at
        return at + time.monotonic() - steady

    def _read_clock(self) -> float:
        self._read_at = time.time(), time.monotonic()
        return self._read_at[0]

    # -- changed by the reconnect loop

    def move(self, event: Event, reason: str = "", pause: float | None = None) -> None:
        """Take the transition that the event leads to, and log it.

        reason: why the event happened; a `Reason` has the words of the server too.
        pause: seconds until the next attempt to connect, if one is scheduled.

        Raises:
            ValueError: the event cannot happen in this state.
        """
        now, before = self._read_clock(), self.current
        state = next_state(before.state, event)
        if state == before.state:
            self.schedule(reason, pause)
            return
        next_try = now + pause if pause is not None else None
        self.current = StateAndReason(state, self._clean(reason), now, next_try, self._said(reason))
        self.tried = True
        self.known |= state == "ready"
        self._log(now)
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_change()

    def schedule(self, reason: str, pause: float | None) -> None:
        """Note the time of the next attempt to connect, and the current reason; the state stays."""
        now, before = self._read_clock(), self.current
        next_try = now + pause if pause is not None else None
        current = self.current = StateAndReason(
            before.state, self._clean(reason), before.since, next_try, self._said(reason)
        )
        if current.reason and current.operator_text != before.operator_text:
            text = current.text_for_operator(now)
            log.info("server %s is still %s: %s", self._config.value.id, before.state, text)

    def attempt(self) -> None:
        """Note that the scheduled attempt to connect is being made."""
        before = self.current
        self.current = StateAndReason(before.state, before.reason, before.since, said=before.said)

    def close(self) -> None:
        """End the upstream: no event follows. May be called twice."""
        self.closed = True
        self.move("stop")

    def _clean(self, reason: str) -> str:
        """Return a reason without secrets, bounded, without the name of the server and without a full stop."""
        reason = beginning(reason, self._redact, _REASON_LIMIT)
        server = self._config.value.id
        return reason.removeprefix(f"{server}: ").removeprefix(f"{server} ").rstrip(".")

    def _said(self, reason: str) -> str:
        """Return the words of the server that came with a reason, without secrets."""
        return beginning(said_in(reason), self._redact, SAID_AT_MOST)

    def _log(self, now: float) -> None:
        state, why = self.state, self.current.text_for_operator(now)
        if state == "reconnecting":
            why += f"; calls wait for it, for {format_duration(self._config.value.limits.grace)} at most"
        elif state == "unavailable":
            why += "; its tools stay listed" if self.listed else "; its tools are not listed until it is back"
        level = logging.WARNING if state in ("reconnecting", "unavailable") else logging.INFO
        log.log(level, "server %s is %s%s", self._config.value.id, state, f": {why}" if why else "")
