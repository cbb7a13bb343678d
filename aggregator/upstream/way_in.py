"""Finding the way in to one upstream: the transport and the era it answers to, remembered while they work."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.model import Protocol, ServerConfig
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamUnavailable,
)
from aggregator.upstream.connection import TRANSPORTS, Connection, Inbound, Open, SessionExpired
from aggregator.upstream.negotiate import Greeting, negotiate
from aggregator.upstream.process import Child, Warden
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

_LAUNCH_POLL: Final = 0.1
# Statuses by which a Streamable HTTP endpoint says that it is not one (SH, Backward Compatibility).
_NOT_STREAMABLE: Final = frozenset({400, 404, 405})


@dataclass(frozen=True, slots=True)
class Session:
    """An upstream that answers."""

    connection: Connection
    greeting: Greeting
    transport: str
    envelope: Mapping[str, Any]

    @property
    def over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.connection.ended.done()


class WayIn:
    """Enter as often as need be: each time the way that worked is tried first, and a failure makes it forgotten."""

    def __init__(self, config: ServerConfig, warden: Warden, inbound: Inbound) -> None:
        self._config = config
        self._warden = warden
        self._inbound = inbound
        self._known: tuple[str, Protocol] | None = None

    async def enter(self, stack: AsyncExitStack, placed: ServerConfig, child: Child | None) -> Session:
        """Connect and greet; `stack` closes what was opened. `placed` is the config with its port filled in.

        Raises:
            RpcError, PeerGone, UpstreamError: it cannot be entered in any way.
        """
        ways = self._ways()
        for number, (transport, protocol) in enumerate(ways, 1):
            try:
                session = await self._try(stack, placed, transport, protocol, child)
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
        self, stack: AsyncExitStack, placed: ServerConfig, transport: str, protocol: Protocol, child: Child | None
    ) -> Session:
        # Loading a transport's libraries takes a while: not on the loop.
        opener: Open = await asyncio.to_thread(resolve_name, TRANSPORTS[transport])
        while True:
            async with AsyncExitStack() as attempt:
                try:
                    connection = await attempt.enter_async_context(opener(placed, self._inbound, self._warden))
                    greeting = await negotiate(placed.id, connection, protocol)
                except UpstreamUnavailable:
                    # What we launched may need a moment until it listens.
                    if child is None or child.exited.done():
                        raise
                except SessionExpired:
                    raise UpstreamBadAnswer(placed.id, f"{placed.id} forgot its session at once.") from None
                else:
                    stack.push_async_exit(attempt.pop_all())
                    return Session(connection, greeting, transport, greeting.envelope())
            await asyncio.sleep(_LAUNCH_POLL)


def _leads_on(error: Exception, transport: str, protocol: Protocol) -> bool:
    """Whether another way may work where this one failed like that."""
    if isinstance(error, PeerGone):
        return protocol == "auto"
    return transport == "http" and isinstance(error, UpstreamHttpStatus) and error.details["status"] in _NOT_STREAMABLE
