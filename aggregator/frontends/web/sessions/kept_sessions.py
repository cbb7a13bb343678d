"""The state of sessions beyond their ids, in the database, and the changes of it that replicas tell each other.

Rule 1: a request waits for a read once, when its session is taken up, and at most `PATIENCE`. Without the database
sessions go on as their ids say.
Rule 2: many changes are one transaction: what a host can cause is bounded, however often it asks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.group.replication import Replication
from aggregator.storage.errors import StorageError
from aggregator.storage.records import SESSIONS_SUBJECT, Change, HostSessionChange, HostSessionRecord

log = logging.getLogger(__name__)

# Seconds that a request waits for the database: one that takes its session up, one that ends it.
PATIENCE: Final = 2.0
# Seconds between two transactions, and after one that failed.
_BETWEEN: Final = 0.05
_AFTER_A_FAULT: Final = 1.0
# Sessions, or requests of sessions, in one read, in one write, and that wait to be written.
PAGE: Final = 500
_WAITING: Final = 10_000
_LONGEST_ID: Final = 64


class OnSessionNews(Protocol):
    """The sessions that this process has in memory, by name."""

    def __contains__(self, name: object, /) -> bool: ...

    def was_ended(self, name: str) -> None:
        """Let go of a session, for good: its host ended it, here or elsewhere."""

    def found_state(self, name: str, kept: HostSessionRecord) -> None:
        """Take what a session has beyond its id."""

    def was_cancelled(self, name: str, request_id: str | int) -> None:
        """Cancel a request that the host no longer wants answered."""

    def roots_changed(self, name: str) -> None:
        """Take note that the roots of a host changed."""


class KeptSessions:
    """The state that is kept of all sessions. `listen` before `run`. Without a database nothing is."""

    def __init__(self, group: Replication) -> None:
        self._group = group
        self._news: OnSessionNews | None = None
        self._to_read: dict[str, None] = {}
        self._to_write: dict[str, HostSessionChange] = {}
        self._cancelled: dict[tuple[str, str | int], None] = {}
        self._roots: dict[str, None] = {}
        self._written: dict[str, asyncio.Event] = {}
        self._reading, self._writing = asyncio.Event(), asyncio.Event()
        self._away = False

    def __repr__(self) -> str:
        return f"<KeptSessions {len(self._to_read)} to read, {len(self._to_write)} to write>"

    def listen(self, news: OnSessionNews) -> None:
        """Have `news` told what concerns its sessions."""
        self._news = news
        self._group.changes.listen(SESSIONS_SUBJECT, self._changed)

    def read(self, name: str) -> bool:
        """Have `found_state` or `was_ended` called for a session that is taken up; return False if there is nothing to
        read.
        """
        if not self._group.stored:
            return False
        self._to_read[name] = None
        self._reading.set()
        return True

    def forget(self, name: str) -> None:
        """Stop reading of a session that is not in memory any more."""
        self._to_read.pop(name, None)

    async def save(self, change: HostSessionChange) -> None:
        """Write a change of what is kept of a session; wait until it is written, or for `PATIENCE`: it is written later
        then.
        """
        before = self._to_write.get(change.id)
        if not self._group.stored or (before is None and len(self._to_write) >= _WAITING):
            return
        self._to_write[change.id] = before.then(change) if before is not None else change
        written = self._written.setdefault(change.id, asyncio.Event())
        self._writing.set()
        try:
            async with asyncio.timeout(PATIENCE):
                await written.wait()
        except TimeoutError:
            log.warning("what a host has set in its session could not be written yet")

    def publish_cancelled(self, name: str, request_id: str | int) -> None:
        """Tell the other replicas that a host no longer wants an answer, if there are others."""
        long = isinstance(request_id, str) and len(request_id) > _LONGEST_ID
        if self._has_others() and len(self._cancelled) < PAGE and not long:
            self._cancelled[name, request_id] = None
            self._writing.set()

    def publish_roots_changed(self, name: str) -> None:
        """Tell the other replicas that the roots of a host changed, if there are others."""
        if self._has_others() and len(self._roots) < PAGE:
            self._roots[name] = None
            self._writing.set()

    async def run(self) -> None:
        """Read and write until cancelled."""
        if not self._group.stored:
            return
        async with Tasks("what is kept of sessions") as tasks:
            reading = tasks.start(self._again_and_again(self._reading, self._read_page))
            writing = tasks.start(self._again_and_again(self._writing, self._write_page))
            await asyncio.wait((reading, writing))

    def _has_others(self) -> bool:
        return self._group.stored and self._group.enabled and bool(self._group.membership.others())

    async def _again_and_again(self, wanted: asyncio.Event, work: "_PageOfWork") -> None:
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                more = await work()
            except StorageError as error:
                log.log(logging.DEBUG if self._away else logging.WARNING, "sessions are not kept now: %s", error)
                self._away = more = True
                await asyncio.sleep(_AFTER_A_FAULT)
            else:
                self._away = False
            if more:
                wanted.set()

    async def _read_page(self) -> bool:
        """Read of some sessions; return whether there are more."""
        names = list(self._to_read)[:PAGE]
        if not names:
            return False
        found = await (await self._group.database()).host_sessions.read(names)
        for name in names:
            # Read anew once it is written, if this process is about to change it.
            if name in self._to_read and name not in self._to_write and self._news is not None:
                record = found.get(name, HostSessionRecord(name))
                if record.ended:
                    self._news.was_ended(name)
                else:
                    self._news.found_state(name, record)
            self._to_read.pop(name, None)
        return bool(self._to_read)

    async def _write_page(self) -> bool:
        """Write and tell of some sessions; return whether there are more."""
        written = [self._to_write.pop(name) for name in list(self._to_write)[:PAGE]]
        told: dict[str, Any] = {
            "ended": [one.id for one in written if one.ended is not None],
            "kept": [one.id for one in written if one.ended is None],
            "roots": list(self._roots),
            "cancelled": list(self._cancelled),
        }
        self._roots, self._cancelled = {}, {}
        told = {what: names for what, names in told.items() if names}
        if not told:
            return False
        try:
            database = await self._group.database()
            await database.host_sessions.write(written, self._group.clock.now(), told if self._group.enabled else None)
        except BaseException:
            for one in written:
                later = self._to_write.get(one.id)
                self._to_write[one.id] = one.then(later) if later is not None else one
            raise
        for one in written:
            if one.id not in self._to_write:
                self._written.pop(one.id).set()
        await asyncio.sleep(_BETWEEN)
        return bool(self._to_write or self._roots or self._cancelled)

    def _changed(self, change: Change) -> None:
        news = self._news
        if news is None or change.origin == self._group.membership.id:
            return
        told = change.body
        for name in told.get("ended", ()):
            news.was_ended(name)
        for name in told.get("kept", ()):
            if name in news:
                self.read(name)
        for name in told.get("roots", ()):
            news.roots_changed(name)
        for name, request_id in told.get("cancelled", ()):
            news.was_cancelled(name, request_id)


# Does a part of the pending work; returns whether there is more.
_PageOfWork = Callable[[], Awaitable[bool]]
