"""One session of the handshake eras over Streamable HTTP (L/basic/transports, Session Management)."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.principal import Principal
from aggregator.frontends.web.event_stream import EventStream, UnreadBytes
from aggregator.frontends.web.resumable import KeptEvents, ResumableStreams
from aggregator.frontends.web.sessions.session_ids import SessionFacts
from aggregator.gateway.admission import Slot
from aggregator.gateway.host import BY_SCOPES, Host
from aggregator.storage.records import HostSessionRecord
from aggregator.wire.peer import Channel, NoBackChannel, Peer

# Clients of earlier revisions take an event without data for a message that they cannot read (SEP-1699).
_KNOWS_EMPTY_EVENTS: Final = "2025-11-25"


class CancellableRequest(Protocol):
    """A running request of a session."""

    def cancel(self) -> bool: ...


class HttpSession:
    """One session. It is in use, not idle, inside every `with` of it."""

    def __init__(
        self,
        session_id: str,
        facts: SessionFacts,
        host: Host,
        tasks: Tasks,
        slot: Slot,
        unread: UnreadBytes,
        question_ids: Iterator[int] | None = None,
        kept: KeptEvents | None = None,
    ) -> None:
        self.id = session_id
        self.facts = facts
        self.slot = slot
        # Set once what is kept of it has been read, or nothing is.
        self.settled = asyncio.Event()
        self.host = host
        self._asked: Host | None = None
        # For requests to the host and their answers only; requests of the host are exchanges.
        self.peer = Peer(self._push, tasks, _never, _ignore, ids=question_ids)
        self.running: dict[str | int, CancellableRequest] = {}
        # It was opened by another process, or let go of here: what its host knows of lists is not known.
        self.taken_up = False
        self.kept = HostSessionRecord(facts.name)
        self._unread = unread
        # Of its requests, whose answers the host may go on reading after its connection broke.
        self.streams = ResumableStreams(
            kept or KeptEvents(unread, facts.made_by), primes=facts.version >= _KNOWS_EMPTY_EVENTS
        )
        self._stream: EventStream | None = None
        self._uses = 0
        self._idle_since = asyncio.get_running_loop().time()
        host.connection, host.session = self, facts.name

    def __repr__(self) -> str:
        return f"<HttpSession {self.host.version}, {len(self.running)} running>"

    def __enter__(self) -> None:
        self._uses += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uses -= 1
        self._idle_since = asyncio.get_running_loop().time()

    def note_use(self) -> None:
        """Note a request that was answered at once."""
        self._idle_since = asyncio.get_running_loop().time()

    def idle(self, now: float) -> float:
        """Return the seconds since its last request; 0 while one runs."""
        return 0.0 if self._uses else now - self._idle_since

    def host_of(self, method: str, principal: Principal) -> Host:
        """Return the host as a request of this caller deals with it; the same one for the same token, as a rule."""
        host, asked = self.host, self._asked
        if asked is None or asked.principal is not principal or asked.log_level != host.log_level:
            asked = host.of_request(method, principal)
            self._asked = asked if asked is not host else self._asked
        return asked if method in BY_SCOPES else host

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
        self.streams.close()
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
