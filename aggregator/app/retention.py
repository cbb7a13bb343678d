"""The retention of a running gateway: expired rows are removed again and again.

Rule: the writer of the audit log trims it (aggregator/audit/writer.py), not this module.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from aggregator.config.settings import AuditConfig
from aggregator.domain.bounds.clock_leaps import ClockLeaps
from aggregator.storage.errors import StorageError
from aggregator.storage.lazy_database import LazyDatabase

log = logging.getLogger(__name__)

EVERY: Final = 600.0

# Returns the time in seconds since 1970.
WallClock = Callable[[], float]


class Retention:
    """The removal of expired rows from the database of this process."""

    def __init__(self, database: LazyDatabase, config: AuditConfig, clock: WallClock = time.time) -> None:
        self._database = database
        self._config = config
        self._clock = clock
        self._leaps = ClockLeaps(clock)

    def __repr__(self) -> str:
        return f"<Retention every {EVERY:g} s>"

    async def run(self) -> None:
        """Remove expired rows, again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            await self.once()

    async def once(self) -> int:
        """Remove expired rows now; return the number of removed rows. One process of a group is enough.

        None are removed if the clock has leapt ahead since the last time: it may be set right again.
        """
        if self._leaps.leapt():
            log.warning("the clock has leapt ahead by more than a day: expired rows are kept until the next look")
            return 0
        try:
            database = await self._database.open()
            if database is None:
                return 0
            removed = await database.prune(self._config.keep_for, self._config.keep_bytes, now=self._clock())
        except StorageError as error:
            log.warning("what is kept for no longer stays for now: %s", error)
            return 0
        except Exception as error:  # it is tried again
            log.error("what is kept for no longer stays for now, by an error of ours", exc_info=error)
            return 0
        if removed:
            log.debug("%d rows that are kept for no longer were removed", removed)
        return removed
