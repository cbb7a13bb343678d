"""The way into the console: the rest is loaded at the first request, since templates take time to import."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.web.host_guard import Receive, Scope, Send

if TYPE_CHECKING:
    from aggregator.frontends.console.console import ConsoleFrontend


class Console:
    """An ASGI application for `/console` and the paths below it."""

    def __init__(self, parts: ConsoleParts) -> None:
        self.parts = parts
        self._frontend: ConsoleFrontend | None = None
        self._loading = asyncio.Lock()
        self._closed = False

    async def serve(self, scope: Scope, receive: Receive, send: Send, prefix: str) -> None:
        """Serve one request. `prefix` precedes our paths in the browser."""
        frontend = await self._loaded()
        await frontend.serve(scope, receive, send, prefix)

    def close(self) -> None:
        """End the streams of events: the program is about to end."""
        self._closed = True
        if self._frontend is not None:
            self._frontend.close()

    async def documented(self) -> Mapping[str, Any]:
        """Return the paths of the console for an OpenAPI document."""
        return (await self._loaded()).documented

    async def _loaded(self) -> "ConsoleFrontend":
        async with self._loading:
            if self._frontend is None:
                made = await asyncio.to_thread(_loaded_class)
                self._frontend = made(self.parts)
                if self._closed:
                    self._frontend.close()
            return self._frontend


def _loaded_class() -> "type[ConsoleFrontend]":
    """Import the pages; a thread runs this."""
    from aggregator.frontends.console.console import ConsoleFrontend

    return ConsoleFrontend
