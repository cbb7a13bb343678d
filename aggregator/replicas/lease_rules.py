"""The rules of leases: when an owner has to stop, and when another replica may take over. No clock is read here.

Law: no replica compares its clock with another's, nor with the database's. An owner counts from the moment before it
sent a renewal, and stops early; another replica counts from the moment after it saw the renewal, and takes over late.
All that is asked of the clocks is that an hour takes them about as long.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from aggregator.storage.records import LeaseRecord

# Seconds. A replica that the database has not heard of for so long counts as gone: others take over its work.
LEASE: Final = 6.0
# Parts of a lease. An owner whose renewals fail does nothing from the first on; the rest is for clocks that run at
# different speeds. It renews so often that two tries may fail.
STOPS_AFTER: Final = 0.75
RENEW_EVERY: Final = 0.2


@dataclass(slots=True)
class OwnTime:
    """The time of an owner: renewed by `sent`, over at `stops`. Times are those of the owner's clock."""

    lease: float
    began: float

    @property
    def stops(self) -> float:
        """The moment from which on the owner does nothing any more."""
        return self.began + STOPS_AFTER * self.lease

    def renewed(self, sent: float) -> None:
        """Take note that a renewal arrived that was sent at `sent` or later."""
        self.began = max(self.began, sent)


class Observation:
    """The last that one replica saw of a lease that it would like to have, and since when it is so."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._seen: tuple[str | None, int, int] | None = None
        self._since = inf
        self._went_back = False

    def saw(self, row: LeaseRecord | None, after: float) -> None:
        """Take note of the row as it was read; `after` is the time after the answer had come."""
        seen = (row.owner, row.generation, row.renewals) if row is not None else (None, 0, 0)
        if seen != self._seen:
            # A database that was restored, or lost its last commits: an owner that it has forgotten may still be there.
            self._went_back = self._seen is not None and seen[1] < self._seen[1]
            self._seen, self._since = seen, after

    def may_take(self, now: float, me: str) -> bool:
        """Return True if the lease is free: released, or not renewed for the whole of its time.

        me: an owner that has stopped, or that forgot, need not wait for itself.
        """
        if self._seen is None:
            return False
        at_once = self._seen[0] in (None, me) and not self._went_back
        return at_once or now >= self._since + self._lease
