"""A TCP relay whose way can be cut: what one replica sees when the database cannot be reached from where it runs."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

_PART = 65536


class BreakableRelay:
    """A relay from a free port of loopback to `port`. While it is `held`, nothing passes and connections stay open."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.heal()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(self) -> None:
        """Let nothing pass: connections stay open, as where a cable is out."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything pass again."""
        self._open.set()

    def cut(self) -> None:
        """End every connection."""
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._open.wait()
            theirs, ours = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(ours)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, ours))
                    both.create_task(self._pump(theirs, writer))
            finally:
                self._writers.discard(ours)
                ours.close()
        except (OSError, ExceptionGroup):
            pass
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while part := await reader.read(_PART):
                await self._open.wait()
                writer.write(part)
                await writer.drain()
        writer.close()
