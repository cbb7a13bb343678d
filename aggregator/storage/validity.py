"""The validity of an approval of a call."""

from datetime import datetime, timedelta
from typing import Final, Literal

# This call only, or these exact arguments for a time. `today` ends at midnight, by the clock of this machine.
Validity = Literal["once", "1h", "today", "7d"]

_SECONDS: Final = {"1h": 3600.0, "7d": 7 * 86400.0}


def valid_until(validity: Validity, now: float) -> float | None:
    """Return the end of an approval given at `now`; None if it is for one call only."""
    if validity == "once":
        return None
    if validity == "today":
        here = datetime.fromtimestamp(now).astimezone()
        midnight = here.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + timedelta(days=1)
        return midnight.timestamp()
    return now + _SECONDS[validity]
