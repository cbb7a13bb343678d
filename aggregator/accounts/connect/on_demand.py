"""A listener on this machine for the pages, opened with the first link (RFC 8252, 7.3).

Rule: the web server is loaded only then, since hosts wait for the start of `aggregator stdio`.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pkgutil import resolve_name
from typing import Final

from aggregator.accounts.connect.parts import ConnectingGrants, OutcomeSeen
from aggregator.domain.bounds.tasks import Tasks

_SERVING: Final = "aggregator.accounts.connect.listener:serving"
HOST: Final = "127.0.0.1"

# A context manager inside which pages are served at a socket.
ServePages = Callable[[socket.socket, ConnectingGrants, OutcomeSeen | None], AbstractAsyncContextManager[None]]


class PagesOnDemand:
    """The `ConnectBase` of a process without a web server. Used inside `running` only."""

    def __init__(self, grants: ConnectingGrants, seen: OutcomeSeen | None = None) -> None:
        self._grants = grants
        self._seen = seen
        self._address: str | None = None
        self._opening = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._open: asyncio.Future[str] | None = None

    async def address(self) -> str | None:
        """Return the address of the listener, opened now if it is not open; None on failure."""
        if self._open is None:
            return None
        self._wanted.set()
        try:
            return await asyncio.shield(self._open)
        except OSError:
            return None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the listener with the first link inside, and close it at the end."""
        self._open = asyncio.get_running_loop().create_future()
        async with Tasks("the pages for connecting") as tasks:
            tasks.start(self._run(self._open))
            try:
                yield
            finally:
                self._open.cancel()
                self._open = None

    async def _run(self, opened: "asyncio.Future[str]") -> None:
        await self._wanted.wait()
        serving: ServePages = await asyncio.to_thread(resolve_name, _SERVING)
        async with AsyncExitStack() as stack:
            try:
                bound = stack.enter_context(socket.create_server((HOST, 0)))
                await stack.enter_async_context(serving(bound, self._grants, self._seen))
            except OSError as error:
                if not opened.done():
                    opened.set_exception(error)
                return
            opened.set_result(f"http://{HOST}:{bound.getsockname()[1]}")
            await asyncio.Event().wait()
