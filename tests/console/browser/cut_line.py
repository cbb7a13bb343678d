"""A line to a gateway that can be cut, as when a laptop sleeps or a proxy restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Line:
    """A relay of bytes between a port of its own and that of a gateway."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 80)
        self._open: set[asyncio.StreamWriter] = set()
        self.is_cut = False

    def cut(self) -> None:
        """End all connections, and take none until `mend`."""
        self.is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """Take connections again."""
        self.is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until one side ends it."""
        self._open.add(writer)
        try:
            if not self.is_cut:
                their_reader, their_writer = await asyncio.open_connection(*self._to)
                self._open.add(their_writer)
                await asyncio.wait(
                    [asyncio.create_task(_pass_on(*one)) for one in ((reader, their_writer), (their_reader, writer))],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                self._open.discard(their_writer)
                their_writer.transport.abort()
        finally:
            self._open.discard(writer)
            writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[tuple[Line, str]]:
    """Give a line to a gateway, and the address it has there."""
    line = Line(url)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    async with server:
        yield line, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        line.cut()
