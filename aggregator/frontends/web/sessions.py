"""Sessions of the handshake eras over Streamable HTTP (L/basic/transports, Session Management)."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.frontends.web.event_stream import EventStream, UnreadBytes
from aggregator.gateway.admission import Admission, Slot, TooMany
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTask, RevocableTasks
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.wire.peer import Channel, NoBackChannel, Peer

# The least seconds between two searches for idle sessions, however many are refused.
_LOOK_AGAIN: Final = 1.0


class CancellableRequest(Protocol):
    """A running request of a session."""

    def cancel(self) -> bool: ...


class HttpSession:
    """One session. It is in use, not idle, inside every `with` of it."""

    def __init__(self, session_id: str, host: Host, tasks: Tasks, slot: Slot, unread: UnreadBytes) -> None:
        self.id = session_id
        self.slot = slot
        self.host = host
        # For requests to the host and their answers only; requests of the host are exchanges.
        self.peer = Peer(self._push, tasks, _never, _ignore)
        self.running: dict[str | int, CancellableRequest] = {}
        self._unread = unread
        self._stream: EventStream | None = None
        self._uses = 0
        self._idle_since = asyncio.get_running_loop().time()
        host.connection, host.session = self, session_id

    def __repr__(self) -> str:
        return f"<HttpSession {self.host.version}, {len(self.running)} running>"

    def __enter__(self) -> None:
        self._uses += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uses -= 1
        self._idle_since = asyncio.get_running_loop().time()

    def idle(self, now: float) -> float:
        """Return the seconds since its last request; 0 while one runs."""
        return 0.0 if self._uses else now - self._idle_since

    def open_stream(self) -> EventStream | None:
        """Open and return the standing stream; None if there is one already."""
        if self._stream is not None:
            return None
        self._stream = self._unread.open()
        return self._stream

    def stream_closed(self, stream: EventStream) -> None:
        """Note that the standing stream was closed."""
        if self._stream is stream:
            self._stream = None

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification on the standing stream, if that is open."""
        self.peer.notify(method, params)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the host on its standing stream, for what belongs to no request of the host.

        Raises:
            NoBackChannel: that stream is not open.
        """
        if self._stream is None:
            raise NoBackChannel
        return await self.peer.request(method, params)

    def end(self) -> None:
        """Cancel the running requests and close the standing stream."""
        self.peer.close("the session ended")
        for exchange in list(self.running.values()):
            exchange.cancel()
        self.end_stream()

    def end_stream(self) -> None:
        """Close the standing stream; running requests go on."""
        if self._stream is not None:
            self._stream.end()

    def _push(self, data: bytes, request_id: int | None) -> None:
        if self._stream is not None:
            self._stream.push(data)


async def _never(method: str, params: dict[str, Any], channel: Channel) -> None:
    raise NoBackChannel


def _ignore(method: str, params: dict[str, Any]) -> None:
    """Ignore a notification: the frontend handles those of the host."""


@dataclass(frozen=True, slots=True)
class BatchChannel:
    """The channel of a request in a batch: it reaches nothing."""

    request_id: str | int

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Drop a notification."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel


class Sessions:
    """All sessions by id: unguessable, bounded in number, ended when idle."""

    def __init__(
        self,
        changes: ListChanges,
        revocable: RevocableTasks,
        tasks: Tasks,
        admission: Admission,
        idle_timeout: float,
        unread: UnreadBytes | None = None,
    ) -> None:
        self._changes = changes
        self._revocable = revocable
        self._tasks = tasks
        self._admission = admission
        self._unread = unread or UnreadBytes()
        self._swept = float("-inf")
        self._idle_timeout = idle_timeout
        self._sessions: dict[str, tuple[HttpSession, RevocableTask]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: str) -> HttpSession | None:
        known = self._sessions.get(session_id)
        return known[0] if known is not None else None

    def open(self, host: Host) -> HttpSession:
        """Open a session.

        Raises:
            TooMany: there are too many, the idle ones not counted.
        """
        try:
            slot = self._admission.acquire("sessions", host.principal)
        except TooMany:
            if asyncio.get_running_loop().time() - self._swept < _LOOK_AGAIN or not self._sweep():
                raise
            slot = self._admission.acquire("sessions", host.principal)
        session = HttpSession(secrets.token_urlsafe(24), host, self._tasks, slot, self._unread)
        going = self._revocable.add(host.principal, lambda: self.end(session))
        self._sessions[session.id] = session, going
        self._changes.attach(host)
        return session

    def end(self, session: HttpSession) -> None:
        """End a session: its id is unknown from now on, and its running requests are cancelled."""
        known = self._sessions.pop(session.id, None)
        if known is not None:
            self._revocable.remove(known[1])
            self._changes.detach(session.host)
            session.slot.release()
            session.end()

    def close_streams(self) -> None:
        """Close the standing streams before the process ends."""
        for session, _ in self._sessions.values():
            session.end_stream()

    def close(self) -> None:
        """End all sessions."""
        for session, _ in list(self._sessions.values()):
            self.end(session)

    async def sweep(self) -> None:
        """End idle sessions until cancelled."""
        while True:
            await asyncio.sleep(self._idle_timeout / 4)
            self._sweep()

    def _sweep(self) -> int:
        """End the idle sessions; return how many there were."""
        self._swept = now = asyncio.get_running_loop().time()
        idle = [session for session, _ in self._sessions.values() if session.idle(now) > self._idle_timeout]
        for session in idle:
            self.end(session)
        return len(idle)
