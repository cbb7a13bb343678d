"""The HTTP server below every listener of ours, and the answers that its connections write by themselves."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, Final, cast

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.bounds.ticks import until_next
from aggregator.frontends.acceptor import Acceptor
from aggregator.frontends.uvicorn_parts import Config, Server

# Seconds between two dates in the heads of answers.
DATE_EVERY: Final = 1.0
# Seconds for the TLS handshakes of connections that waited when the socket was closed.
HANDSHAKES: Final = 1.0
_AUTHORITY: Final = re.compile(rb"[^/?#]*://([^/?#]*)")


class _Observed(set[Any]):
    """The connections of a server; `ended` is called with each that has ended."""

    def __init__(self, ended: Callable[[object], None]) -> None:
        super().__init__()
        self._ended = ended

    def discard(self, element: Any) -> None:
        super().discard(element)
        self._ended(element)


class Listener(Server):
    """An HTTP server for one ASGI application at one socket; it leaves signals to the program.

    `connection` makes the protocol of each connection. `last_bytes` are the seconds for answers once it is to end.
    `acceptor` takes the connections; without one, the listener makes its own.
    """

    def __init__(
        self,
        app: Callable[..., Any],
        connection: Callable[..., asyncio.Protocol],
        last_bytes: int,
        *,
        tls: ssl.SSLContext | None = None,
        acceptor: Acceptor | None = None,
    ) -> None:
        config = Config(
            app,
            http=cast("type[asyncio.Protocol]", connection),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=last_bytes,
        )
        self._end = asyncio.Event()
        super().__init__(config)
        config.load()
        config.ssl = tls
        self._acceptor = acceptor

    @asynccontextmanager
    async def serving(self, bound: socket.socket, owner: str) -> AsyncIterator[None]:
        """Serve inside; on the way out, wait for the last answers. `owner` names the task in the log."""
        async with Tasks(owner) as tasks:
            serving = tasks.start(self.serve(sockets=[bound]))
            try:
                yield
            finally:
                self.should_exit = True
                await asyncio.wait([serving])

    @property
    def should_exit(self) -> bool:
        """True once the server has to end. Setting it wakes `main_loop`."""
        return self._end.is_set()

    @should_exit.setter
    def should_exit(self, wanted: bool) -> None:
        if wanted:
            self._end.set()

    async def main_loop(self) -> None:
        # That of uvicorn looks ten times a second whether the server is to end. The date in heads changes each second.
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(DATE_EVERY)):
                    await self._end.wait()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        acceptor = self._acceptor = self._acceptor or Acceptor(sockets[0])
        await self.lifespan.startup()
        connections = self.server_state.connections = _Observed(acceptor.ended)
        acceptor.start(self._protocol, lambda: len(connections), self.config.ssl)
        self.servers = cast(list[asyncio.Server], [acceptor])
        self.started = True

    def close_listeners(self) -> None:
        """Close the listening socket here; where workers share it, the others go on."""
        for server in self.servers:
            server.close()

    async def accept_no_more(self, bound: socket.socket) -> None:
        """Close the listening socket. Connections that are there stay; those that wait to be accepted are taken."""
        # The system resets connections that wait at a socket that is closed, and a proxy cannot tell what came of them.
        with bound.dup() as last:
            last.setblocking(False)
            self.close_listeners()
            waiting = []
            with suppress(OSError):
                while True:
                    taken = last.accept()[0]
                    taken.setblocking(False)
                    waiting.append(taken)
        loop = asyncio.get_running_loop()
        tls = self.config.ssl
        with suppress(TimeoutError):
            # A host that never ends its TLS handshake is not waited for.
            async with asyncio.timeout(HANDSHAKES):
                await asyncio.gather(
                    *(loop.connect_accepted_socket(self._protocol, taken, ssl=tls) for taken in waiting),
                    return_exceptions=True,
                )
                assert self._acceptor is not None
                await self._acceptor.wait_begun()

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = cast(Any, self.config.http_protocol_class)(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def absolute_host(url: bytes) -> bytes | None:
    """Return the host of an absolute target of a request (RFC 9112, section 3.2.2)."""
    absolute = _AUTHORITY.match(url)
    return absolute[1] if absolute is not None else None
