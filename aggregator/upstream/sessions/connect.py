"""Finding the way in to one upstream: the transport and the era it answers to, remembered while they work."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.model import Protocol, ServerConfig
from aggregator.domain.abilities import EVERYTHING, NOTHING, HostCapabilities, declared
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamUnavailable,
)
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_LOG_LEVEL, Era
from aggregator.upstream.caller import Caller
from aggregator.upstream.connection import Connection, Inbound, Open, SessionExpired
from aggregator.upstream.process.process import ChildProcess, Reaper
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.back_channel import AskingHabit, BackChannel, ClientSide
from aggregator.upstream.sessions.negotiate import Negotiated, negotiate
from aggregator.upstream.transports import TRANSPORTS
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

_LAUNCH_POLL: Final = 0.1
# Statuses by which a Streamable HTTP endpoint says that it is not one (SH, Backward Compatibility).
_NOT_STREAMABLE: Final = frozenset({400, 404, 405})


Hear = Callable[[str, dict[str, Any]], None]
"""Gets the method and the params of what a server says that belongs to no call."""

# What servers of the handshake eras were told once is only true of hosts that can do exactly that; where a session is
# cheap, others get one of their own.
CHEAP: Final = frozenset({"http", "sse"})


@dataclass(frozen=True, slots=True)
class UpstreamSession:
    """An upstream that answers. `declared` is what it was told that can be asked of the hosts behind this session."""

    connection: Connection
    greeting: Negotiated
    transport: str
    envelope: Mapping[str, Any]
    callers: BackChannel = field(default_factory=BackChannel)
    declared: HostCapabilities = NOTHING

    @property
    def over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.connection.ended.done()

    @property
    def cheap(self) -> bool:
        """Whether another session costs the server little: no process."""
        return self.transport in CHEAP

    def fits(self, caller: Caller) -> bool:
        """Whether this caller is asked in the way of its era, and what was declared is true of it, or has to do."""
        if self.greeting.era == "modern":
            return caller.era == "modern" or caller.abilities == NOTHING
        return self.declared == caller.abilities or not self.cheap

    def lists(self) -> dict[str, Any]:
        """Return the `_meta` of a request for a list: of what there is for hosts that can be asked everything."""
        return {**self.envelope, META_CLIENT_CAPABILITIES: declared(EVERYTHING)} if self.envelope else {}

    def addressed(self, params: dict[str, Any], caller: Caller | None) -> dict[str, Any]:
        """The params with the `_meta` of this hop: in the modern era that says what the caller can be asked."""
        envelope = self.envelope
        if not envelope:
            return params
        if caller is not None and (caller.level is not None or caller.abilities != NOTHING):
            envelope = {**envelope, META_CLIENT_CAPABILITIES: declared(caller.abilities)}
            if caller.level is not None:
                envelope[META_LOG_LEVEL] = caller.level
        return {**params, "_meta": {**params.get("_meta", {}), **envelope}}

    async def declare(self) -> Mapping[str, Any]:
        """Our `capabilities` in another handshake: as before."""
        return declared(self.declared, alone=self.callers.owner is not None)

    def renewed(self, greeting: Negotiated) -> "UpstreamSession":
        """The same connection after another handshake."""
        self.callers.level = None
        greeting = greeting.discreetly(self.callers.discreet)
        return replace(self, greeting=greeting, envelope=greeting.envelope())


class Connector:
    """Enter as often as need be: each time the way that worked is tried first, and a failure makes it forgotten."""

    def __init__(self, config: ServerConfig, warden: Reaper, hear: Hear, discreet: ServerRedaction) -> None:
        self._config = config
        self._discreet = discreet
        self._warden = warden
        self._hear = hear
        self.manner = AskingHabit()
        self._known: tuple[str, Protocol] | None = None

    async def enter(
        self, stack: AsyncExitStack, placed: ServerConfig, child: ChildProcess | None, front: ClientSide
    ) -> UpstreamSession:
        """Connect and greet; `stack` closes what was opened. `placed` is the config with its port filled in.

        Raises:
            RpcError, PeerGone, UpstreamError: it cannot be entered in any way.
        """
        ways = self._ways()
        for number, (transport, protocol) in enumerate(ways, 1):
            try:
                session = await self._try(stack, placed, transport, protocol, child, front)
            except (PeerGone, RpcError, UpstreamError) as error:
                if number == len(ways) or not _leads_on(error, transport, protocol):
                    # One that is away may come back as it was; one that answers differently is another by now.
                    if not isinstance(error, UpstreamUnavailable):
                        self._known = None
                    raise
                log.info("%s: %s; trying %s, %s", self._config.id, error, *ways[number])
            else:
                # A modern server is asked as one nobody knows: should it be older one day, the same question tells.
                self._known = (transport, "legacy" if session.greeting.era == "legacy" else protocol)
                return session
        raise AssertionError("unreachable: the last way returns or raises")

    async def again(
        self,
        stack: AsyncExitStack,
        placed: ServerConfig,
        transport: str,
        era: Era,
        front: ClientSide,
        hear: Hear,
    ) -> UpstreamSession:
        """Connect once more to a server that is connected over this transport, in this era; `stack` closes it.

        Raises:
            RpcError, PeerGone, UpstreamError: it cannot be entered so.
        """
        return await self._try(stack, placed, transport, era, None, front, hear)

    def timed_out(self) -> None:
        """The next attempt leaves the probe out, in case that it was in the way; the one after that asks again."""
        config = self._config
        if config.protocol != "auto" or self._known is not None or config.type == "sse":
            self._known = None
        else:
            self._known = ("http" if config.type == "auto" else config.type, "legacy")

    def _ways(self) -> list[tuple[str, Protocol]]:
        """(transport, protocol) pairs in the order to try them."""
        if self._known is not None:
            return [self._known]
        transport, protocol = self._config.type, self._config.protocol
        if transport == "sse":
            # The transport is older than the modern era.
            return [("sse", "legacy")]
        first = "http" if transport == "auto" else transport
        ways: list[tuple[str, Protocol]] = [(first, protocol)]
        if protocol == "auto":
            # For servers that die of the probe.
            ways.append((first, "legacy"))
        if transport == "auto":
            ways.append(("sse", "legacy"))
        return ways

    async def _try(
        self,
        stack: AsyncExitStack,
        placed: ServerConfig,
        transport: str,
        protocol: Protocol,
        child: ChildProcess | None,
        front: ClientSide,
        hear: Hear | None = None,
    ) -> UpstreamSession:
        # Loading a transport's libraries takes a while: not on the loop.
        opener: Open = await asyncio.to_thread(resolve_name, TRANSPORTS[transport])
        told = NOTHING

        async def declare() -> Mapping[str, Any]:
            nonlocal told
            told = await front.declare(transport)
            return declared(told, alone=front.owner is not None)

        while True:
            callers = BackChannel(placed.id, hear or self._hear, front.owner, self._discreet, self.manner)
            async with AsyncExitStack() as attempt:
                try:
                    inbound = Inbound(callers.asked, callers.told)
                    connection = await attempt.enter_async_context(opener(placed, inbound, self._warden))
                    attempt.push_async_callback(callers.close)
                    said = await negotiate(placed.id, connection, protocol, declare)
                    greeting = said.discreetly(self._discreet)
                except UpstreamUnavailable:
                    # What we launched may need a moment until it listens.
                    if child is None or child.exited.done():
                        raise
                except SessionExpired:
                    raise UpstreamBadAnswer(placed.id, f"{placed.id} forgot its session at once.") from None
                else:
                    stack.push_async_exit(attempt.pop_all())
                    return UpstreamSession(connection, greeting, transport, greeting.envelope(), callers, told)
            await asyncio.sleep(_LAUNCH_POLL)


def _leads_on(error: Exception, transport: str, protocol: Protocol) -> bool:
    """Whether another way may work where this one failed like that."""
    if isinstance(error, PeerGone):
        return protocol == "auto"
    return transport == "http" and isinstance(error, UpstreamHttpStatus) and error.details["status"] in _NOT_STREAMABLE
