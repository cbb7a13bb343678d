"""`launch` of a server reached by URL: the program that serves it, started before the connection and ended with it."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.config.model import ServerConfig
from aggregator.config.servers.checks import FREE_PORT
from aggregator.upstream.process.process import ChildProcess, ProcessLimits, Reaper, running


@asynccontextmanager
async def launched(server: ServerConfig, warden: Reaper) -> AsyncIterator[tuple[ServerConfig, ChildProcess | None]]:
    """The running program, and the config with the port it was given; None when the config launches nothing.

    Raises:
        UpstreamError: it could not be started.
    """
    launch = server.launch
    if launch is None:
        yield server, None
        return
    port = str(_free_port())
    args = tuple(arg.replace(FREE_PORT, port) for arg in launch.args)
    env = {name: value.replace(FREE_PORT, port) for name, value in launch.env.items()}
    placed = server.model_copy(update={"url": (server.url or "").replace(FREE_PORT, port)})
    bounds = ProcessLimits(server.stderr_per_minute, server.memory_limit)
    async with running(
        server.id, launch.command, args, env, launch.cwd, None, warden, close_grace=0, bounds=bounds
    ) as child:
        yield placed, child


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
