"""Puts the house together: upstreams, catalog, gateway. The doors are opened by the commands that need them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aggregator.config.model import Config
from aggregator.gateway.gateway import Gateway
from aggregator.upstream.link import Link
from aggregator.upstream.supervisor import Supervisor


class App:
    """Everything but the doors, for one configuration."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.supervisor = Supervisor(config.servers, self._changed)
        self.gateway = Gateway(config, self.supervisor)

    @property
    def links(self) -> Mapping[str, Link]:
        """The upstreams by server id, in config order."""
        return self.supervisor.links

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The upstreams are connected inside, and all ended on the way out."""
        async with self.supervisor.running():
            yield

    def report(self) -> tuple[bool, Mapping[str, Any]]:
        """Whether every upstream has come up or failed by now, and how each is."""
        servers = {
            name: {"state": link.state, "reason": link.reason, "tools": len(link.definitions)}
            for name, link in self.links.items()
        }
        ready = all(link.state != "starting" for link in self.links.values())
        return ready, {"ready": ready, "tools": len(self.gateway.catalog), "servers": servers}

    def _changed(self) -> None:
        self.gateway.restock()
