"""Progress of one request on its way to the host: under the host's own token, rising, and at a bounded rate.

A few reports pass at once; later ones are spaced, and only the last one in between is kept.
"""

import asyncio
from functools import partial
from typing import Any, Final

from aggregator.gateway.ask.upstream_caller import RequestCaller

# Reports a second, in the long run and at once.
RATE: Final = 20.0
BURST: Final = 20.0


class Progress:
    """Takes the params of each report. Call `flush` before the result, or `drop` without one."""

    __slots__ = ("_best", "_caller", "_credit", "_held", "_since", "_timer")

    def __init__(self, caller: RequestCaller) -> None:
        self._caller = caller
        self._best: float | None = caller.reported
        self._credit = BURST
        self._since = 0.0
        self._held: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, params: dict[str, Any]) -> None:
        done = params.get("progress")
        # It must rise with each report (S/basic/patterns/progress).
        if (
            isinstance(done, bool)
            or not isinstance(done, int | float)
            or (self._best is not None and done <= self._best)
        ):
            return
        self._best = done
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._credit = min(BURST, self._credit + (now - self._since) * RATE)
        self._since = now
        if self._timer is not None:
            self._held = params
        elif self._credit >= 1.0:
            self._send(params)
        else:
            self._held = params
            self._timer = loop.call_later((1.0 - self._credit) / RATE, self._due)

    def flush(self) -> None:
        """Send the report that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None:
            self._send(self._held)

    def drop(self) -> None:
        """Send no more reports."""
        self._held = None
        self.flush()

    def _due(self) -> None:
        self._timer = None
        self._since, self._credit = asyncio.get_running_loop().time(), 1.0
        self.flush()

    def _send(self, params: dict[str, Any]) -> None:
        self._held = None
        self._credit -= 1.0
        questions, pass_on = self._caller.questions, partial(self._pass_on, params)
        if "message" in params or questions.holds:
            questions.say(pass_on)
        else:
            pass_on()

    def _pass_on(self, params: dict[str, Any]) -> None:
        channel, token = self._caller.channel, self._caller.token
        if channel is not None and token is not None:
            channel.notify("notifications/progress", {**params, "progressToken": token})
