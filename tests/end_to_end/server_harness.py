"""The aggregator in the test's process: a configuration as an operator writes it, its frontends, and hosts."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.domain.principal import Principal
from aggregator.frontends.server import WebServer, listening_socket, serve_web
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.host import Host as GatewayHost
from tests.end_to_end.scripted_host import BOUND, ScriptedHost, over_http, over_pipes, over_sse
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

ROOT: Final = Path(__file__).resolve().parents[2]
FRONTENDS: Final = ("stdio", "sse", "http")


def sdk_stdio_entry(**fields: Any) -> Json:
    """The SDK peer as a child process."""
    return {"command": sys.executable, "args": ["-m", "tests.peers.sdk", "stdio"], "cwd": str(ROOT), **fields}


def raw_stdio_entry(*args: str, **fields: Any) -> Json:
    """The raw peer as a child process."""
    return {"command": sys.executable, "args": ["-m", "tests.peers.raw", *args], "cwd": str(ROOT), **fields}


def local_entry(**fields: Any) -> Json:
    return {"target": "tests.peers.sdk:build", **fields}


def write_config(folder: Path, servers: Mapping[str, Json], **settings: Any) -> Path:
    """A configuration file."""
    path = folder / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": servers, **settings}))
    return path


class ServerHarness:
    """A running aggregator in a background loop, on a free port; `policies` and `storage` are those of `App`."""

    def __init__(
        self, background: BackgroundLoop, path: Path, policies: Path | None = None, storage: str | None = None
    ) -> None:
        loaded = load(path, dict(os.environ))
        assert not loaded.problems, loaded.problems
        self.config = loaded.config
        self.background = background
        self._policies, self._storage = policies, storage
        self.url, self.app = background.open(self._open(), leans=True)

    def build_app(self) -> tuple[App, WebServer]:
        """Build the application and its web frontends."""
        app = build_app(self.config, self._policies, self._storage)
        return app, WebServer(app.gateway, self.config, app.access, app.report)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[str, App]]:
        app, web = self.build_app()
        await app.load_keys()
        stopping = asyncio.Event()
        with listening_socket("127.0.0.1", 0) as bound:
            async with app.running():
                serving = asyncio.create_task(serve_web(web, bound, stopping))
                async with asyncio.timeout(BOUND):
                    await app.supervisor.wait_all_tried()
                try:
                    yield f"http://127.0.0.1:{bound.getsockname()[1]}", app
                finally:
                    stopping.set()
                    await serving

    @asynccontextmanager
    async def host(
        self,
        frontend: str,
        version: str,
        agent: str = "local",
        key: str | None = None,
        capabilities: Json | None = None,
    ) -> AsyncIterator[ScriptedHost]:
        """Connect a host to this frontend: as an agent over stdio, with an API key over the web."""
        match frontend:
            case "http":
                async with over_http(self.url, version, key, capabilities) as host:
                    yield host
            case "sse":
                async with over_sse(self.url, version, key, capabilities) as host:
                    yield host
            case _:
                async with self._pipes(version, agent, capabilities) as host:
                    yield host

    @asynccontextmanager
    async def _pipes(self, version: str, agent: str, capabilities: Json | None) -> AsyncIterator[ScriptedHost]:
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        serving = asyncio.ensure_future(self.background.elsewhere(self._stdio(their_in, their_out, agent)))
        try:
            async with over_pipes(our_in, our_out, version, capabilities) as host:
                yield host
        finally:
            async with asyncio.timeout(BOUND):
                await serving

    async def _stdio(self, reading: int, writing: int, agent: str) -> None:
        behind = GatewayHost("stdio", self.config.stdio.names, Principal(agent), session="stdio")
        with os.fdopen(reading, "rb", buffering=0) as stdin, os.fdopen(writing, "wb", buffering=0) as stdout:
            await serve_stdio(self.app.gateway, behind, stdin, stdout)
