"""The group clock: the database's clock, which all replicas estimate to within the time of one query."""

import time
from collections.abc import Callable

# A clock that never goes back; seconds.
Monotonic = Callable[[], float]


class GroupClock:
    """An estimate of the database's clock; this machine's clock until the first measurement."""

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = time.time() - monotonic()
        self.measured = False

    def __repr__(self) -> str:
        return f"<GroupClock {'measured' if self.measured else 'not measured'}>"

    def now(self) -> float:
        """Return the seconds since 1970 by the database's clock."""
        return self._monotonic() + self._offset

    def measure(self, before: float, theirs: float, after: float) -> None:
        """Set the clock to a time that the database gave between two readings of the monotonic clock."""
        self._offset = theirs - (before + after) / 2
        self.measured = True
