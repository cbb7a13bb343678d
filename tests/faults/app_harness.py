"""The whole application in the test's process, raw servers as its upstreams, and one host of the handshake era."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import ERROR_META_KEY
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.host import Host
from aggregator.upstream.upstream import Upstream
from tests.peers.back_channel import FakeBackChannel

RAW: Final = Path(__file__).with_name("raw_stdio.py")
# The bound of every wait; nothing here should come near it.
BOUND: Final = 10.0

Json = dict[str, Any]


def raw_stdio(
    name: str, mode: str = "serve", *, log: Path | None = None, listing: Path | None = None, **rest: Any
) -> ServerConfig:
    """A raw server over stdio, in the mode that `raw_stdio.py` has by that name."""
    env = {"RAW_LOG": str(log)} if log is not None else {}
    if listing is not None:
        env["RAW_TOOLS"] = str(listing)
    command: Json = {"type": "stdio", "command": sys.executable, "args": ("-I", "-S", str(RAW), mode), "env": env}
    return server_config(name, **(command | rest))


def server_config(name: str, **fields: Any) -> ServerConfig:
    """One upstream with short limits."""
    limits = {"connect_timeout": 5, "reconnect_wait": 2} | fields.pop("limits", {})
    return ServerConfig(**{"id": name, "key": name, "prefix": name, "timeout": 5} | fields, limits=limits)


class AppHarness:
    """A running application, and a host of the handshake era that calls its gateway directly."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.host = Host("test", "canonical", version="2025-11-25")

    def upstream(self, name: str) -> Upstream:
        return self.app.upstreams[name]

    async def ask(self, method: str, params: Json, channel: FakeBackChannel | None = None) -> Json:
        """Send one request as the host."""
        async with asyncio.timeout(BOUND):
            return dict(await self.app.gateway.answer(self.host, method, params, channel or FakeBackChannel()))

    async def call(self, tool: str, channel: FakeBackChannel | None = None, **arguments: Any) -> Json:
        """One `tools/call`."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, channel)

    async def check_echo(self, tool: str, words: str = "hello") -> None:
        """Check that a server answers."""
        assert text_of(await self.call(tool, say=words)) == words

    def tools(self) -> list[str]:
        """Return the tool names that are listed now."""
        return [tool.name for tool in self.app.gateway.catalog.tools]


@asynccontextmanager
async def running_app(*servers: ServerConfig, **rest: Any) -> AsyncIterator[AppHarness]:
    """Run the application with these upstreams, once each has connected or failed."""
    app = build_app(Config(servers=servers, startup_wait=rest.pop("startup_wait", 0.1), **rest))
    async with app.running():
        async with asyncio.timeout(BOUND):
            await app.supervisor.wait_all_tried()
        yield AppHarness(app)


def text_of(result: Json) -> str:
    """The text of a result."""
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def code_of(result: Json) -> str:
    """The machine-readable reason of a refusal, which is an ordinary result for the model to read (A7)."""
    assert result["isError"] is True, result
    assert result["content"][0]["text"]
    return str(result["_meta"][ERROR_META_KEY]["code"])


def lines_of(path: Path) -> list[str]:
    """Return the lines that a raw server has logged so far."""
    return path.read_text().splitlines() if path.exists() else []


def modern(**params: Any) -> Json:
    """Params in the envelope of 2026-07-28."""
    return {**params, "_meta": {META_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}}
