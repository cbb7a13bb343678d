"""The circuit breaker of a connected upstream. This file decides; it awaits nothing and reads no clock.

| position | calls | what ends it |
| --- | --- | --- |
| `closed` | go through | `failures` requests in a row without an answer: `open` |
| `open` | are refused at once | the pause is over and a trial begins: `trying` |
| `trying` | are refused at once, but for the trial | its answer: `closed`; none: `open`, with a longer pause |

Law: a silent server may be dead, one that answers is not. A request without an answer counts only if no message at all
came while it ran; one answer, however bad, resets the count and closes the circuit. Requests that ran at the same time
count as one.
"""

from math import inf
from typing import Final, Literal

from aggregator.upstream.lifecycle import backoff

Position = Literal["closed", "open", "trying"]

# After a circuit has been closed for so long, the next pause is a short one again.
STABLE: Final = 60.0


class CircuitBreaker:
    """The circuit breaker of one connection.

    In the methods, `now` and `began` (when a request was sent) are of one monotonic clock, in seconds; `chance` is
    uniform in [0, 1).

    limit: failures that open the circuit.
    position: `closed`, `open` or `trying`.
    failures: counted since the last answer.
    trials: trials without an answer since the circuit opened.
    last_message: the time of the last message of the server.
    unsteady: the time of the last doubt: a failure, a trial, or a new connection.
    opened, retry: the time at which the circuit opened, and at which the next trial is due.
    """

    __slots__ = (
        "_closed",
        "_openings",
        "_trial",
        "failures",
        "last_message",
        "limit",
        "opened",
        "position",
        "retry",
        "trials",
        "unsteady",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._openings = 0
        self._closed = self._trial = -inf
        self.position: Position = "closed"
        self.failures = self.trials = 0
        self.last_message = self.unsteady = self.opened = self.retry = -inf

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self.position}, {self.failures} of {self.limit} failures>"

    def on_message(self, now: float) -> None:
        """Take note of a message that is no answer, such as progress or a changed list."""
        self.last_message = now
        if self.position == "closed":
            self.failures = 0

    def answer(self, now: float) -> bool:
        """Take note of an answer, an error included; return True if it closes the circuit."""
        self.last_message = now
        self.failures = 0
        if self.position == "closed":
            return False
        self.position = "closed"
        self._closed = self.unsteady = now
        return True

    def fail(self, began: float, now: float, chance: float) -> bool:
        """Take note of a request that will have no answer; return True if it opens a circuit that was closed."""
        if self.position == "trying" and began >= self._trial:
            if self.last_message <= began:
                self.trials += 1
            self._pause(now, chance)
            return False
        # A request that was sent before the last failure came adds nothing to that one.
        if self.position != "closed" or self.last_message > began or began < self.unsteady:
            return False
        self.failures += 1
        self.unsteady = now
        if self.failures < self.limit:
            return False
        if now - self._closed >= STABLE:
            self._openings = 0
        self.trials = 0
        self.opened = now
        self._pause(now, chance)
        return True

    def due(self, now: float) -> bool:
        """Return True if a trial may begin."""
        return self.position == "open" and now >= self.retry

    def begin_trial(self, now: float) -> None:
        """Make the next request the trial, once `due` allowed one."""
        self.position = "trying"
        self._trial = now

    def leave_trial(self, began: float) -> None:
        """Take back a trial that was cancelled before its end; another may begin at once."""
        if self.position == "trying" and began >= self._trial:
            self.position = "open"

    def reset(self, now: float) -> None:
        """Start over with a new connection."""
        self.position = "closed"
        self.failures = self.trials = 0
        self._closed = self.last_message = self.unsteady = now

    def _pause(self, now: float, chance: float) -> None:
        self._openings += 1
        self.position = "open"
        self.unsteady = now
        self.retry = now + backoff.delay(self._openings, chance)
