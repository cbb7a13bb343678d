"""A web server in the running loop, and a loop in a thread of its own for servers that outlive one test."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import uvicorn
from starlette.types import ASGIApp

T = TypeVar("T")

# For anything that should take well under a second.
BOUND: Final = 20.0


class _Server(uvicorn.Server):
    """A web server that signals its start, ignores signals, and stops at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.leaving = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.leaving.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        # Once round, so that what is answered already is on its way.
        await asyncio.sleep(0)
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """The app on a free port of loopback; yields `http://127.0.0.1:PORT`."""
    config = uvicorn.Config(app, ws="none", log_config=None, access_log=False)
    server = _Server(config)
    # Said in so many words, or accepted connections wait for acknowledgements (no TCP_NODELAY in asyncio).
    with socket.socket(proto=socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        task = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            async with asyncio.timeout(BOUND):
                await server.up.wait()
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.leaving.set()
            async with asyncio.timeout(BOUND):
                await task


class BackgroundLoop:
    """An event loop in a thread. Contexts opened in it are closed at its end, dependents first."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="background", daemon=True)
        self._open: list[tuple[bool, asyncio.Event, asyncio.Task[None]]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(BOUND)
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done over there; blocks the calling thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * BOUND)

    async def elsewhere(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the background from another running loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def open(self, context: AbstractAsyncContextManager[T], *, leans: bool = False) -> T:
        """Enter a context over there, in a task of its own; `leans` says that it uses others opened here."""
        return self.run(self._enter(context, leans))

    async def _enter(self, context: AbstractAsyncContextManager[T], leans: bool) -> T:
        entered: asyncio.Future[T] = self._loop.create_future()
        leave = asyncio.Event()

        async def live() -> None:
            try:
                async with context as value:
                    entered.set_result(value)
                    await leave.wait()
            except BaseException as error:
                if entered.done():
                    raise
                entered.set_exception(error)

        self._open.append((leans, leave, asyncio.create_task(live())))
        return await entered

    async def _close(self) -> None:
        for leaning in (True, False):
            leaving = [(leave, task) for leans, leave, task in self._open if leans is leaning]
            for leave, _ in leaving:
                leave.set()
            async with asyncio.timeout(BOUND):
                await asyncio.gather(*(task for _, task in leaving))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await self._loop.shutdown_default_executor()


@contextmanager
def closing_in_threads() -> Iterator[Callable[[BackgroundLoop], None]]:
    """Yield a function that closes a loop while the next tests run: a web server takes 0.2 seconds to stop."""
    with ThreadPoolExecutor() as threads:
        closing: list[Future[None]] = []
        yield lambda running: closing.append(threads.submit(running.__exit__, None, None, None))
        for one in closing:
            one.result()
