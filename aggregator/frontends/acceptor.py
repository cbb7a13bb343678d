"""The taking of connections from a listening socket, as far as there is room for them.

One of several workers leaves a connection to another one that has fewer, for a moment: so those that stay open are
spread evenly, which the kernel does not do (docs/decisions/0031-workers.md has the figures).
"""

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Final, NamedTuple

from aggregator.domain.bounds.tasks import Tasks
from aggregator.frontends.connection_admission import ConnectionAdmission
from aggregator.frontends.spare_answers import TOO_MANY
from aggregator.workers.table import WorkerTable

log = logging.getLogger(__name__)

# Seconds that a connection is left to the others, until it is tried again whether there is room, and for the handshake
# of TLS, during which a connection cannot make room.
_LEFT_FOR: Final = 0.002
_NO_ROOM_FOR: Final = 1.0
_HANDSHAKE: Final = 20.0
# Connections that one turn of the loop accepts.
_IN_ONE_TURN: Final = 100
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class WorkerLine(NamedTuple):
    """One of several workers that share a socket, as the others see it: its line in their table."""

    table: WorkerTable
    line: int

    def accept(self, accepts: bool) -> None:
        self.table.accept(self.line, accepts)

    def note(self, connections: int) -> None:
        self.table.count(self.line, connections)

    def fewer_elsewhere(self, connections: int) -> bool:
        return self.table.fewer_elsewhere(self.line, connections)


class Acceptor:
    """The taking of connections from the socket `bound`; `worker` is this one, if several share it."""

    def __init__(
        self, bound: socket.socket, worker: WorkerLine | None = None, admission: ConnectionAdmission | None = None
    ) -> None:
        self._bound = bound
        self._worker = worker
        self.admission = admission if admission is not None else ConnectionAdmission()
        self._make: Callable[[], asyncio.Protocol] | None = None
        self._count: Callable[[], int] = int
        self._ssl: SSLContext | None = None
        self._tasks = Tasks("the acceptor")
        self._taking = Tasks("the taking of connections")
        self._waiting: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._waits = False

    @property
    def beginning(self) -> int:
        """The number of accepted connections that have not begun: their handshakes are under way."""
        return len(self._tasks)

    def start(
        self, make: Callable[[], asyncio.Protocol], count: Callable[[], int], ssl: SSLContext | None = None
    ) -> None:
        """Begin to take connections. `make` makes the protocol of one, `count` returns how many there are."""
        self._make, self._count, self._ssl = make, count, ssl
        self._bound.setblocking(False)
        if self._worker is not None:
            self._worker.accept(True)
        self._start_reading()

    def close(self) -> None:
        """Take no further connections; the port is closed once each worker, and the supervisor, has done so."""
        if self._make is None:
            return
        self._make = None
        if self._worker is not None:
            self._worker.accept(False)
        self._stop_reading()
        self._bound.close()

    async def wait_begun(self) -> None:
        """Wait until the accepted connections are among those that `count` counts, or have failed."""
        await self._tasks.wait_ended()

    async def wait_closed(self) -> None:
        """Give up the connections that have not begun."""
        await self._taking.cancel()
        await self._tasks.cancel()

    def report(self) -> None:
        """Tell the other workers how many connections there are."""
        if self._worker is not None:
            self._worker.note(self._count() + self.beginning)

    def ended(self, connection: object) -> None:
        """Note that a connection has ended: another one may wait for its place."""
        self.admission.leave(connection)
        self.report()
        if self._waits and self._make is not None:
            self._waits = False
            # Its file is closed once this has returned.
            self._pause(0)

    def _ready(self) -> None:
        if self._worker is None:
            # The loop has other work too; the next turn takes more.
            for _ in range(_IN_ONE_TURN):
                if not self._accept():
                    return
            return
        mine = self._count() + self.beginning
        self._worker.note(mine)
        if self._worker.fewer_elsewhere(mine):
            self._pause(_LEFT_FOR)
        else:
            # Only one: the next is again for the worker that has the fewest.
            self._accept()

    def _accept(self) -> bool:
        """Take one connection, if one is there and there is room; return whether another may follow at once."""
        if self._make is None:
            return False
        try:
            if self.admission.is_full(self._bound.fileno()):
                self._wait_for_room()
                return False
            taken, address = self._bound.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._wait_for_room()
            return False
        self._take(taken, address, self._make)
        return True

    async def _take_each(self) -> None:
        """Take connections on a loop that waits for the end of an accept, and not for a socket: that of Windows."""
        loop = asyncio.get_running_loop()
        while self._make is not None:
            if self.admission.is_full(self._bound.fileno()):
                self._wait_for_room()
                return
            try:
                taken, address = await loop.sock_accept(self._bound)
            except OSError as error:
                # The host left before it was accepted, the system is at a limit, or the socket was closed.
                log.debug("a connection was not accepted: %s", error)
                if self._make is not None:
                    self._pause(_LEFT_FOR if error.errno not in _NO_ROOM else _NO_ROOM_FOR)
                return
            if self._make is None:
                taken.close()
                return
            self._take(taken, address, self._make)

    def _take(self, taken: socket.socket, address: object, make: Callable[[], asyncio.Protocol]) -> None:
        taken.setblocking(False)
        sender = str(address[0]) if isinstance(address, tuple) else ""
        if self.admission.has_share_left(sender):
            self._tasks.start(self._begin(taken, make, sender))
            self.report()
        else:
            self._refuse(taken)

    def _refuse(self, taken: socket.socket) -> None:
        """Close a connection of a sender that has too many; without TLS, it gets the reason."""
        with suppress(OSError), taken:
            if self._ssl is None:
                taken.send(TOO_MANY)

    async def _begin(self, taken: socket.socket, make: Callable[[], asyncio.Protocol], sender: str) -> None:
        connection = make()
        self.admission.enter(connection, sender)
        try:
            handshake = _HANDSHAKE if self._ssl is not None else None
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, taken, ssl=self._ssl, ssl_handshake_timeout=handshake
            )
        except OSError as error:
            # The host has left, or its handshake failed.
            log.debug("a connection was not begun: %s", error)
            taken.close()
            self.ended(connection)

    def _wait_for_room(self) -> None:
        self._waits = True
        self._pause(_NO_ROOM_FOR)
        self.admission.make_room()

    def _pause(self, seconds: float) -> None:
        self._stop_reading()
        self._again = asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._again = None
        if self._make is not None:
            self._start_reading()
            if sys.platform != "win32":
                self._accept()

    def _start_reading(self) -> None:
        if sys.platform == "win32":
            self._waiting = self._taking.start(self._take_each())
        else:
            asyncio.get_running_loop().add_reader(self._bound.fileno(), self._ready)

    def _stop_reading(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if sys.platform != "win32":
            asyncio.get_running_loop().remove_reader(self._bound.fileno())
        elif self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class SharedSocket(NamedTuple):
    """A socket that one of several workers serves: connections are taken by `acceptor`, until `handing_over` is set."""

    acceptor: Acceptor
    handing_over: asyncio.Event
