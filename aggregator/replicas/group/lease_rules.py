"""The rules of leases: when an owner has to stop, and when another replica may take over. This module reads no clock.

Law: no replica compares its clock with another's, nor with the database's. An owner counts from the moment before it
sent a renewal, and stops early; another replica counts from the moment after it saw the renewal, and takes over late.
The clocks need only run at about the same speed.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from aggregator.storage.records import LeaseRecord

# Seconds without a heartbeat after which a replica counts as gone: others take over its work.
LEASE: Final = 6.0
# Parts of a lease. An owner whose renewals fail stops after the first part; the rest allows for clocks of different
# speed. The owner renews so often that two tries may fail.
STOPS_AFTER: Final = 0.75
RENEW_EVERY: Final = 0.2


@dataclass(slots=True)
class OwnTime:
    """The time of an owner, by its own clock: `sent` is the last renewal, `stops` the end."""

    lease: float
    began: float

    @property
    def stops(self) -> float:
        """The moment at which the owner stops."""
        return self.began + STOPS_AFTER * self.lease

    def renewed(self, sent: float) -> None:
        """Record the arrival of a renewal that was sent at `sent` or later."""
        self.began = max(self.began, sent)


class Observation:
    """The state in which a candidate last saw a lease, and since when."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._seen: tuple[str | None, int, int] | None = None
        self._since = inf
        self._went_back = False

    def saw(self, row: LeaseRecord | None, after: float) -> None:
        """Record the row as it was read; `after` is a time after the answer came."""
        seen = (row.owner, row.generation, row.renewals) if row is not None else (None, 0, 0)
        if seen != self._seen:
            # The database was restored, or lost its last commits: an owner without a row may still run.
            self._went_back = self._seen is not None and seen[1] < self._seen[1]
            self._seen, self._since = seen, after

    def may_take(self, now: float, me: str) -> bool:
        """Return True if the lease is free: released, or not renewed for its whole time.

        me: an owner that stopped or restarted need not wait for itself.
        """
        if self._seen is None:
            return False
        at_once = self._seen[0] in (None, me) and not self._went_back
        return at_once or now >= self._since + self._lease
