"""The hosts there may be behind the calls of this process: many, or the only one that started it."""

import asyncio
import logging
from typing import Final

from aggregator.domain.abilities import EVERYTHING, NOTHING, HostCapabilities
from aggregator.upstream.caller import Caller
from aggregator.upstream.sessions.back_channel import ClientSide

log = logging.getLogger(__name__)

# A host that starts a program greets it at once: so long a server's greeting waits to know what that host can do.
ARRIVAL: Final = 1.0
# Where a connection more is a process more; elsewhere hosts that can be asked something get sessions of their own.
_SHARED: Final = frozenset({"stdio", "local"})


class DownstreamClients:
    """Many, until `expect_one` is called; to be called in the running loop, before anything connects."""

    def __init__(self) -> None:
        self._only: asyncio.Future[Caller] | None = None

    @property
    def single(self) -> bool:
        """Whether there is only one host, here already or not."""
        return self._only is not None

    @property
    def awaited(self) -> bool:
        """Whether the only one has not come yet."""
        return self._only is not None and not self._only.done()

    def expect_one(self) -> None:
        """There will be one host only."""
        self._only = asyncio.get_running_loop().create_future()

    def arrived(self, caller: Caller) -> None:
        """The only one is here."""
        if self._only is not None and not self._only.done():
            self._only.set_result(caller)

    def front(self) -> ClientSide:
        """What servers see on a connection for all."""
        return ClientSide(self._declare, self._owner if self.single else None)

    async def _declare(self, transport: str) -> HostCapabilities:
        if self._only is not None:
            try:
                async with asyncio.timeout(ARRIVAL):
                    return (await asyncio.shield(self._only)).abilities
            except TimeoutError:
                log.info("servers are greeted before the host is here")
        return EVERYTHING if transport in _SHARED else NOTHING

    def _owner(self) -> Caller | None:
        return self._only.result() if self._only is not None and self._only.done() else None
