"""How long to wait before the next attempt. This file decides; it awaits nothing and reads no clock."""

from dataclasses import dataclass
from typing import Final

from aggregator.upstream.lifecycle.failures import Failure

FIRST: Final = 0.5
CAP: Final = 60.0
# Credentials, missing commands and programs that keep crashing do not mend themselves quickly.
REFUSED_FIRST: Final = 15.0
REFUSED_CAP: Final = 300.0
# A server may ask for more patience than that, but not for any.
RETRY_AFTER_CAP: Final = 900.0

# A connection that lasted this long was a good one: the next failure counts as the first.
STABLE: Final = 30.0
# A program that ended before this, so many times in a row, is in a crash loop.
MOMENT: Final = 10.0
CRASHES: Final = 3


def delay(failures: int, chance: float, *, refused: bool = False) -> float:
    """Seconds until attempt number `failures` + 1: exponential, full jitter over a floor, capped.

    `failures` counts from 1; `chance` is uniform in [0, 1). The floor is half the first span, so that nothing spins.
    """
    first, cap = (REFUSED_FIRST, REFUSED_CAP) if refused else (FIRST, CAP)
    span = min(cap, first * 2.0 ** min(failures - 1, 20))
    floor = min(first / 2, cap)
    return floor + chance * (span - floor)


@dataclass(frozen=True, slots=True)
class Attempts:
    """What became of the attempts so far: failures, and early deaths, in a row."""

    failures: int = 0
    deaths: int = 0

    def after(self, setback: Failure) -> "Attempts":
        """The same with one more."""
        deaths = self.deaths + 1 if setback.died and setback.served < MOMENT else 0
        return Attempts(1 if setback.served > STABLE else self.failures + 1, deaths)

    @property
    def crash_loop(self) -> bool:
        """Whether its program cannot stay alive."""
        return self.deaths >= CRASHES

    def pause(self, setback: Failure, chance: float) -> float:
        """Seconds until the next one; `setback` is the latest, `chance` uniform in [0, 1)."""
        pause = delay(self.failures, chance, refused=setback.lasting or self.crash_loop)
        asked = min(setback.retry_after or 0.0, RETRY_AFTER_CAP)
        # A little later than asked for, so that not everybody comes at once.
        return max(pause, asked * (1 + chance / 10))

    def told(self, setback: Failure) -> str:
        """The reason, for an operator."""
        if not self.crash_loop:
            return setback.reason
        return f"it is in a crash loop, and ended soon after each of its last {self.deaths} starts: {setback.reason}"
