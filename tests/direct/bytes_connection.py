"""One connection of a host to the web frontends without a socket: a test decides how its bytes are cut."""

import asyncio
from collections import Counter
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from aggregator.frontends.server import WebServer
from aggregator.frontends.web.connection_limits import BoundedConnection
from tests.direct.direct_harness import DirectHarness
from tests.polling import until

# Turns of the loop after which nothing more happens by itself.
_TURNS = 30


class MemoryTransport(asyncio.Transport):
    """A transport that keeps what is written, and holds back what comes while reading is paused."""

    def __init__(self, protocol: BoundedConnection, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self._protocol, self._loop = protocol, loop
        self._held: list[bytes] = []
        self._paused = self._closing = False

    def feed(self, data: bytes) -> None:
        """Bytes of the host have come."""
        self._held.append(data)
        self._deliver()

    def _deliver(self) -> None:
        while self._held and not self._paused and not self._closing:
            self._protocol.data_received(self._held.pop(0))

    def write(self, data: Any) -> None:
        if not self._closing:
            self.written += bytes(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._deliver)

    def get_write_buffer_size(self) -> int:
        return 0


class BytesConnection:
    """A connection to `web`; without `knows`, every message is read by the parser."""

    def __init__(self, it: DirectHarness, web: WebServer, *, knows: bool = True) -> None:
        self._it = it
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(web.app, lifespan="off", ws="none", log_config=None, access_log=False)
        self.state = ServerState()
        posts = web._posts if knows else None
        self.protocol = BoundedConnection(60.0, Counter(), posts, config=config, server_state=self.state, app_state={})
        self.transport = MemoryTransport(self.protocol, loop)
        self.protocol.connection_made(self.transport)

    @property
    def written(self) -> bytes:
        """The bytes of all answers so far."""
        return self.transport.written

    @property
    def timers(self) -> list[str]:
        """The reasons for which the connection may end by itself."""
        own = self.protocol
        found = {"head": own._head, "body": own._body or own._holding, "reader": own._reading}
        if own._idle_since is not None:
            found["idle"] = own.timeout_keep_alive_task
        return [why for why, timer in found.items() if timer is not None]

    async def settle(self) -> None:
        """Return once nothing more happens by itself."""
        before: object = None
        while before != (before := (len(self.written), self.transport.is_closing(), len(self.state.tasks))):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            await until(lambda: len(self._it.app.gateway.drain) == 0, "nothing runs")

    async def leave(self) -> None:
        """Close the connection, as a host does that leaves."""
        self.transport.close()
        await self.settle()
        assert not self.state.tasks
        assert not self.state.connections
