"""A worker's end of the memory and sockets that it shares with its supervisor and the other workers.

Rule: a worker does not outlive its supervisor, even if its event loop hangs.
"""

import asyncio
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from aggregator.workers import orders
from aggregator.workers.table import KeptCounters, WorkerTable

# Seconds between two reports that the event loop runs, and beyond the time of the drain until a worker whose
# supervisor is gone ends in any case.
BEAT_EVERY: Final = 0.5
_LAST_SECONDS: Final = 10.0
# prctl(2): the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG: Final = 1

# Follows one order of the supervisor.
Action = Callable[[], None]


class InheritedWorker:
    """A worker, seen from its own process. `number` counts from 1; `listening` is None in the first worker of a start.

    group: a name for all workers of one supervisor. line: that of this one in the table.
    handing_over: set once this worker takes no new connections and ends.
    """

    def __init__(
        self, group: str, number: int, line: int, shared: int, end: socket.socket, listening: socket.socket | None
    ) -> None:
        self.group = group
        self.number = number
        self.line = line
        self.table = WorkerTable(shared)
        self.kept = KeptCounters(shared)
        self.listening = listening
        self.handing_over = asyncio.Event()
        self._end = end

    def __repr__(self) -> str:
        return f"<InheritedWorker {self.number}>"

    @property
    def first(self) -> bool:
        """True if this worker opens the listening socket, and speaks for all of them in the log."""
        return self.listening is None

    def report(self, word: str, listening: socket.socket | None = None, **more: Any) -> None:
        """Send the supervisor a message; `run` notices if it is gone."""
        try:
            orders.send(self._end, word, listening, **more)
        except OSError:
            return

    async def run(self, reload: Action, stop: Action, drain_seconds: float) -> None:
        """Report and follow orders until cancelled."""
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            faulthandler.register(signal.SIGUSR1, all_threads=True)
        acts = {orders.RELOAD: reload, orders.HAND_OVER: self.handing_over.set}
        # A thread of its own: it also ends a process whose event loop hangs.
        args = (loop, acts, stop, drain_seconds + _LAST_SECONDS)
        threading.Thread(target=self._obey, args=args, name="worker orders", daemon=True).start()
        while True:
            self.table.beat(self.line)
            await asyncio.sleep(BEAT_EVERY)

    def _obey(
        self, loop: asyncio.AbstractEventLoop, acts: MutableMapping[str, Action], stop: Action, patience: float
    ) -> None:
        if sys.platform == "win32":
            raise NotImplementedError
        reader = orders.OrderReader()
        try:
            while data := orders.receive(self._end)[0]:
                for said in reader.feed(data):
                    if said["is"] in acts:
                        loop.call_soon_threadsafe(acts[said["is"]])
        except OSError:
            pass  # as at its end
        try:
            loop.call_soon_threadsafe(stop)
        except RuntimeError:
            return  # the loop has ended
        time.sleep(patience)
        os._exit(os.EX_SOFTWARE)


def inherited_worker(environ: MutableMapping[str, str]) -> InheritedWorker | None:
    """Return the inheritance of this process if it is a worker, or None; programs that it starts do not inherit it."""
    text = environ.pop(orders.VARIABLE, None)
    if text is None:
        return None
    group, *numbers = text.split()
    number, line, shared, end, *listening = map(int, numbers)
    for descriptor in (shared, end, *listening):
        os.set_inheritable(descriptor, False)
    _go_on_without_supervisor()
    found = socket.socket(fileno=listening[0]) if listening else None
    return InheritedWorker(group, number, line, shared, socket.socket(fileno=end), found)


def _go_on_without_supervisor() -> None:
    """Continue a stopped worker when its supervisor ends, so that it ends too; Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
