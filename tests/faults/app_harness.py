"""What the tests stand on: the whole product in process, one raw server after the other behind it, and a plain host."""

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.model import Config, ServerConfig
from aggregator.domain.errors import ERROR_META_KEY
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.host import Host
from aggregator.upstream.upstream import Upstream
from aggregator.wire.peer import NoBackChannel

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
    limits = {"timeout": 5, "connect_timeout": 5, "reconnect_wait": 2}
    return ServerConfig(**{"id": name, "key": name, "prefix": name} | limits | fields)


class FakeBackChannel:
    """A channel that keeps what was said on it."""

    _ids = itertools.count(1)

    def __init__(self) -> None:
        self.request_id: str | int = next(self._ids)
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.notifications.append((method, params))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel


class AppHarness:
    """A running product, and a host of the handshake era at its innermost door."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.host = Host("test", "canonical", version="2025-11-25")

    def upstream(self, name: str) -> Upstream:
        return self.app.upstreams[name]

    async def ask(self, method: str, params: Json, way: FakeBackChannel | None = None) -> Json:
        """One request by the plain host."""
        async with asyncio.timeout(BOUND):
            return dict(await self.app.gateway.answer(self.host, method, params, way or FakeBackChannel()))

    async def call(self, tool: str, way: FakeBackChannel | None = None, **arguments: Any) -> Json:
        """One `tools/call`."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, way)

    async def check_echo(self, tool: str, words: str = "hello") -> None:
        """Proves that a server answers."""
        assert text_of(await self.call(tool, say=words)) == words

    def tools(self) -> list[str]:
        """The names listed now."""
        return [tool.name for tool in self.app.gateway.catalog.tools]


@asynccontextmanager
async def running_app(*servers: ServerConfig, **rest: Any) -> AsyncIterator[AppHarness]:
    """The product with these upstreams, each of which has come up or failed by now."""
    app = build_app(Config(servers=servers, startup_wait=rest.pop("startup_wait", 0.1), **rest))
    async with app.running():
        async with asyncio.timeout(BOUND):
            await app.supervisor.wait_all_tried()
        yield AppHarness(app)


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something that is bound to happen."""
    try:
        async with asyncio.timeout(BOUND):
            while True:
                if condition():
                    return
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"it never came to be that {what}") from None


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
    """What a raw server has noted so far."""
    return path.read_text().splitlines() if path.exists() else []


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.parent.parent.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def modern(**params: Any) -> Json:
    """Params in the envelope of 2026-07-28."""
    return {**params, "_meta": {META_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}}}
