"""The connections of one of several workers that share a listening socket.

A worker leaves a connection to another one that has fewer, for a moment: so those that stay open are spread evenly,
which the kernel does not do (docs/decisions/0031-workers.md has the figures).
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from ssl import SSLContext
from typing import Final, NamedTuple

from aggregator.domain.bounds.tasks import Tasks
from aggregator.workers.table import WorkerTable

log = logging.getLogger(__name__)

# Seconds that a connection is left to the others, and that none is taken where the system has no room for one.
_LEFT_FOR: Final = 0.002
_NO_ROOM_FOR: Final = 1.0
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """The taking of connections from the socket `bound`; `line` is this worker's in the table."""

    def __init__(self, bound: socket.socket, table: WorkerTable, line: int) -> None:
        self._bound = bound
        self._table = table
        self._line = line
        self._make: Callable[[], asyncio.Protocol] | None = None
        self._count: Callable[[], int] = int
        self._ssl: SSLContext | None = None
        self._tasks = Tasks("the acceptor")
        self._again: asyncio.TimerHandle | None = None

    @property
    def beginning(self) -> int:
        """The number of connections that were taken and have not begun: their handshakes are under way."""
        return len(self._tasks)

    def start(
        self, make: Callable[[], asyncio.Protocol], count: Callable[[], int], ssl: SSLContext | None = None
    ) -> None:
        """Begin to take connections. `make` makes the protocol of one, `count` returns how many there are."""
        self._make, self._count, self._ssl = make, count, ssl
        self._bound.setblocking(False)
        self._table.accept(self._line, True)
        asyncio.get_running_loop().add_reader(self._bound.fileno(), self._ready)

    def close(self) -> None:
        """Take no further connections; the port is closed once each worker, and the supervisor, has done so."""
        if self._make is None:
            return
        self._make = None
        self._table.accept(self._line, False)
        self._stop_reading()
        self._bound.close()

    async def wait_begun(self) -> None:
        """Wait until the connections that were taken are among those that `count` counts, or have failed."""
        await self._tasks.wait_ended()

    async def wait_closed(self) -> None:
        """Give up the connections that have not begun."""
        await self._tasks.cancel()

    def report(self) -> None:
        """Tell the other workers how many connections there are."""
        self._table.count(self._line, self._count() + self.beginning)

    def _ready(self) -> None:
        mine = self._count() + self.beginning
        self._table.count(self._line, mine)
        if self._table.fewer_elsewhere(self._line, mine):
            self._pause(_LEFT_FOR)
        else:
            self._accept()

    def _accept(self) -> None:
        """Take one connection: the next is again for the worker that has the fewest."""
        if self._make is None:
            return
        try:
            taken, _ = self._bound.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            log.error("no connection can be taken now: %s", error.strerror)
            self._pause(_NO_ROOM_FOR)
            return
        taken.setblocking(False)
        self._tasks.start(self._begin(taken, self._make))
        self.report()

    async def _begin(self, taken: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(make, taken, ssl=self._ssl)
        except OSError as error:
            # The host has left, or its handshake failed.
            log.debug("a connection was not begun: %s", error)
            taken.close()

    def _pause(self, seconds: float) -> None:
        self._stop_reading()
        self._again = asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._again = None
        if self._make is not None:
            asyncio.get_running_loop().add_reader(self._bound.fileno(), self._ready)
            self._accept()

    def _stop_reading(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        asyncio.get_running_loop().remove_reader(self._bound.fileno())


class SharedSocket(NamedTuple):
    """A socket that one of several workers serves: connections are taken by `acceptor`, until `handing_over` is set."""

    acceptor: Acceptor
    handing_over: asyncio.Event
