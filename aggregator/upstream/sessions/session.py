"""An open session with an upstream, and access to the one that is shared."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from aggregator.domain.abilities import EVERYTHING, NOTHING, HostCapabilities, declared
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_LOG_LEVEL
from aggregator.upstream.caller import Caller
from aggregator.upstream.connection import Connection
from aggregator.upstream.sessions.back_channel import BackChannel
from aggregator.upstream.sessions.lifetime import SessionLifetime
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.transports import TRANSPORTS


@dataclass(frozen=True, slots=True)
class UpstreamSession:
    """An open session with an upstream.

    negotiated: the upstream's description of itself when the session began.
    envelope: the `_meta` that every request carries; empty in the handshake eras.
    back_channel: the running calls of this session, and the requests of the server to their hosts.
    declared: the abilities of hosts that were declared to the server.
    lifetime: reports the end of the session.
    """

    connection: Connection
    negotiated: Negotiated
    transport: str
    envelope: Mapping[str, Any]
    back_channel: BackChannel = field(default_factory=BackChannel)
    declared: HostCapabilities = NOTHING
    lifetime: SessionLifetime = field(default_factory=SessionLifetime)

    @property
    def over(self) -> bool:
        """True if nothing can be sent any more."""
        return self.connection.ended.done()

    @property
    def cheap(self) -> bool:
        """True if one more session takes no process."""
        return TRANSPORTS[self.transport].cheap

    def fits(self, caller: Caller, *, shared: bool = True) -> bool:
        """Return True if the caller answers questions in its era, and the declared abilities are its own or suffice.

        shared: all hosts share the sessions of the server.
        """
        if not shared:
            return False
        if caller.abilities is NOTHING and self.declared is NOTHING:
            return True
        if self.negotiated.era == "modern":
            return caller.era == "modern" or caller.abilities == NOTHING
        return self.declared == caller.abilities or not self.cheap

    def lists(self) -> dict[str, Any]:
        """Return the `_meta` of a request for a list, which declares all abilities to get all items."""
        return {**self.envelope, META_CLIENT_CAPABILITIES: declared(EVERYTHING)} if self.envelope else {}

    def addressed(self, params: dict[str, Any], caller: Caller | None) -> dict[str, Any]:
        """Return the params with the `_meta` of this hop; in the modern era it declares the abilities of the caller."""
        envelope = self.envelope
        if not envelope:
            return params
        if caller is not None and (caller.level is not None or caller.abilities != NOTHING):
            envelope = {**envelope, META_CLIENT_CAPABILITIES: declared(caller.abilities)}
            if caller.level is not None:
                envelope[META_LOG_LEVEL] = caller.level
        return {**params, "_meta": {**params.get("_meta", {}), **envelope}}

    async def declare(self) -> Mapping[str, Any]:
        """Return our client capabilities for another handshake: those of the first."""
        return declared(self.declared, alone=self.back_channel.owner is not None)

    def lost(self) -> None:
        """Report that the session ended by an error: its connection ended, or was abandoned."""
        self.lifetime.over("connection_lost" if self.over else "given_up")

    def closed(self) -> None:
        """Report the end of the session, unless that was reported as an error; its connection is closed next."""
        self.lifetime.over("connection_lost" if self.over else None)

    def renewed(self, negotiated: Negotiated) -> "UpstreamSession":
        """Return the session of this connection after another handshake."""
        self.back_channel.level = None
        self.lifetime.renewed(negotiated.version)
        negotiated = negotiated.redacted(self.back_channel.redaction)
        return replace(self, negotiated=negotiated, envelope=negotiated.envelope())


class SessionHolder(Protocol):
    """The shared connection, as the tasks see it that keep its lists, its subscriptions and its health."""

    @property
    def session(self) -> UpstreamSession | None:
        """The open shared session; None while there is none."""
        ...

    @property
    def busy(self) -> bool:
        """True if calls are running."""
        ...

    @property
    def calls(self) -> int:
        """The number of calls that were sent so far."""
        ...

    async def for_lists(self) -> UpstreamSession | None:
        """Return the session to read lists over; None while there is none."""
        ...

    def lose(self, session: UpstreamSession, reason: str) -> None:
        """Give up a session: no call gets it from now on, and another one is opened."""
        ...
