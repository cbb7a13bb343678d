"""Owns every link and its task: starts them side by side, tells when something changed, ends them together."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aggregator.config.model import ServerConfig
from aggregator.domain.tasks import Tasks
from aggregator.upstream.audience import Audience
from aggregator.upstream.link import Link
from aggregator.upstream.process import Warden

log = logging.getLogger(__name__)


class Supervisor:
    """The links by server id, in config order. `redact` takes out of what is told of one what no other may show."""

    def __init__(
        self, servers: Iterable[ServerConfig], changed: Callable[[], None], redact: Callable[[str], str] | None = None
    ) -> None:
        self._warden = Warden()
        self._changed = changed
        self._news = asyncio.Event()
        self._tasks = Tasks("the supervisor")
        self.audience = Audience()
        self.links: Mapping[str, Link] = {
            server.id: Link(server, self._warden, self._link_changed, self.audience, redact) for server in servers
        }

    @property
    def by_prefix(self) -> Mapping[str, Link]:
        """The links by the prefix of their names; without one only a link that is in use, since any name may be its."""
        links = self.links.values()
        return {link.config.prefix: link for link in links if link.config.prefix or link.config.enabled}

    def __repr__(self) -> str:
        states = [link.state for link in self.links.values()]
        return f"<Supervisor {', '.join(f'{states.count(state)} {state}' for state in sorted(set(states)))}>"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All enabled links live inside."""
        async with self._tasks as tasks:
            for link in self.links.values():
                if link.config.enabled:
                    tasks.start(link.run())
            try:
                yield
            finally:
                await tasks.cancel()
                await self._warden.close()

    def tell_alone(self, host: Hashable, method: str) -> None:
        """Pass a notification of a host on to the servers that have a connection for it alone."""
        for link in self.links.values():
            self._tasks.start(link.tell_alone(host, method))

    def recall(self, known: Mapping[str, list[Any]]) -> None:
        """Show these definitions by server id, as far as a server is still starting."""
        for server, definitions in known.items():
            self.links[server].recall(definitions)
        self._tell()

    async def settled(self, at_most: float, between: float) -> None:
        """Wait for the links that are still starting and not shown: `at_most` seconds in all, and once one is shown
        only `between` seconds for each next one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most
        while starting := [link for link in self._starting() if not link.shown]:
            some_shown = any(link.shown for link in self.links.values())
            if not await self._news_until(min(deadline, loop.time() + between) if some_shown else deadline):
                names = ", ".join(link.config.id for link in starting)
                log.info("the list goes out without %s, still connecting", names)
                return

    async def all_tried(self, at_most: float | None = None) -> None:
        """Wait until every link has come up or failed once; `connect_timeout` bounds each."""
        deadline = None if at_most is None else asyncio.get_running_loop().time() + at_most
        while self._starting() and await self._news_until(deadline):
            pass

    async def tried(self, link: Link, at_most: float) -> None:
        """The same for one."""
        deadline = asyncio.get_running_loop().time() + at_most
        while link.state == "starting" and await self._news_until(deadline):
            pass

    def _starting(self) -> list[Link]:
        return [link for link in self.links.values() if link.state == "starting"]

    async def _news_until(self, deadline: float | None) -> bool:
        """Whether a link changed before the deadline."""
        news = self._news
        try:
            async with asyncio.timeout_at(deadline):
                await news.wait()
        except TimeoutError:
            return False
        return True

    def _link_changed(self, link: Link) -> None:
        self._tell()

    def _tell(self) -> None:
        # A new event each time: everyone who waits hears of this change, and nobody of an older one.
        self._news.set()
        self._news = asyncio.Event()
        self._changed()
