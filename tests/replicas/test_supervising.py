"""The supervisor and its workers at single moments, with workers that the test speaks for and a clock moved by hand."""

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.workers import orders, supervisor, worker
from aggregator.workers.supervisor import (
    LONGEST_PAUSE,
    SETTLE_AFTER,
    START_AFTER,
    STEADY,
    WorkerProcess,
    WorkerSupervisor,
)
from aggregator.workers.table import WorkerTable, make_table_file
from aggregator.workers.worker import BEAT_EVERY, InheritedWorker
from tests import ON_WINDOWS
from tests.polling import until

pytestmark = pytest.mark.skipif(os.name != "posix" or ON_WINDOWS, reason="there are no workers on Windows")

HUNG_AFTER: Final = 3


class ScriptedWorker:
    """A worker process that does what the test says, and keeps what it was told."""

    def __init__(self, number: int, listening: socket.socket | None, now: float) -> None:
        self.number = number
        self.given = listening is not None
        self.pid = 1000 + number
        self.serves = self.settled = self.ending = False
        self.started = now
        self.silent = 0
        self.hangs = False
        self.reader = orders.OrderReader()
        self.end, self.theirs = socket.socketpair()
        self.end.setblocking(False)
        self.sent: list[str] = []
        self.signals: list[int] = []
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def look(self) -> None:
        self.silent = self.silent + 1 if self.hangs else 0

    def send(self, word: str) -> None:
        self.sent.append(word)

    def signal(self, number: int) -> None:
        self.signals.append(number)


class Supervised:
    """A supervisor, its clock, and every worker that it started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.now = 1000.0
        self.started: list[ScriptedWorker] = []
        self.said: list[dict[str, Any]] = []
        self.failure: OSError | None = None
        monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(supervisor, "WorkerProcess", self._start)
        self.bound = socket.socket()
        self.here = WorkerSupervisor(count, [], self.said.append, HUNG_AFTER)
        self.here._start(1)

    def _start(self, *given: Any) -> ScriptedWorker:
        if self.failure is not None:
            raise self.failure
        self.started.append(ScriptedWorker(given[1], given[-1], self.now))
        return self.started[-1]

    def told(self, by: ScriptedWorker, word: str, listening: socket.socket | None = None, **more: Any) -> None:
        """Have a worker say something."""
        orders.send(by.theirs, word, listening, **more)
        self.here._receive(by)  # type: ignore[arg-type]

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.here._look()

    def end(self, one: ScriptedWorker, code: int) -> None:
        self.here._ended(one, code)  # type: ignore[arg-type]

    def numbers(self) -> list[int]:
        return [one.number for one in self.started]

    def serve(self) -> list[ScriptedWorker]:
        """Have all workers serve."""
        self.told(self.started[0], orders.LISTENS, self.bound)
        for one in self.started:
            self.told(one, orders.SERVES)
        return list(self.started)

    def close(self) -> None:
        for one in self.started:
            one.end.close()
            one.theirs.close()
        self.bound.close()
        if self.here._listening is not None:
            self.here._listening.close()
        self.here._selector.close()
        os.close(self.here._shared)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    found = Supervised(monkeypatch, 3)
    yield found
    found.close()


def test_the_others_start_once_the_first_has_the_port(three: Supervised) -> None:
    """They get its socket. A line without one, as when the system gives no further descriptor, starts none."""
    first = three.started[0]
    assert not first.given
    three.told(first, orders.LISTENS)
    three.told(first, orders.SETTLED)
    assert (three.numbers(), three.said) == ([1], [])
    three.told(first, orders.LISTENS, three.bound, level="info")
    assert three.numbers() == [1, 2, 3]
    assert three.said == [{"is": orders.LISTENS, "level": "info"}]
    assert [one.given for one in three.started] == [False, True, True]
    assert [(one.serves, one.settled) for one in three.started] == [(False, True), (False, False), (False, False)]
    three.told(three.started[2], orders.SERVES)
    assert [(one.serves, one.settled) for one in three.started] == [(False, True), (False, False), (True, False)]


@pytest.mark.parametrize(("serves", "looks"), [(True, HUNG_AFTER), (False, START_AFTER)])
def test_a_worker_that_hangs_is_killed_and_no_other(three: Supervised, serves: bool, looks: int) -> None:
    """It is asked first where its threads are; one that does not serve yet does not listen for that."""
    workers = three.serve()
    hanging = workers[1]
    hanging.serves, hanging.hangs = serves, True
    three.look(looks - 1)
    assert hanging.signals == []
    three.look()
    assert hanging.signals == ([signal.SIGUSR1] if serves else [])
    three.look()
    assert hanging.signals[-1] == signal.SIGKILL
    assert [one.signals for one in (workers[0], workers[2])] == [[], []]


def test_a_worker_that_reports_again_is_not_killed(three: Supervised) -> None:
    busy = three.serve()[1]
    for _ in range(3):
        busy.hangs = True
        three.look(HUNG_AFTER - 1)
        busy.hangs = False
        three.look()
    assert busy.signals == []


def test_a_worker_that_does_not_last_is_started_later_each_time(three: Supervised) -> None:
    three.serve()
    pauses = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE, LONGEST_PAUSE]
    for pause in pauses:
        last = next(one for one in reversed(three.started) if one.number == 2)
        count = len(three.started)
        three.end(last, 1)
        if pause:
            three.now += pause - 0.1
            three.look()
            assert len(three.started) == count
            three.now += 0.1
            three.look()
        assert three.numbers()[count:] == [2]
        three.told(three.started[-1], orders.SERVES)
        three.now += STEADY - 0.1
    three.now += 0.1
    three.end(three.started[-1], 1)
    assert three.numbers()[-2:] == [2, 2], "it had served for long enough"


@pytest.mark.parametrize(("served", "lasted"), [(False, STEADY), (True, STEADY - 0.1)])
def test_a_worker_lasts_only_if_it_serves_for_a_while(three: Supervised, served: bool, lasted: float) -> None:
    three.serve()
    for _ in range(2):
        last = three.started[-1]
        assert last.number == 3
        last.serves = served
        three.now += lasted
        three.end(last, -9)
    assert len(three.started) == 4
    three.now += 1.0
    three.look()
    assert len(three.started) == 5


def test_a_worker_that_cannot_be_started_is_tried_again(three: Supervised, caplog: pytest.LogCaptureFixture) -> None:
    workers = three.serve()
    three.failure = FileNotFoundError(2, "No such file", "/python")
    three.end(workers[1], -9)
    assert "worker 2 ended with signal SIGKILL" in caplog.text
    assert "cannot be started (No such file: /python)" in caplog.text
    three.failure = None
    three.look()
    assert len(three.started) == 3
    three.now += 1.0
    three.look()
    assert three.numbers() == [1, 2, 3, 2]


@pytest.mark.parametrize(("code", "exit_code"), [(3, 3), (0, 1), (-9, 137)])
def test_what_the_first_worker_cannot_start_with_ends_the_program(
    three: Supervised, caplog: pytest.LogCaptureFixture, code: int, exit_code: int
) -> None:
    first = three.started[0]
    three.told(first, orders.LISTENS, three.bound)
    three.end(first, code)
    assert three.here._code == exit_code
    assert [one.signals for one in three.started[1:]] == [[signal.SIGTERM]] * 2
    assert [one.ending for one in three.started[1:]] == [True] * 2
    assert ("ended by signal SIGKILL before it served" in caplog.text) is (code < 0)
    for one in three.started[1:]:
        three.end(one, -15)
    three.look()
    assert len(three.started) == 3, "none is started in place of one that was told to end"


@pytest.mark.parametrize(
    ("number", "on_terminal", "is_terminal", "expected"),
    [
        (signal.SIGTERM, False, False, "ends"),
        (signal.SIGINT, True, True, "ends"),
        (signal.SIGHUP, False, False, "reads again"),
        (signal.SIGHUP, True, True, "reads again"),
        (signal.SIGHUP, True, False, "ends"),
        (signal.SIGUSR2, False, False, "is replaced"),
        (signal.SIGCHLD, False, False, "goes on"),
    ],
)
def test_what_a_signal_means(
    three: Supervised,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    on_terminal: bool,
    is_terminal: bool,
    expected: str,
) -> None:
    """A terminal that is closed ends the program; without one SIGHUP asks for the configuration."""
    workers = three.serve()
    three.here._on_terminal = on_terminal
    monkeypatch.setattr(supervisor, "_on_terminal", lambda: is_terminal)
    three.here._signalled(number)
    found = "goes on"
    if workers[0].signals:
        assert [one.signals for one in workers] == [[signal.SIGTERM]] * 3
        found = "ends"
    elif workers[0].sent:
        assert [one.sent for one in workers] == [[orders.RELOAD]] * 3
        found = "reads again"
    elif len(three.started) > 3:
        found = "is replaced"
    assert found == expected


def test_the_third_time_it_ends_at_once(three: Supervised) -> None:
    workers = three.serve()
    for _ in range(3):
        three.here._signalled(signal.SIGTERM)
    assert workers[0].signals == [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]
    with pytest.raises(OSError, match="descriptor"):
        three.here._listening.getsockname()  # type: ignore[union-attr]
    three.here._signalled(signal.SIGUSR2)
    assert len(three.started) == 3


def test_a_worker_that_is_due_is_not_started_after_the_end(three: Supervised) -> None:
    for one in three.serve()[1:]:
        one.serves = False
        three.end(one, 1)
        three.end(three.started[-1], 1)
    count = len(three.started)
    three.here._signalled(signal.SIGTERM)
    three.now += LONGEST_PAUSE
    three.look()
    assert len(three.started) == count


class Selected:
    """A selector whose waits take no time: they move the clock, and what the test planned comes to pass."""

    def __init__(self, here: Supervised, planned: list[Callable[[], None]]) -> None:
        self._here = here
        self._planned = planned

    def select(self, timeout: float) -> list[object]:
        self._here.now += timeout
        if self._planned:
            self._planned.pop(0)()
        return []

    def register(self, *_: object) -> None: ...

    def unregister(self, *_: object) -> None: ...

    def close(self) -> None: ...


def test_the_program_goes_on_while_a_worker_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single worker fails a few times in a row: another one is started after each pause, until the program is told to
    end, and its exit code is that of an end that was asked for.
    """
    one = Supervised(monkeypatch, 1)
    # `_run` starts it.
    one.here._workers.clear()

    def fails() -> None:
        one.started[-1].code = -9

    def serves() -> None:
        one.told(one.started[-1], orders.SERVES)

    def nothing() -> None: ...

    def told() -> None:
        assert one.numbers() == [1] * 5
        one.here._signalled(signal.SIGTERM)

    planned = [serves, fails, fails, nothing, fails, nothing, nothing, told, fails, nothing, nothing]
    one.here._selector.close()
    one.here._selector = Selected(one, planned)  # type: ignore[assignment]
    one.here._run(one.bound)
    assert planned == [nothing, nothing], "it ends with its last worker"
    assert one.here._code == 0
    one.close()


def test_workers_are_replaced_one_after_another(three: Supervised, caplog: pytest.LogCaptureFixture) -> None:
    """The old one hands over once every server of the new one was tried."""
    caplog.set_level(logging.INFO)
    old = three.serve()
    three.here._signalled(signal.SIGUSR2)
    three.here._signalled(signal.SIGUSR2)
    assert caplog.text.count("being replaced already") == 1
    for one in old:
        new = three.started[-1]
        assert new.number == one.number
        assert "every worker was replaced" not in caplog.text
        three.told(new, orders.SERVES)
        three.look(SETTLE_AFTER - 1)
        assert one.sent == []
        three.told(new, orders.SETTLED)
        assert (one.sent, one.ending) == ([orders.HAND_OVER], True)
        assert three.started[-1] is new, "one at a time"
        three.end(one, 0)
    assert three.numbers() == [1, 2, 3, 1, 2, 3]
    assert "every worker was replaced" in caplog.text
    assert "another one is started" not in caplog.text
    three.here._signalled(signal.SIGUSR2)
    assert three.numbers()[6:] == [1]


def test_a_server_that_never_answers_does_not_hold_up_the_replacing(three: Supervised) -> None:
    old = three.serve()
    three.here._signalled(signal.SIGUSR2)
    three.look(SETTLE_AFTER)
    assert old[0].sent == [], "the new one does not serve yet"
    three.told(three.started[-1], orders.SERVES)
    assert old[0].sent == [orders.HAND_OVER]


@pytest.mark.parametrize("how", ["ends", "cannot be started"])
def test_the_others_stay_if_a_new_one_fails(three: Supervised, caplog: pytest.LogCaptureFixture, how: str) -> None:
    old = three.serve()
    if how == "ends":
        three.here._signalled(signal.SIGUSR2)
        three.end(three.started[-1], 2)
    else:
        three.failure = PermissionError(1, "not permitted")
        three.here._signalled(signal.SIGUSR2)
        three.failure = None
    three.now += 100.0
    three.look(SETTLE_AFTER + 1)
    assert "the others stay as they are" in caplog.text
    assert [one.sent for one in old] == [[]] * 3
    assert len(three.started) == (4 if how == "ends" else 3)
    three.here._signalled(signal.SIGUSR2)
    assert three.numbers()[-1] == 1, "it can be tried again"


def test_a_worker_that_ends_by_itself_need_not_be_replaced(three: Supervised) -> None:
    """Its place is taken by a new one already."""
    old = three.serve()
    three.here._signalled(signal.SIGUSR2)
    three.end(old[1], -9)
    for one in [one for one in three.started if one not in old]:
        three.told(one, orders.SERVES)
        three.told(one, orders.SETTLED)
    three.end(old[0], 0)
    assert sorted(three.numbers()) == [1, 1, 2, 2, 2, 3]


def test_a_new_one_whose_old_one_hands_over_is_started_again_if_it_ends(three: Supervised) -> None:
    old = three.serve()
    three.here._signalled(signal.SIGUSR2)
    new = three.started[-1]
    three.told(new, orders.SERVES)
    three.told(new, orders.SETTLED)
    three.end(new, -9)
    assert three.numbers() == [1, 2, 3, 1, 1]
    three.end(old[0], 0)
    assert three.numbers() == [1, 2, 3, 1, 1]


# -- a worker as it is known


def test_the_line_of_a_worker_that_ended_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker takes a line of the table; more workers are started in time than there are lines."""
    codes: list[int | None] = []
    signals: list[int] = []

    def popen(*_: object, **__: object) -> object:
        return SimpleNamespace(pid=77, poll=lambda: codes[-1], send_signal=signals.append)

    monkeypatch.setattr("aggregator.workers.supervisor.subprocess.Popen", popen)
    shared = make_table_file(2)
    table, other = WorkerTable(shared), WorkerTable(shared)
    for _ in range(5):
        one = WorkerProcess("group", 1, [], table, shared, None)
        codes.append(None)
        assert one.poll() is None
        assert other.free() == 1
        other.accept(0, True)
        other.count(0, 3)
        for beats, silent in ((1, 0), (1, 0), (0, 1), (0, 2), (1, 0)):
            for _ in range(beats):
                other.beat(0)
            one.look()
            assert one.silent == silent
        one.signal(signal.SIGUSR1)
        assert signals.pop() == signal.SIGUSR1
        codes.append(0)
        assert one.poll() == 0
        assert (other.free(), other.connections(0)) == (0, 0)
        assert one.end.fileno() == -1
        one.send(orders.RELOAD)
    os.close(shared)


def test_a_worker_is_told_and_one_that_could_not_be_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    inherited: list[socket.socket] = []

    def popen(*_: object, pass_fds: Sequence[int], **__: object) -> object:
        inherited.append(socket.socket(fileno=os.dup(pass_fds[1])))
        if len(inherited) > 1:
            raise PermissionError(1, "not permitted")
        return SimpleNamespace(pid=77)

    monkeypatch.setattr("aggregator.workers.supervisor.subprocess.Popen", popen)
    shared = make_table_file(2)
    one = WorkerProcess("group", 1, [], WorkerTable(shared), shared, None)
    one.send(orders.HAND_OVER)
    assert list(orders.OrderReader().feed(orders.receive(inherited[0])[0])) == [{"is": orders.HAND_OVER}]
    with pytest.raises(PermissionError):
        WorkerProcess("group", 2, [], WorkerTable(shared), shared, None)
    assert WorkerTable(shared).free() == 1
    assert inherited[1].recv(1) == b"", "the other end is closed"
    one.end.close()
    for end in inherited:
        end.close()
    os.close(shared)


# -- a worker as it is


@pytest.fixture
def inherited() -> Iterator[tuple[InheritedWorker, socket.socket]]:
    shared = make_table_file(2)
    ours, theirs = socket.socketpair()
    yield InheritedWorker("group", 1, 0, shared, ours, None), theirs
    ours.close()
    theirs.close()
    os.close(shared)


async def test_a_worker_beats_obeys_and_does_not_outlive_its_supervisor(
    monkeypatch: pytest.MonkeyPatch, inherited: tuple[InheritedWorker, socket.socket]
) -> None:
    here, theirs = inherited
    seen, ended, waited = list[str](), threading.Event(), list[float]()
    noted: list[int] = []
    registered = SimpleNamespace(register=lambda number, *, all_threads: noted.append(number))
    monkeypatch.setattr(worker, "faulthandler", registered)
    monkeypatch.setattr(worker, "BEAT_EVERY", BEAT_EVERY / 100)
    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=waited.append))
    codes: list[int] = []

    def exit_at_once(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(os, "_exit", exit_at_once)
    running = asyncio.create_task(here.run(lambda: seen.append("reload"), lambda: seen.append("stop"), 7.0))
    try:
        await until(lambda: here.table.beats(0) >= 3, "its event loop runs")
        assert noted == [signal.SIGUSR1]
        orders.send(theirs, "what is not known")
        orders.send(theirs, orders.RELOAD)
        await until(lambda: seen == ["reload"], "it reads the configuration")
        assert not here.handing_over.is_set()
        orders.send(theirs, orders.HAND_OVER)
        await until(here.handing_over.is_set, "it hands over")
        assert (seen, waited) == (["reload"], [])
        theirs.close()
        await until(lambda: seen == ["reload", "stop"], "it ends")
        assert await asyncio.to_thread(ended.wait, 10.0)
        assert (codes, waited) == ([os.EX_SOFTWARE], [7.0 + worker._LAST_SECONDS])
        here.report(orders.SETTLED)
    finally:
        running.cancel()
        await asyncio.wait({running})
