"""The gateway that the browser tabs: `aggregator serve` as users run it, in front of the demo's servers."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import httpx2

from aggregator.storage.database import open_database
from tests.console.demo.world import World
from tests.end_to_end.programs import run, serving
from tests.end_to_end.scripted_host import MODERN, ScriptedHost, http_client, over_http
from tests.peers.toolbox import Json
from tests.polling import until

# A process that reads a new key a moment later takes it for a wrong one, and after a few for one too many.
NOT_KNOWN_YET: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(slots=True)
class Gateway:
    """A running gateway. `states` are the cookies of people who are signed in, by name and role."""

    world: World
    url: str
    log: list[str] = field(repr=False)
    states: dict[tuple[str, str], Json] = field(default_factory=dict, repr=False)

    async def link(self, role: str = "operator", person: str = "maria") -> str:
        """Return a link to sign in with, as `aggregator console` prints it."""
        options = ("--config", str(self.world.config), "--url", self.url, "--role", role, "--as", person)
        done = await run("console", *options, "--no-browser")
        assert done.code == 0, done.err
        return done.out.strip()

    async def console_key(self, agent: str, role: str | None) -> str:
        """Return a new API key of an agent, with a console role or without."""
        more = ("--console", role) if role is not None else ()
        done = await run("keys", "new", agent, *more, "--config", str(self.world.config))
        assert done.code == 0, done.err
        key = next(word for word in done.out.split() if word.startswith("agk_"))
        async with self.client(key) as client:

            async def is_known() -> bool:
                return (await client.get("/v1/tools")).status_code not in NOT_KNOWN_YET

            await until(is_known, "the gateway knows the new key")
        return key

    async def questions(self) -> dict[str, str]:
        """Return what waits for a person: the tool of each question, by its id."""
        async with open_database(self.world.storage) as database:
            return {one.id: one.tool for one in await database.approvals.list("pending", now=time.time())}

    async def change(self, server: str, catalog: str) -> None:
        """Have a server change its tools after they were pinned, so that what changed is held."""
        async with self.client(await self.console_key("desk", "operator")) as client:

            async def pins() -> Json:
                found: Json = (await client.get(f"/console/pins/{server}.json")).json()
                return found

            async def are_pinned() -> bool:
                return bool((await pins()).get("pinned"))

            async def is_held() -> bool:
                return bool((await pins()).get("held"))

            await until(are_pinned, "what it has is pinned")
            self.world.use_definitions(catalog, server)
            assert (await client.post(f"/console/servers/{server}/restart.json", json={})).status_code == 200
            await until(is_held, "what it has now is held")

    def host(self, agent: str, version: str = MODERN) -> AbstractAsyncContextManager[ScriptedHost]:
        """Connect a host as one of the demo's agents."""
        return over_http(self.url, version, self.world.keys[agent])

    def client(self, key: str | None = None) -> httpx2.AsyncClient:
        """Return a plain HTTP client, with an API key or with none."""
        return http_client(self.url, key)


@asynccontextmanager
async def running_gateway(world: World) -> AsyncIterator[Gateway]:
    """Run a gateway until its servers were all tried once."""
    async with serving(world.config) as program:
        gateway = Gateway(world, program.url, program.log)
        async with gateway.client() as client:

            async def is_ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await until(is_ready, "the gateway is ready")
        yield gateway
