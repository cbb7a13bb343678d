"""Whether an upstream that is connected is asked at all. This file decides; it awaits nothing and reads no clock.

| position | calls | what ends it |
| --- | --- | --- |
| `closed` | go through | `failures` requests in a row without an answer: `open` |
| `open` | are refused at once | the pause is over and a trial begins: `trying` |
| `trying` | are refused at once, but for the trial | its answer: `closed`; none: `open`, with a longer pause |

Law: what is silent may be dead, what answers is not. A request without an answer counts only if nothing at all was
heard while it ran, and one answer, however bad, takes back all that were counted and closes the circuit. Requests that
ran at the same time count as one.
"""

from math import inf
from typing import Final, Literal

from aggregator.upstream.lifecycle import backoff

Position = Literal["closed", "open", "trying"]

# Closed for so long, it was closed for good: the next pause is a short one again.
STABLE: Final = 60.0


class CircuitBreaker:
    """`limit` failures open it. Every `now` is of one clock that never goes back, in seconds; `chance` is uniform in
    [0, 1). A request `began` when it was sent.

    `failures` are those that count since the last answer, `trials` those that had none since it opened. `heard` is when
    there was the last sign of life. `unsteady` is when there was last any doubt: by a failure, a trial,
    another connection. `opened` and `retry` are when it opened, and when the next trial is due.
    """

    __slots__ = (
        "_closed",
        "_openings",
        "_trial",
        "failures",
        "heard",
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
        self.heard = self.unsteady = self.opened = self.retry = -inf

    def __repr__(self) -> str:
        return f"<Circuit {self.position}, {self.failures} of {self.limit} failures>"

    def hear(self, now: float) -> None:
        """It said something of its own accord: that a call makes progress, that a list changed."""
        self.heard = now
        if self.position == "closed":
            self.failures = 0

    def answer(self, now: float) -> bool:
        """It answered a request, however badly. Whether that closes the circuit."""
        self.heard = now
        self.failures = 0
        if self.position == "closed":
            return False
        self.position = "closed"
        self._closed = self.unsteady = now
        return True

    def fail(self, began: float, now: float, chance: float) -> bool:
        """A request that began then has no answer, and will have none. Whether that opens a circuit that was closed."""
        if self.position == "trying" and began >= self._trial:
            if self.heard <= began:
                self.trials += 1
            self._pause(now, chance)
            return False
        # What was sent before the last failure was known says no more than that one.
        if self.position != "closed" or self.heard > began or began < self.unsteady:
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
        """Whether a trial may begin."""
        return self.position == "open" and now >= self.retry

    def begin_trial(self, now: float) -> None:
        """The request that is sent next is the trial; `due` said so."""
        self.position = "trying"
        self._trial = now

    def leave_trial(self, began: float) -> None:
        """The trial that began then was given up before it could tell anything; another may begin at once."""
        if self.position == "trying" and began >= self._trial:
            self.position = "open"

    def begin_anew(self, now: float) -> None:
        """There is another connection, of which nothing is known but that it could be made."""
        self.position = "closed"
        self.failures = self.trials = 0
        self._closed = self.heard = self.unsteady = now

    def _pause(self, now: float, chance: float) -> None:
        self._openings += 1
        self.position = "open"
        self.unsteady = now
        self.retry = now + backoff.delay(self._openings, chance)
