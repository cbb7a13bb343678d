"""The supervisor of workers: starts them, replaces those that end or hang, and passes on orders.

Rule 1: the listening socket stays open here, so that no connection is refused while a worker is replaced.
Rule 2: a worker that never served is an error of the operator: it is reported once, and ends the program.
"""

import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.workers import orders
from aggregator.workers.table import WorkerTable, make_table_file

log = logging.getLogger(__name__)

MOST: Final = 64
# Seconds between two looks at the workers, and looks without a report until one counts as hung: while it serves, and
# before.
LOOK_EVERY: Final = 1.0
HUNG_AFTER: Final = 20
START_AFTER: Final = 120
# Looks after which the old worker ends even if the new one has not tried every server.
SETTLE_AFTER: Final = 30
# Seconds that a worker must serve for its replacement to start at once; and between two starts.
STEADY: Final = 10.0
LONGEST_PAUSE: Final = 30.0

if sys.platform != "win32":
    _SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)
else:
    # There are no workers: the command line says so before this module is used.
    _SIGNALS: Final[tuple[signal.Signals, ...]] = ()


def _never() -> bool:
    return False


class WorkerProcess:
    """A started worker; its replacement has the same `number`.

    serves: it takes connections. settled: it has tried every server once. ending: it has the order to end.
    silent: the number of looks since its last report that its event loop runs.
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
        """Return the exit code of an ended worker and free its resources; None while it runs."""
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
        """Send it a message, unless it has ended."""
        with suppress(OSError):
            orders.send(self.end, word)

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._process.send_signal(number)


class WorkerSupervisor:
    """The supervisor of `count` workers; each is this program, with `command` after `serve`.

    `on_listening` is called with the first worker's message once it listens: how to log. `asked` tells whether
    `aggregator stop` asks for the end; it is called at each look until it does.
    """

    def __init__(
        self,
        count: int,
        command: Sequence[str],
        on_listening: Callable[[dict[str, Any]], None],
        hung_after: int = HUNG_AFTER,
        asked: Callable[[], bool] = _never,
    ) -> None:
        self._count = count
        self._asked = asked
        self._group = os.urandom(6).hex()
        self._command = command
        self._on_listening = on_listening
        self._hung_after = hung_after
        self._shared = make_table_file(2 * count + 2)
        self._table = WorkerTable(self._shared)
        self._selector = selectors.DefaultSelector()
        self._listening: socket.socket | None = None
        self._workers: list[WorkerProcess] = []
        self._on_terminal = _on_terminal()
        self._has_served = False
        # The number of orders to end, and the exit code then.
        self._told = 0
        self._code = 0
        # By number of the worker: when its replacement starts, and how many replacements did not last.
        self._due: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        # The numbers of workers still to be replaced, one after another; the old and new one of this moment.
        self._rolling: deque[int] = deque()
        self._old: WorkerProcess | None = None
        self._new: WorkerProcess | None = None
        self._new_looks = 0

    def __repr__(self) -> str:
        return f"<WorkerSupervisor of {len(self._workers)} of {self._count} workers>"

    def run(self) -> int:
        """Run the workers until a signal comes and all have ended; return the exit code.

        Raises:
            OperatorError: the system starts no process.
        """
        read, write = socket.socketpair()
        with read, write, self._selector:
            for end in (read, write):
                end.setblocking(False)
            for noted in _SIGNALS:
                signal.signal(noted, _noted)
            signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
            self._selector.register(read, selectors.EVENT_READ)
            try:
                self._run(read)
            finally:
                signal.set_wakeup_fd(-1)
                if self._listening is not None:
                    self._listening.close()
        return self._code

    def _run(self, read: socket.socket) -> None:
        try:
            self._start(1)
        except OSError as error:
            raise OperatorError(f"No worker can be started: {_why(error)}.") from error
        next_look = time.monotonic() + LOOK_EVERY
        while self._workers or (self._due and not self._told):
            for key, _ in self._selector.select(max(0.0, next_look - time.monotonic())):
                if key.data is not None:
                    self._receive(key.data)
                    continue
                with suppress(BlockingIOError):
                    for number in read.recv(4096):
                        self._signalled(number)
            for worker in [*self._workers]:
                code = worker.poll()
                if code is not None:
                    self._ended(worker, code)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + LOOK_EVERY
                self._look()

    # -- signals

    def _signalled(self, number: int) -> None:
        if sys.platform == "win32":
            raise NotImplementedError
        if number in (signal.SIGTERM, signal.SIGINT) or (
            number == signal.SIGHUP and self._on_terminal and not _on_terminal()
        ):
            self._end()
        elif number == signal.SIGHUP:
            log.info("every worker reads the configuration again")
            for worker in self._workers:
                worker.send(orders.RELOAD)
        elif number == signal.SIGUSR2:
            self._begin_rolling()

    def _end(self) -> None:
        """Order every worker to drain and end; the second time without waiting, the third time at once."""
        if sys.platform == "win32":
            raise NotImplementedError
        self._told += 1
        self._due.clear()
        self._rolling.clear()
        if self._listening is not None:
            # The port is closed as soon as the workers close it.
            self._listening.close()
        if self._told == 1 and self._workers:
            log.info("shutting down: %d workers answer what they have begun", len(self._workers))
        for worker in self._workers:
            worker.ending = True
            worker.signal(signal.SIGTERM if self._told < 3 else signal.SIGKILL)

    # -- workers

    def _start(self, number: int) -> WorkerProcess:
        """Start a worker.

        Raises:
            OSError: the system starts no process.
        """
        worker = WorkerProcess(self._group, number, self._command, self._table, self._shared, self._listening)
        self._selector.register(worker.end, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def _receive(self, worker: WorkerProcess) -> None:
        try:
            data, descriptors = orders.receive(worker.end)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            # It ends; the signal about that comes next.
            self._selector.unregister(worker.end)
            return
        for said in worker.reader.feed(data):
            word = said["is"]
            if word == orders.LISTENS and descriptors:
                self._listening = socket.socket(fileno=descriptors.pop())
                self._on_listening(said)
                self._due.update(dict.fromkeys(range(2, self._count + 1), 0.0))
                self._start_due()
            elif word == orders.SERVES:
                self._has_served = worker.serves = True
                log.info("worker %d serves, with process id %d", worker.number, worker.pid)
            elif word == orders.SETTLED:
                worker.settled = True
        self._roll_on()

    def _ended(self, worker: WorkerProcess, code: int) -> None:
        self._workers.remove(worker)
        with suppress(KeyError, ValueError):
            self._selector.unregister(worker.end)
        if self._told or worker is self._old:
            self._old = None if worker is self._old else self._old
            self._roll_on()
            return
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if not self._has_served:
            # The worker itself has logged the fault, or the system reports it.
            if code < 0:
                log.error("the first worker was ended by %s before it served", how)
            self._code = 128 - code if code < 0 else code or 1
            self._end()
            return
        if worker is self._new:
            self._new = None
            self._rolling.clear()
            if self._old is not None and not self._old.ending:
                self._old = None
                log.error("the new worker %d ended with %s: the others stay as they are", worker.number, how)
                return
        lasted = worker.serves and time.monotonic() - worker.started >= STEADY
        failures = 0 if lasted else self._failures.get(worker.number, 0) + 1
        self._again(worker.number, f"ended with {how}", failures)
        self._start_due()

    def _again(self, number: int, what: str, failures: int) -> None:
        """Start a worker after a pause, which grows with failures in a row."""
        self._failures[number] = failures
        pause = min(2.0 ** (failures - 2), LONGEST_PAUSE) if failures > 1 else 0.0
        log.error("worker %d %s; another one is started in %g seconds", number, what, pause)
        self._due[number] = time.monotonic() + pause

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [number for number, at in self._due.items() if at <= now]:
            del self._due[number]
            try:
                self._start(number)
            except OSError as error:
                # The system is at one of its limits, or the program is being replaced: the others go on.
                failures = max(2, self._failures.get(number, 0) + 1)
                self._again(number, f"cannot be started ({_why(error)})", failures)

    def _look(self) -> None:
        if sys.platform == "win32":
            raise NotImplementedError
        if self._asked():
            self._asked = _never
            log.info("`aggregator stop` asks this process to end")
            self._end()
        self._start_due()
        for worker in self._workers:
            worker.look()
            left = (self._hung_after if worker.serves else START_AFTER) - worker.silent
            if left == 0:
                log.error("worker %d does not run any more: it is killed", worker.number)
                if worker.serves:
                    # It writes where each of its threads is.
                    worker.signal(signal.SIGUSR1)
            elif left < 0:
                worker.signal(signal.SIGKILL)
        self._new_looks += 1
        self._roll_on()

    # -- replacing one after another

    def _begin_rolling(self) -> None:
        if self._told or self._rolling or self._new is not None:
            log.warning("the workers are being replaced already")
            return
        self._rolling.extend(sorted({worker.number for worker in self._workers}))
        log.info("%d workers are replaced, one after another", len(self._rolling))
        self._roll_on()

    def _roll_on(self) -> None:
        """Continue the replacement as far as possible now."""
        new, old = self._new, self._old
        if self._told:
            return
        if new is not None and old is not None and not old.ending:
            if new.settled or (new.serves and self._new_looks >= SETTLE_AFTER):
                old.ending = True
                old.send(orders.HAND_OVER)
            return
        if new is not None and old is None:
            log.info("worker %d was replaced", new.number)
            self._new = None
            if not self._rolling:
                log.info("every worker was replaced")
        if self._new is None and self._rolling:
            number = self._rolling.popleft()
            self._old = next((one for one in self._workers if one.number == number), None)
            if self._old is None:
                # It ended by itself: its replacement is new.
                self._roll_on()
                return
            try:
                self._new, self._new_looks = self._start(number), 0
            except OSError as error:
                self._old = None
                self._rolling.clear()
                log.error("no new worker %d can be started (%s): the others stay as they are", number, _why(error))


def _why(error: OSError) -> str:
    return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")


def _noted(number: int, frame: object) -> None:
    """Do nothing: the number of the signal is read from the wake-up socket."""


def _on_terminal() -> bool:
    return any(map(os.isatty, (0, 1, 2)))
