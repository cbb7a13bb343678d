"""The sessions that this process has in memory, by id: bounded in number, let go when idle, and taken up again."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.dialects.names import Schemas
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.log_levels import rank
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.frontends.web.event_stream import UnreadBytes
from aggregator.frontends.web.resumable import KeptEvents
from aggregator.frontends.web.sessions.http_session import HttpSession
from aggregator.frontends.web.sessions.kept_sessions import PATIENCE, KeptSessions
from aggregator.frontends.web.sessions.session_ids import SessionFacts, SessionIds
from aggregator.gateway.admission import Admission, TooMany
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTask, RevocableTasks
from aggregator.gateway.views.list_changed import LIST_KINDS, ListChanges, SessionFailure, notification
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.storage.records import HostSessionChange, HostSessionRecord

# The least seconds between two searches for idle sessions, however many are refused.
_LOOK_AGAIN: Final = 1.0
# Requests that set what is kept of a session, and a notification that concerns each replica that serves it.
KEPT: Final = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
# Seconds that a host waits at the start of a process whose database has not answered yet.
ENTERING: Final = 10.0
# Sessions that are remembered to have ended.
_ENDED: Final = 10_000


class Sessions:
    """All sessions by id. An id says enough to take its session up if it is not in memory."""

    def __init__(
        self,
        changes: ListChanges,
        revocable: RevocableTasks,
        tasks: Tasks,
        admission: Admission,
        idle_timeout: float,
        unread: UnreadBytes | None = None,
        *,
        ids: SessionIds | None = None,
        kept: KeptSessions | None = None,
        names: Style | None = None,
        schemas: Schemas | None = None,
        gateway: Dispatcher | None = None,
        question_ids: Iterator[int] | None = None,
        kept_events: KeptEvents | None = None,
    ) -> None:
        # One series for all: no host is asked with an id twice, also when its session is taken up again.
        self._question_ids = question_ids or itertools.count(1)
        self._changes = changes
        self._revocable = revocable
        self._tasks = tasks
        self._admission = admission
        self._unread = unread or UnreadBytes()
        self._swept = float("-inf")
        self._idle_timeout = idle_timeout
        self._ids = ids or SessionIds(SharedKey(), GroupClock())
        self._kept = kept
        self._kept_events = kept_events
        self._names = names
        self._schemas = schemas
        self._gateway = gateway
        self._sessions: dict[str, tuple[HttpSession, RevocableTask]] = {}
        self._by_name: dict[str, HttpSession] = {}
        self._ended: LruCache[str, bool] = LruCache(_ENDED)
        if kept is not None:
            kept.listen(self)

    def __repr__(self) -> str:
        return f"<Sessions {len(self)} in memory>"

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, session_id: str) -> HttpSession | None:
        """Return a session that is in memory."""
        known = self._sessions.get(session_id)
        return known[0] if known is not None else None

    def open(self, host: Host) -> HttpSession:
        """Open a session.

        Raises:
            TooMany: there are too many, the idle ones not counted.
        """
        session = self._add(host, *self._ids.issue(host))
        session.settled.set()
        return session

    async def find(self, session_id: str, principal: Principal) -> HttpSession | None:
        """Return a session of this caller; it is taken up if another process opened it, or it was idle here.

        None if its host ended it, if it is another caller's, and for ids that were not made in this group.

        Raises:
            TooMany: there are too many to take it up.
        """
        session = self.get(session_id)
        if session is None:
            session = self._take_up(session_id, principal)
        elif not session.host.principal.is_same_caller(principal):
            return None
        if session is not None and not session.settled.is_set():
            try:
                async with asyncio.timeout(PATIENCE):
                    await session.settled.wait()
            except TimeoutError:
                session.settled.set()
            if self.get(session_id) is not session:
                return None
        if session is not None and principal.token is not None:
            # What is decided about a request depends on the token that it was sent with.
            session.host.principal = principal
        return session

    def _take_up(self, session_id: str, principal: Principal) -> HttpSession | None:
        facts = self._ids.read(session_id)
        if facts is None or not facts.is_of(principal) or self._ended.peek(facts.name):
            return None
        session = self._add(facts.host(self._names, principal, self._schemas), session_id, facts)
        session.taken_up = True
        if self._kept is None or not self._kept.read(facts.name):
            session.settled.set()
        return session

    def _add(self, host: Host, session_id: str, facts: SessionFacts) -> HttpSession:
        try:
            slot = self._admission.acquire("sessions", host.principal)
        except TooMany:
            if asyncio.get_running_loop().time() - self._swept < _LOOK_AGAIN or not self._sweep():
                raise
            slot = self._admission.acquire("sessions", host.principal)
        session = HttpSession(
            session_id, facts, host, self._tasks, slot, self._unread, self._question_ids, self._kept_events
        )
        going = self._revocable.add(host.principal, lambda: self.let_go(session))
        self._sessions[session.id] = session, going
        self._by_name[facts.name] = session
        self._changes.attach(host)
        return session

    def let_go(self, session: HttpSession) -> None:
        """Forget a session and cancel its running requests; with its id it can be taken up again."""
        known = self._sessions.pop(session.id, None)
        if known is not None:
            del self._by_name[session.facts.name]
            if self._kept is not None:
                self._kept.forget(session.facts.name)
            self._revocable.remove(known[1])
            failure: SessionFailure | None = "revoked" if known[1].revoked else None
            self._changes.detach(session.host, failure, session.idle(asyncio.get_running_loop().time()))
            session.slot.release()
            session.settled.set()
            session.end()

    async def end(self, session: HttpSession) -> None:
        """End a session for good: no replica takes it up any more."""
        self.was_ended(session.facts.name)
        if self._kept is not None:
            await self._kept.save(self._change(session, ended=self._ids.now()))

    async def note_set(self, session: HttpSession, method: str, params: Mapping[str, Any]) -> None:
        """Store the values that a request of the host has set, if they differ from the stored ones."""
        kept, uri = session.kept, params.get("uri")
        if method == "logging/setLevel" and session.host.log_level != kept.level:
            session.kept = replace(kept, level=session.host.log_level)
            change = self._change(session, level=session.host.log_level)
        elif method == "resources/subscribe" and isinstance(uri, str) and uri not in kept.uris:
            session.kept = replace(kept, uris=(*kept.uris, uri))
            change = self._change(session, added=(uri,))
        elif method == "resources/unsubscribe" and uri in kept.uris:
            session.kept = replace(kept, uris=tuple(one for one in kept.uris if one != uri))
            change = self._change(session, removed=(str(uri),))
        else:
            return
        if self._kept is not None:
            await self._kept.save(change)

    def note_stream(self, session: HttpSession, membership: Membership) -> None:
        """Have a host read its lists anew, once, whose session was opened by a process that has ended: it was not
        told what has changed since.
        """
        made_by, session.taken_up, before = session.facts.made_by, False, session.taken_up
        if before and made_by != membership.id and membership.get(made_by) is None:
            for kind in LIST_KINDS:
                session.notify(notification(kind), {})

    def _change(self, session: HttpSession, **given: Any) -> HostSessionChange:
        facts = session.facts
        return HostSessionChange(facts.name, facts.agent_id, self._ids.expiry(facts), **given)

    def publish_cancelled(self, session: HttpSession, request_id: str | int) -> None:
        """Have a request cancelled that may run in this session at another replica."""
        if self._kept is not None:
            self._kept.publish_cancelled(session.facts.name, request_id)

    def publish_roots_changed(self, session: HttpSession) -> None:
        """Have the other replicas that serve this session know that the roots of its host changed."""
        if self._kept is not None:
            self._kept.publish_roots_changed(session.facts.name)

    # -- news of other replicas, and of the database

    def was_ended(self, name: str) -> None:
        """See `OnSessionNews`."""
        self._ended.put(name, True)
        session = self._by_name.get(name)
        if session is not None:
            self.let_go(session)

    def was_ended_elsewhere(self, session_id: str, principal: Principal) -> None:
        """Let go of a session for good that its own host ended at another replica."""
        facts = self._ids.read(session_id)
        if facts is not None and facts.is_of(principal):
            self.was_ended(facts.name)

    def found_state(self, name: str, kept: HostSessionRecord) -> None:
        """See `OnSessionNews`."""
        session = self._by_name.get(name)
        if session is None:
            return
        before, session.kept = session.kept, kept
        if rank(kept.level) is not None:
            session.host.log_level = kept.level
        if self._gateway is not None and kept.uris != before.uris:
            self._tasks.start(self._gateway.listening.resume(session.host, kept.uris))
        session.settled.set()

    def was_cancelled(self, name: str, request_id: str | int) -> None:
        """See `OnSessionNews`."""
        session = self._by_name.get(name)
        running = session.running.get(request_id) if session is not None else None
        if running is not None:
            running.cancel()

    def roots_changed(self, name: str) -> None:
        """See `OnSessionNews`."""
        session = self._by_name.get(name)
        if session is not None and self._gateway is not None:
            self._gateway.on_notification(session.host, ROOTS_CHANGED, {})

    # -- the end

    def close_streams(self) -> None:
        """Close the standing streams before the process ends."""
        for session, _ in self._sessions.values():
            session.end_stream()

    def close(self) -> None:
        """Let go of all sessions."""
        for session, _ in list(self._sessions.values()):
            self.let_go(session)

    async def sweep(self) -> None:
        """Let go of idle sessions until cancelled."""
        while True:
            await asyncio.sleep(self._idle_timeout / 4)
            self._sweep()

    def _sweep(self) -> int:
        """Let go of the idle sessions; return how many there were."""
        self._swept = now = asyncio.get_running_loop().time()
        idle = [session for session, _ in self._sessions.values() if session.idle(now) > self._idle_timeout]
        for session in idle:
            self.let_go(session)
        return len(idle)
