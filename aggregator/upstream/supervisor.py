"""Owns every link and its task: starts them side by side, tells when something changed, ends them together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aggregator.config.model import ServerConfig
from aggregator.domain.tasks import Tasks
from aggregator.upstream.link import Link
from aggregator.upstream.process import Warden

# Once some servers are ready, how long to wait for one more before stragglers are left behind.
STRAGGLER_WAIT: Final = 1.5


class Supervisor:
    """The links by server id, in config order."""

    def __init__(self, servers: Iterable[ServerConfig], changed: Callable[[], None]) -> None:
        self._warden = Warden()
        self._changed = changed
        self._news = asyncio.Event()
        self.links: Mapping[str, Link] = {
            server.id: Link(server, self._warden, self._link_changed) for server in servers
        }

    def __repr__(self) -> str:
        states = [link.state for link in self.links.values()]
        return f"<Supervisor {', '.join(f'{states.count(state)} {state}' for state in sorted(set(states)))}>"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All enabled links live inside."""
        async with Tasks("the supervisor") as tasks:
            for link in self.links.values():
                if link.config.enabled:
                    tasks.start(link.run())
            try:
                yield
            finally:
                await tasks.cancel()
                await self._warden.close()

    async def settled(self, at_most: float) -> None:
        """Wait for the links that are still starting: at most so long, and no longer than others keep arriving."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most
        while any(link.state == "starting" for link in self.links.values()):
            some_ready = any(link.state == "ready" for link in self.links.values())
            until = min(deadline, loop.time() + STRAGGLER_WAIT) if some_ready else deadline
            self._news.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._news.wait()
            except TimeoutError:
                return

    async def all_tried(self) -> None:
        """Wait until every link has come up or failed once; `connect_timeout` bounds each."""
        while any(link.state == "starting" for link in self.links.values()):
            self._news.clear()
            await self._news.wait()

    async def tried(self, server: str) -> None:
        """The same for one server, and for all when there is none of that id."""
        link = self.links.get(server)
        if link is None:
            await self.all_tried()
            return
        while link.state == "starting":
            self._news.clear()
            await self._news.wait()

    def _link_changed(self, link: Link) -> None:
        self._news.set()
        self._changed()
