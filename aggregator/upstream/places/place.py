"""The place of each server that one replica alone runs: the lease that says so, and the way to the replica that has it.

Rule: while no replica runs the server, nothing fails: `settled` waits until one does.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.replicas.hop_client import HopClient
from aggregator.replicas.leases import Held, Leases
from aggregator.upstream.process.reaper_pipe import Reaper

# Seconds between two attempts to reach an owner that did not answer.
_AGAIN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Here:
    """A server that this replica runs, as long as the lease is good."""

    held: Held


@dataclass(frozen=True, slots=True)
class There:
    """A server that another replica runs, since this generation of the lease."""

    replica: str
    generation: int


class OwnerAway(Exception):
    """The owner cannot be reached, or no longer runs the server; nothing was sent.

    answered: it is there, and said so itself.
    """

    def __init__(self, why: str, *, answered: bool = False) -> None:
        super().__init__(why)
        self.answered = answered


class ServerPlace:
    """The place of one server.

    leaving: this replica is about to hand the server over, and takes no calls of others for it.
    """

    def __init__(self, server: str, leases: Leases, hops: HopClient) -> None:
        self.server = server
        self.hops = hops
        self.name = lease_name(server)
        self.leaving = False
        self._leases = leases
        self._avoided: There | None = None
        self._unreachable_since: float | None = None

    def __repr__(self) -> str:
        return f"<ServerPlace {self.server} {'here' if self.held else self.owner or 'nowhere'}>"

    @property
    def silence(self) -> float:
        """Seconds without a word of the owner after which it does not count as there."""
        return self._leases.lease

    @property
    def held(self) -> Held | None:
        """The lease, if this replica has it now."""
        return self._leases.held(self.name)

    @property
    def owner(self) -> str | None:
        """The replica that runs the server, as far as is known."""
        if self.held is not None:
            return self._leases.me
        row = self._leases.owner(self.name)
        return row.owner if row is not None else None

    @property
    def where(self) -> str | None:
        """The place of the server for people: `here`, or the name of a replica; None while it runs nowhere."""
        return "here" if self.held is not None else self.owner

    async def settled(self) -> Here | There:
        """Wait until a replica runs the server; take it over if none does."""
        self._leases.want(self.name)
        while True:
            if (held := self.held) is not None:
                self._avoided = self._unreachable_since = None
                return Here(held)
            there = self._there()
            if there is not None and there != self._avoided:
                return there
            avoided, self._avoided = self._avoided, None
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN if there is not None else None):
                    await self._leases.changed(self.name)
                # Renewals are no changes: what did not answer is asked again only after the pause.
                self._avoided = avoided if self._there() == avoided else None

    def away(self, there: There, why: OwnerAway) -> None:
        """Take note that the owner does not answer; another one takes over, or this one is tried again.

        Raises:
            UpstreamUnavailable: it has not answered for so long that it is there, and cannot be reached.
        """
        now = asyncio.get_running_loop().time()
        if why.answered:
            self._unreachable_since = None
        elif self._unreachable_since is None:
            self._unreachable_since = now
        self._avoided = there
        since = self._unreachable_since
        if since is not None and now - since > 2 * self._leases.lease:
            self._unreachable_since = None
            said = f"{self.server} is run by another replica, which does not answer: {why}; see `replicas.address`."
            raise UpstreamUnavailable(self.server, said)

    def reached(self) -> None:
        """Take note that the owner answers."""
        self._unreachable_since = None

    async def moved(self, there: There) -> None:
        """Wait until the server is no longer there."""
        while self.held is None and self._there() in (there, None):
            await self._leases.changed(self.name)

    @asynccontextmanager
    async def using(self, held: Held, reaper: Reaper) -> AsyncIterator[None]:
        """Run the server inside: its programs are killed in time if the lease is lost, even if this process hangs."""
        async with self._leases.using(held):
            with reaper.fenced(self.server, held):
                yield

    async def leave(self) -> None:
        """Give the server up: its connection has ended."""
        await self._leases.unwant(self.name)

    def _there(self) -> There | None:
        row = self._leases.owner(self.name)
        return There(row.owner, row.generation) if row is not None and row.owner is not None else None


class ServerPlaces:
    """The places of all servers. Until it is `enabled`, each runs here."""

    def __init__(self, leases: Leases, hops: HopClient) -> None:
        self.enabled = False
        self._leases = leases
        self._hops = hops

    def of(self, server: ServerConfig) -> ServerPlace | None:
        """Return the place of a server; None where each replica runs its own."""
        return ServerPlace(server.id, self._leases, self._hops) if self.enabled and server.replicas == "one" else None


def lease_name(server: str) -> str:
    """Return the name of the lease of a server."""
    return f"server {server}"
