"""Owns every link and its task: starts them side by side, tells when something changed, ends them together.

Law: what is no longer configured takes no new calls at once, and ends when its calls have, or their time is up.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

from aggregator.config.model import ServerConfig
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.process.process import Reaper
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)


class UpstreamObserver(Protocol):
    """The part of the program that is notified by upstreams. `changed` and `resource_updated` are called at once."""

    def changed(self) -> None:
        """Take note that the state, the lists or the health of an upstream changed."""

    async def examine(self, link: Upstream, kind: Kind, definitions: list[Any]) -> None:
        """Examine a list before it counts, in slices."""

    def resource_updated(self, link: Upstream, watched: list[str], uri: str) -> None:
        """Take note that a resource changed. `uri` is as the upstream gave it, `watched` are the URIs subscribed to."""


class Upstreams(dict[str, Upstream]):
    """The upstreams by server id, in config order. One that is ending is still found by its id.

    `by_prefix` holds those in use by the prefix of their names, with "" for one without a prefix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.leaving: dict[str, Upstream] = {}
        self.by_prefix: dict[str, Upstream] = {}

    def replace(self, links: Mapping[str, Upstream]) -> None:
        """Take these upstreams in place of the present ones; the object stays the same."""
        self.clear()
        self.update(links)
        self.by_prefix.clear()
        self.by_prefix.update(_prefixed(links.values()))

    def __missing__(self, server: str) -> Upstream:
        if server in self.leaving:
            return self.leaving[server]
        raise UpstreamUnavailable.for_good(server, f"{server} is no longer configured.")


class Supervisor:
    """The links by server id, in config order, and by the prefix of their names: both change in place. Once `hurry` is
    set, nothing that ends is waited for.

    `redact` takes out of what is told of one what no other may show. `recalls`: somebody will `recall` what they had.
    `slices` runs long work in pieces.
    """

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        links: Upstreams,
        observer: UpstreamObserver,
        slices: Slices,
        redact: Redactor | None = None,
        *,
        recalls: bool = False,
    ) -> None:
        self.hurry = asyncio.Event()
        self._warden = Reaper(self.hurry)
        self._recalls = recalls
        self._observer = observer
        self._news = asyncio.Event()
        self._redact = redact
        self.slices = slices
        self._tasks = Tasks("the supervisor")
        self._alive: dict[Upstream, asyncio.Task[None]] = {}
        self.audience = DownstreamClients()
        self._links = links
        links.replace({server.id: self._link(server) for server in servers})

    @property
    def links(self) -> Mapping[str, Upstream]:
        return self._links

    @property
    def by_prefix(self) -> Mapping[str, Upstream]:
        """Without a prefix only a link that is in use, since any name may be its."""
        return self._links.by_prefix

    def __repr__(self) -> str:
        states = [link.state for link in self.links.values()]
        return f"<Supervisor {', '.join(f'{states.count(state)} {state}' for state in sorted(set(states)))}>"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All enabled links live inside."""
        async with self._tasks:
            for link in self.links.values():
                self._begin(link)
            try:
                yield
            finally:
                await self.stop()
                await self._warden.close()

    async def stop(self) -> None:
        """End every link now, side by side, and with it what its calls wait for."""
        self._warden.end()
        await self._tasks.cancel()

    def reconfigure(self, servers: Iterable[ServerConfig], anew: Collection[str], drain: float) -> None:
        """These servers from now on, in this order, those in `anew` (ids) on another connection.

        What goes may end its calls, in at most `drain` seconds; what comes instead of it shows what that had.
        """
        before, now = dict(self._links), {}
        for server in servers:
            link = before.get(server.id)
            if link is None or server.id in anew:
                now[server.id] = new = self._link(server)
                if link is not None:
                    new.succeed(link)
                new.looked_up()
            else:
                now[server.id] = link
                if link.config != server:
                    link.amend(server)
        self._links.replace(now)
        for link in self._links.values():
            if before.get(link.config.id) is not link:
                self._begin(link)
        for server_id, link in before.items():
            if self._links.get(server_id) is not link and link in self._alive:
                self._links.leaving[server_id] = link
                self._tasks.start(self._retire(link, drain))
        self._wake()

    def _link(self, server: ServerConfig) -> Upstream:
        link = Upstream(server, self._warden, self._link_changed, self.audience, self._redact)
        link.lists.slices = self.slices
        link.lists.look_over = partial(self._observer.examine, link)
        link.watch.told = partial(self._observer.resource_updated, link)
        if not self._recalls:
            link.looked_up()
        return link

    def _begin(self, link: Upstream) -> None:
        if link.config.enabled:
            self._alive[link] = self._tasks.start(link.run())

    async def _retire(self, link: Upstream, drain: float) -> None:
        """Nobody finds it any more; what runs in it may end."""
        if not await link.quiet(drain):
            log.warning("server %s is stopped with %d calls under way", link.config.id, link.in_flight)
        running = self._alive.pop(link)
        running.cancel()
        await asyncio.wait([running])
        if self._links.leaving.get(link.config.id) is link:
            del self._links.leaving[link.config.id]

    def tell_alone(self, host: Hashable, method: str) -> None:
        """Pass a notification of a host on to the servers that have a connection for it alone."""
        for link in self.links.values():
            self._tasks.start(link.tell_alone(host, method))

    async def recall(self, known: Mapping[str, list[Any]]) -> None:
        """Show these definitions by server id, as far as a server is still starting."""
        for server, definitions in known.items():
            if (link := self._links.get(server)) is not None:
                await self._observer.examine(link, "tool", definitions)
        for server, definitions in known.items():
            if (link := self._links.get(server)) is not None:
                link.recall(definitions)
        for link in self.links.values():
            link.looked_up()
        self._tell()

    async def settled(self, at_most: float, between: float) -> None:
        """Wait for the links that are on their way and not shown yet: `at_most` seconds in all, and once one is shown
        only `between` seconds for each next one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most
        while starting := [link for link in self.links.values() if link.settles]:
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

    async def tried(self, link: Upstream, at_most: float) -> None:
        """The same for one, or what has come in its place."""
        deadline, server = asyncio.get_running_loop().time() + at_most, link.config.id
        while self._links.get(server, link).state == "starting" and await self._news_until(deadline):
            pass

    def _starting(self) -> list[Upstream]:
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

    def _link_changed(self, link: Upstream) -> None:
        self._tell()

    def _tell(self) -> None:
        self._wake()
        self._observer.changed()

    def _wake(self) -> None:
        # A new event each time: everyone who waits hears of this change, and nobody of an older one.
        self._news.set()
        self._news = asyncio.Event()


def _prefixed(links: Iterable[Upstream]) -> dict[str, Upstream]:
    return {link.config.prefix: link for link in links if link.config.prefix or link.config.enabled}
