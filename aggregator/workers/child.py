"""One worker as its supervisor knows it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from aggregator.workers import orders
from aggregator.workers.table import WorkerTable


class WorkerProcess:
    """A worker that was started: `number` stays the same for the one in its place after it.

    serves: it takes connections. settled: every server of it was tried once. ending: it was told to end.
    silent: how many looks ago it last reported that its event loop runs.
    """

    def __init__(
        self,
        group: str,
        number: int,
        command: Sequence[str],
        table: WorkerTable,
        shared: int,
        listening: socket.socket | None,
    ) -> None:
        self.number = number
        self.serves = self.settled = self.ending = False
        self.started = time.monotonic()
        self.silent = 0
        self._table = table
        self._line = table.free()
        self._beats = 0
        self.reader = orders.OrderReader()
        self.end, theirs = socket.socketpair()
        passed = [shared, theirs.fileno(), *([listening.fileno()] if listening is not None else [])]
        inherited = {orders.VARIABLE: " ".join(map(str, (group, number, self._line, *passed)))}
        with theirs, ExitStack() as unless_started:
            unless_started.callback(self.end.close)
            # In a process group of its own, so that Ctrl-C at a terminal reaches the supervisor alone.
            self._process = subprocess.Popen(  # noqa: S603 - this program, with the options it was given
                [sys.executable, "-P", "-m", "aggregator", "serve", *command],
                env={**os.environ, **inherited},
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                process_group=0,
            )
            unless_started.pop_all()
        self.end.setblocking(False)
        table.enter(self._line, self.pid)

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.number}, pid {self.pid}{', ending' if self.ending else ''}>"

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code of a worker that has ended, and free what it had; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._table.clear(self._line)
            self.end.close()
        return code

    def look(self) -> None:
        """Count the looks since it last reported."""
        beats = self._table.beats(self._line)
        self.silent = self.silent + 1 if beats == self._beats else 0
        self._beats = beats

    def send(self, word: str) -> None:
        """Tell it something; one that has ended is not told."""
        with suppress(OSError):
            orders.send(self.end, word)

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._process.send_signal(number)
