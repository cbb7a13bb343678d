"""The reader of the log of changes: each replica reads on from the last change it saw, and calls the listeners.

Rule: nothing here is on the path of a call.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aggregator.storage.errors import StorageError
from aggregator.storage.records import Change

if TYPE_CHECKING:
    from aggregator.replicas.storage import ChangeLog

log = logging.getLogger(__name__)

# Seconds between two looks if nothing wakes it before, and after a look that failed.
LOOK_EVERY: Final = 0.25
_AFTER_A_FAULT: Final = 1.0
# Seconds without a look after which changes may be gone: less than the database keeps them (`storage/retention`).
_MISSED_AFTER: Final = 1800.0

# Called for a change of its subject, of this replica or another. After the database was restored or replaced, or this
# process was halted for long, it is called once with an empty body: anything may have changed.
OnReplicaChange = Callable[[Change], None]


class ChangesTail:
    """The changes from now on. Call `listen` before `run`."""

    def __init__(self) -> None:
        self._changes: ChangeLog | None = None
        self._listeners: defaultdict[str, list[OnReplicaChange]] = defaultdict(list)
        self._seen = 0
        self._looked = time.time()
        self._wake = asyncio.Event()
        self._started = asyncio.Event()
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<ChangesTail at {self._seen}>"

    def listen(self, subject: str, listener: OnReplicaChange) -> None:
        """Call `listener` for each change of a subject."""
        self._listeners[subject].append(listener)

    def look_now(self) -> None:
        """Look now."""
        self._wake.set()

    async def publish(self, subject: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a change to every replica, and to the listeners of this one.

        Raises:
            StorageError: the database cannot store it, or is not open yet.
        """
        if self._changes is None:
            raise StorageError("The database is not open yet.")
        await self._changes.publish(subject, body)

    async def start(self, changes: "ChangeLog") -> None:
        """Begin at the newest change; a second time changes nothing.

        Raises:
            StorageError: the database cannot be read.
        """
        if self._changes is not None:
            return
        self._seen = await changes.newest()
        self._changes = changes
        changes.on_written(self.look_now)
        self._started.set()

    async def run_wakes(self) -> None:
        """Look at once when another replica has written a change, if the database can notify."""
        await self._started.wait()
        assert self._changes is not None
        await self._changes.run_wakes(self.look_now)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            pause = LOOK_EVERY
            if self._changes is not None:
                try:
                    await self._look(self._changes)
                except StorageError as error:
                    if self.problem is None:
                        log.warning("changes made by other replicas are not seen: %s", error)
                    self.problem, pause = str(error), _AFTER_A_FAULT
                else:
                    if self.problem is not None:
                        log.info("changes made by other replicas are seen again")
                    self.problem = None
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    async def _look(self, changes: "ChangeLog") -> None:
        before, self._looked = self._looked, time.time()
        found = await changes.after(self._seen)
        paused = abs(self._looked - before) > _MISSED_AFTER
        if paused or not found:
            newest = await changes.newest()
            if paused or newest < self._seen:
                # Changes may have been removed unread; or the database is another one, or was restored.
                self._seen = newest
                found = [Change(newest, subject, None, {}) for subject in self._listeners]
        for change in found:
            self._seen = max(self._seen, change.seq)
            for listener in self._listeners.get(change.subject, ()):
                self._call(listener, change)

    def _call(self, listener: OnReplicaChange, change: Change) -> None:
        try:
            listener(change)
        except Exception:
            # The body may come from another version: one listener's fault must not hold up the rest.
            log.exception("a change of %s was not taken", change.subject)
