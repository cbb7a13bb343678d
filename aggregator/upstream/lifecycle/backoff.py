"""The pause before the next attempt to connect. This file decides; it awaits nothing and reads no clock."""

from dataclasses import dataclass
from typing import Final

from aggregator.domain.reasons import Reason, said_in
from aggregator.upstream.lifecycle.failures import Failure

FIRST: Final = 0.5
CAP: Final = 60.0
# Refused credentials, missing commands and programs that keep crashing are seldom repaired quickly.
REFUSED_FIRST: Final = 15.0
REFUSED_CAP: Final = 300.0
# A server may ask for a longer pause than that (`Retry-After`), up to so many seconds.
RETRY_AFTER_CAP: Final = 900.0

# After a connection that lasted this long, the next failure counts as the first.
STABLE: Final = 30.0
# A program that ended within `MOMENT` seconds of being ready, `CRASHES` times in a row, is in a crash loop.
MOMENT: Final = 10.0
CRASHES: Final = 3


def delay(failures: int, chance: float, *, refused: bool = False) -> float:
    """Return the seconds until attempt number `failures` + 1: exponential with full jitter, bounded on both sides.

    failures: in a row, counted from 1.
    chance: uniform in [0, 1).
    refused: use the longer pauses of a refusal.

    The lower bound is half of the first span, so that no series of failures becomes a busy loop.
    """
    first, cap = (REFUSED_FIRST, REFUSED_CAP) if refused else (FIRST, CAP)
    span = min(cap, first * 2.0 ** min(failures - 1, 20))
    least = min(first / 2, cap)
    return least + chance * (span - least)


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts to connect so far: failures in a row, and among them programs that ended early, in a row."""

    failures: int = 0
    deaths: int = 0

    def after(self, failure: Failure) -> "Attempts":
        """Return the attempts with one more failure."""
        deaths = self.deaths + 1 if failure.died and failure.served < MOMENT else 0
        return Attempts(1 if failure.served > STABLE else self.failures + 1, deaths)

    @property
    def crash_loop(self) -> bool:
        """True if the program of the server has ended early too often in a row."""
        return self.deaths >= CRASHES

    def pause(self, failure: Failure, chance: float) -> float:
        """Return the seconds until the next attempt after this failure; `chance` is uniform in [0, 1)."""
        pause = delay(self.failures, chance, refused=failure.lasting or self.crash_loop)
        asked = min(failure.retry_after or 0.0, RETRY_AFTER_CAP)
        # A little later than asked for, so that not all clients of the server come at once.
        return max(pause, asked * (1 + chance / 10))

    def reason(self, failure: Failure) -> str:
        """Return the reason of the latest failure, for an operator; a crash loop is named."""
        if not self.crash_loop:
            return failure.reason
        ours = f"it is in a crash loop, and ended soon after each of its last {self.deaths} starts: {failure.reason}"
        return Reason(ours, said_in(failure.reason))
