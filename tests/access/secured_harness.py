"""A running aggregator with policies and API keys: hosts connect as one of its agents, to any frontend."""

import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from aggregator.identity.keys import new_key, policy_line
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost, http_client
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

# Every frontend in every era that it speaks.
HOST_KINDS: Final = [(frontend, version) for frontend in ("stdio", "sse", "http") for version in (LEGACY[-1], MODERN)]
WEB_HOST_KINDS: Final = [host_kind for host_kind in HOST_KINDS if host_kind[0] != "stdio"]


def write_policies(folder: Path, policies: object, name: str = "main.yaml") -> None:
    """Replace a policy file whole, as editors do."""
    folder.mkdir(exist_ok=True)
    made = folder / f".{name}.new"
    made.write_text(policies if isinstance(policies, str) else json.dumps(policies))
    os.replace(made, folder / name)


class SecuredHarness(ServerHarness):
    """A `ServerHarness` in which each of `agents` has a key in the policy files."""

    def __init__(
        self,
        background: BackgroundLoop,
        folder: Path,
        servers: Mapping[str, Json],
        policies: object,
        agents: Iterable[str],
        storage: str | None = None,
        **settings: Any,
    ) -> None:
        self.policies = folder / "policies"
        made = {agent: new_key(agent, now=time.time()) for agent in agents}
        self.keys = {agent: key.text for agent, key in made.items()}
        write_policies(self.policies, policies)
        lines = {agent: {"keys": [policy_line(key.record)]} for agent, key in made.items()}
        write_policies(self.policies, {"agents": lines}, "keys.yaml")
        super().__init__(background, write_config(folder, servers, **settings), self.policies, storage)

    def set_policies(self, policies: object) -> None:
        """Write other rules; they take effect in a moment."""
        write_policies(self.policies, policies)

    async def wait_for_policies(self, before: str | None) -> None:
        """Wait until the rules are no longer those of the revision `before`."""
        await until(lambda: self.revision != before)

    @property
    def revision(self) -> str | None:
        assert self.app.live is not None
        book = self.app.live.rulebook
        return book.revision if book is not None else None

    @asynccontextmanager
    async def connect_as(
        self, host_kind: tuple[str, str], agent: str, capabilities: Json | None = None
    ) -> AsyncIterator[ScriptedHost]:
        """Connect a host as this agent, to this frontend and in this era."""
        async with self.host(*host_kind, agent, self.keys.get(agent), capabilities) as host:
            yield host

    def client(self, agent: str | None = None) -> httpx2.AsyncClient:
        """Return a plain HTTP client, with the key of an agent or with none."""
        return http_client(self.url, self.keys[agent] if agent is not None else None)

    async def ready(self) -> Json:
        async with self.client() as client:
            found: Json = (await client.get("/readyz")).json()
        return found


OpenHarness = Callable[..., SecuredHarness]
