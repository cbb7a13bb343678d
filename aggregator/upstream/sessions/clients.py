"""The hosts that this process serves, as upstreams see them: many, or the one that started it over stdio."""

import asyncio
import logging
from typing import Final

from aggregator.domain.abilities import EVERYTHING, NOTHING, HostCapabilities
from aggregator.upstream.caller import Caller
from aggregator.upstream.sessions.back_channel import ClientSide
from aggregator.upstream.transports import TRANSPORTS

log = logging.getLogger(__name__)

# Seconds that a handshake with a server waits for the only host, to declare what that host can do.
ARRIVAL: Final = 1.0


class DownstreamClients:
    """The hosts of this process: many, until `expect_one` is called in the running loop, before anything connects."""

    def __init__(self) -> None:
        self._only: asyncio.Future[Caller] | None = None

    @property
    def single(self) -> bool:
        """True if there is only one host, connected or not."""
        return self._only is not None

    @property
    def awaited(self) -> bool:
        """True if the only host has not connected yet."""
        return self._only is not None and not self._only.done()

    def expect_one(self) -> None:
        """Expect one host only."""
        self._only = asyncio.get_running_loop().create_future()

    def connected(self, caller: Caller) -> None:
        """Take the only host, once it has connected."""
        if self._only is not None and not self._only.done():
            self._only.set_result(caller)

    def client_side(self) -> ClientSide:
        """Return the clients of a server as it sees them on a connection that all hosts share."""
        return ClientSide(self._declare, self._owner if self.single else None)

    async def _declare(self, transport: str) -> HostCapabilities:
        if self._only is not None:
            try:
                async with asyncio.timeout(ARRIVAL):
                    return (await asyncio.shield(self._only)).abilities
            except TimeoutError:
                log.info("servers are greeted before the host is here")
        return NOTHING if TRANSPORTS[transport].cheap else EVERYTHING

    def _owner(self) -> Caller | None:
        return self._only.result() if self._only is not None and self._only.done() else None
