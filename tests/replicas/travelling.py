"""Hosts each of whose requests goes to a replica of their choice, as behind a balancer without memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from tests.end_to_end.scripted_host import BOUND, HttpWire, Inbox, ScriptedHost
from tests.peers.toolbox import Json

_NEXT: Final = -1


class Route(httpx2.AsyncBaseTransport):
    """The way of each request: to the replica `to`, or to the next one with each request while `to` is -1."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.to = _NEXT
        self._turn = 0
        self._below = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None), retries=0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to where it is to go."""
        self._turn += 1
        place = httpx2.URL(self.urls[self.to if self.to != _NEXT else self._turn % len(self.urls)])
        request.url = request.url.copy_with(host=place.host, port=place.port)
        request.headers["host"] = f"{place.host}:{place.port}"
        return await self._below.handle_async_request(request)

    async def aclose(self) -> None:
        """End every connection."""
        await self._below.aclose()


class TravellingHost(ScriptedHost):
    """A host whose `route` says which replica gets the next request."""

    def __init__(self, wire: HttpWire, inbox: Inbox, version: str, capabilities: Json | None, route: Route) -> None:
        super().__init__(wire, inbox, version, capabilities)
        self.route = route
        self.http = wire

    def at(self, replica: int) -> "TravellingHost":
        """Send what follows to this replica."""
        self.route.to = replica
        return self


@asynccontextmanager
async def travelling(
    urls: Sequence[str], version: str, key: str | None = None, capabilities: Json | None = None
) -> AsyncIterator[TravellingHost]:
    """Connect a host, whose every request goes to the next replica until `at` says otherwise."""
    inbox, route = Inbox(), Route(urls)
    headers = {"authorization": f"Bearer {key}"} if key is not None else {}
    client = httpx2.AsyncClient(base_url=urls[0], timeout=BOUND, transport=route, trust_env=False, headers=headers)
    async with client, asyncio.TaskGroup() as tasks:
        wire = HttpWire(inbox, client, version, tasks)
        host = TravellingHost(wire, inbox, version, capabilities, route)
        await host.greet()
        try:
            yield host
        finally:
            if wire.session is not None:
                await client.delete("/mcp", headers=wire.headers({}))
