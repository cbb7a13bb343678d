"""How long to wait before the next attempt. This file decides; it awaits nothing and reads no clock."""

from typing import Final

FIRST: Final = 0.5
CAP: Final = 60.0
# Credentials and missing commands do not mend themselves quickly.
REFUSED_FIRST: Final = 15.0
REFUSED_CAP: Final = 300.0


def delay(failures: int, chance: float, *, refused: bool = False) -> float:
    """Seconds until attempt number `failures` + 1: exponential, full jitter, capped.

    `failures` counts from 1; `chance` is uniform in [0, 1). Half the span is kept as a floor, so that nothing spins.
    """
    first, cap = (REFUSED_FIRST, REFUSED_CAP) if refused else (FIRST, CAP)
    span = min(cap, first * 2.0 ** min(failures - 1, 20))
    return span * (0.5 + chance / 2)
