"""The program that serves a URL (`launch` in its config): started before the connection, and ended with it."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.config.server_config import ServerConfig
from aggregator.config.servers.checks import FREE_PORT
from aggregator.secret_sources.reference import DeferredText
from aggregator.upstream.process.process import ChildProcess, run_child
from aggregator.upstream.process.reaper_pipe import Reaper


@asynccontextmanager
async def launched(server: ServerConfig, reaper: Reaper) -> AsyncIterator[tuple[ServerConfig, ChildProcess | None]]:
    """Yield the config with the port filled in and the running program; None if the config launches none.

    Raises:
        UpstreamError: the program could not be started.
    """
    launch = server.launch
    if launch is None:
        yield server, None
        return
    port = str(_free_port())
    args = tuple(arg.replace(FREE_PORT, port) for arg in launch.args)
    env = {name: value.replace(FREE_PORT, port) for name, value in launch.env.items()}
    late = tuple(_placed(text, port) for text in server.references)
    placed = server.model_copy(update={"url": (server.url or "").replace(FREE_PORT, port), "references": late})
    async with run_child(
        server.id,
        launch.command,
        args,
        env,
        launch.cwd,
        None,
        reaper,
        close_grace=0,
        memory_limit=server.limits.memory_limit,
    ) as child:
        yield placed, child


def _placed(text: DeferredText, port: str) -> DeferredText:
    """Return a text that is completed later, with the port filled in."""
    parts = (part.replace(FREE_PORT, port) if isinstance(part, str) else part for part in text.parts)
    return DeferredText(text.where, tuple(parts))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
