"""The parts of workers, with plain values: the shared table, counters that stay, pages and reports put together."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.app.merged_report import ReplicaAnswer, merge_reports
from aggregator.storage.records import ReplicaRecord
from aggregator.telemetry.merged_text import counted, merged
from aggregator.workers import orders, worker
from aggregator.workers import table as workers_table
from aggregator.workers.cores import cores
from aggregator.workers.table import KeptCounters, WorkerTable, make_table_file
from tests import ON_WINDOWS

_NEEDS_WORKERS = pytest.mark.skipif(ON_WINDOWS, reason="there are no workers on Windows")
PAGE = b"""# HELP aggregator_calls_total Calls that are over, by how they ended.
# TYPE aggregator_calls_total counter
aggregator_calls_total{server="a b",status="ok"} %d
# HELP aggregator_call_own_seconds The part of it that was the aggregator's own.
# TYPE aggregator_call_own_seconds histogram
aggregator_call_own_seconds_bucket{le="0.1"} %d
aggregator_call_own_seconds_bucket{le="+Inf"} %d
aggregator_call_own_seconds_sum 0.5
aggregator_call_own_seconds_count %d
# HELP aggregator_upstream_up 1 while it is ready.
# TYPE aggregator_upstream_up gauge
aggregator_upstream_up{server="a"} %d
# HELP aggregator_open What hosts have open.
# TYPE aggregator_open gauge
aggregator_open{limit="sessions"} %d
"""


def page(calls: int, up: int = 1, sessions: int = 0) -> bytes:
    return PAGE % (calls, calls, calls, calls, up, sessions)


@pytest.fixture
def shared() -> Iterator[int]:
    descriptor = make_table_file(6)
    yield descriptor
    os.close(descriptor)


@_NEEDS_WORKERS
def test_a_line_is_free_until_it_is_entered_and_after_it_is_cleared(shared: int) -> None:
    table, seen = WorkerTable(shared), WorkerTable(shared)
    assert len(table) == 6
    for expected in range(3):
        assert table.free() == expected
        table.enter(expected, 100 + expected)
    table.clear(1)
    assert seen.free() == 1
    table.beat(2)
    table.beat(2)
    assert seen.beats(2) == 2


@_NEEDS_WORKERS
@pytest.mark.parametrize("again", ["enter", "clear"])
def test_a_line_has_nothing_of_the_process_before(shared: int, again: str) -> None:
    """Other processes see what a worker notes; the next one on its line begins with no beat and no connection."""
    table, seen = WorkerTable(shared), WorkerTable(shared)
    for line in (0, 1):
        table.enter(line, 100 + line)
        table.beat(line)
        table.accept(line, True)
        table.count(line, 5 + line)
    assert [(seen.beats(line), seen.connections(line)) for line in (0, 1, 2)] == [(1, 5), (1, 6), (0, 0)]
    assert seen.fewer_elsewhere(1, 6)
    if again == "enter":
        table.enter(0, 200)
    else:
        table.clear(0)
    assert [(seen.beats(line), seen.connections(line)) for line in (0, 1)] == [(0, 0), (1, 6)]
    assert not seen.fewer_elsewhere(1, 6), "it takes none yet"
    assert (seen.free() == 0) == (again == "clear")


@_NEEDS_WORKERS
def test_a_connection_is_for_the_worker_with_the_fewest(shared: int) -> None:
    table = WorkerTable(shared)
    for line, connections in enumerate((3, 2, 2)):
        table.enter(line, 1)
        table.accept(line, True)
        table.count(line, connections)
    assert table.fewer_elsewhere(0, 3)
    assert not table.fewer_elsewhere(1, 2)
    table.accept(1, False)
    table.accept(2, False)
    assert not table.fewer_elsewhere(0, 3), "the others take none"


@_NEEDS_WORKERS
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=200)), max_size=20))
def test_the_newest_counters_of_each_line_are_kept(kept: list[tuple[int, bytes]]) -> None:
    descriptor = make_table_file(6)
    try:
        counters = KeptCounters(descriptor)
        for line, text in kept:
            assert counters.keep(line, text)
        newest = dict(kept)
        assert [counters.read(line) for line in range(6)] == [newest.get(line, b"") for line in range(6)]
    finally:
        os.close(descriptor)


class Stopped(Exception):
    """The end of a process in the middle of its writing."""


class StoppingFiles:
    """The files of a process that is stopped in one of its writes, after some bytes of it; `reading` comes before each
    read but the first.
    """

    def __init__(self, stop_in: int | None = None, after: int = 0) -> None:
        self.stop_in = stop_in
        self.after = after
        self.reading: Callable[[], None] | None = None
        self._reads = 0

    def pwrite(self, descriptor: int, text: bytes, at: int) -> int:
        if self.stop_in == 0:
            os.pwrite(descriptor, text[: self.after], at)
            raise Stopped
        if self.stop_in is not None:
            self.stop_in -= 1
        return os.pwrite(descriptor, text, at)

    def pread(self, descriptor: int, length: int, at: int) -> bytes:
        self._reads += 1
        if self._reads > 1 and self.reading is not None:
            between, self.reading = self.reading, None
            between()
        return os.pread(descriptor, length, at)


@_NEEDS_WORKERS
@pytest.mark.parametrize("text", [b"third", b"a third one, which is longer"])
@pytest.mark.parametrize("stop_in", [0, 1])
def test_counters_that_were_half_written_are_those_before(
    monkeypatch: pytest.MonkeyPatch, shared: int, stop_in: int, text: bytes
) -> None:
    """The writer is stopped at any byte of the text, or of what says where the text ends."""
    counters = KeptCounters(shared)
    for after in range(len(text) if stop_in == 0 else 23):
        counters.keep(1, b"first")
        counters.keep(1, b"second")
        with monkeypatch.context() as patch:
            patch.setattr(workers_table, "os", StoppingFiles(stop_in, after))
            with pytest.raises(Stopped):
                counters.keep(1, text)
        assert counters.read(1) in (b"second", text)
    assert not counters.keep(1, bytes(64 * 1024 * 1024)), "longer than there is room for"
    assert counters.read(1) in (b"second", text)


@_NEEDS_WORKERS
def test_counters_that_change_while_they_are_read_are_whole(monkeypatch: pytest.MonkeyPatch, shared: int) -> None:
    """Between two reads of one process another one writes."""
    counters = KeptCounters(shared)
    counters.keep(1, b"first")
    counters.keep(1, b"second")
    files = StoppingFiles()

    def write() -> None:
        assert counters.keep(1, b"third")

    files.reading = write
    monkeypatch.setattr(workers_table, "os", files)
    assert counters.read(1) in (b"second", b"third")
    assert counters.read(1) == b"third"


def test_pages_become_one_with_one_header_each() -> None:
    whole = merged([page(3, up=1, sessions=2), page(4, up=0, sessions=5)])
    assert whole == page(7, up=0, sessions=7).replace(b"sum 0.5", b"sum 1.0")
    assert merged([page(3)]) == page(3)


def test_the_counters_of_the_gone_stay_and_their_gauges_do_not() -> None:
    kept = counted(page(5, up=0, sessions=9))
    assert b"gauge" not in kept
    whole = merged([page(2, sessions=1)], [kept, kept])
    assert whole == page(12, sessions=1).replace(b"sum 0.5", b"sum 1.5")
    assert counted(counted(page(5))) == counted(page(5))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_a_sum_does_not_depend_on_the_order(calls: list[int]) -> None:
    pages = [page(number) for number in calls]
    assert sorted(merged(pages).splitlines()) == sorted(merged(reversed(pages)).splitlines())


def replica(number: int) -> ReplicaRecord:
    return ReplicaRecord(f"id{number}", number, None, "1", 0.0, 0.0, {"worker": number + 1})


def seen(state: str, reason: str = "", in_flight: int = 0) -> dict[str, Any]:
    return {"state": state, "reason": reason, "in_flight": in_flight, "tools": 1}


def test_a_server_is_as_bad_as_the_worst_replica_has_it() -> None:
    own: dict[str, Any] = {
        "ready": True,
        "servers": {"a": seen("ready", in_flight=2), "b": seen("ready")},
        "sessions": {"http": 2},
    }
    other = {"ready": True, "servers": {"a": seen("unavailable", "no reply", 1), "b": seen("stopped")}, "keys": "lost"}
    told = [
        ReplicaAnswer(replica(0), own),
        ReplicaAnswer(replica(1), other),
        ReplicaAnswer(replica(2), None, "it is silent"),
    ]
    found = merge_reports(own, "id0", told)
    assert found["servers"]["a"] == seen("unavailable", "worker 2: no reply", 3)
    assert found["servers"]["b"] == seen("ready")
    assert found["keys"] == "worker 2: lost"
    assert [one.get("problem") for one in found["replicas"]] == [None, None, "it is silent"]
    assert [one["asked"] for one in found["replicas"]] == [True, False, False]
    assert own["servers"]["a"]["state"] == "ready", "what was given stays as it is"


def test_a_file_that_one_replica_cannot_read_is_told() -> None:
    well = {"servers": {}, "config": {"broken": False, "problems": []}}
    broken = {"servers": {}, "config": {"broken": True, "problems": ["line 3"]}}
    found = merge_reports(well, "id0", [ReplicaAnswer(replica(0), well), ReplicaAnswer(replica(1), broken)])
    assert found["config"] == {"broken": True, "problems": ["worker 2: line 3"]}


@pytest.mark.parametrize("key", ["keys", "issuers", "catalogs", "pins", "search", "audit"])
def test_what_is_wrong_at_one_replica_is_told(key: str) -> None:
    well: dict[str, Any] = {"servers": {}}
    wrong = {**well, key: "it cannot be written"}
    told = [ReplicaAnswer(replica(0), well), ReplicaAnswer(replica(1), wrong)]
    assert merge_reports(well, "id0", told)[key] == "worker 2: it cannot be written"
    assert merge_reports({**well, key: "mine"}, "id0", told)[key] == "mine"


@pytest.mark.parametrize("key", ["held", "withheld", "unsearchable"])
def test_what_is_wrong_with_a_server_at_one_replica_is_told(key: str) -> None:
    state = {"state": "ready", "reason": "", "in_flight": 0, "tools": 1}
    well, wrong = {"servers": {"a": state}}, {"servers": {"a": {**state, key: "mine"}}}
    other = {"servers": {"a": {**state, key: "theirs"}}}
    for own, theirs, expected in ((well, other, "theirs"), (wrong, well, "mine"), (wrong, other, "mine")):
        found = merge_reports(own, "id0", [ReplicaAnswer(replica(0), own), ReplicaAnswer(replica(1), theirs)])
        assert found["servers"]["a"] == {**state, key: expected}


def test_connections_of_single_hosts_are_counted_at_all_replicas() -> None:
    state = {"state": "ready", "reason": "", "in_flight": 0, "tools": 1}
    asks = {"servers": {"a": {**state, "own_connections": 2}}}
    quiet = {"servers": {"a": state}}
    for own, theirs, expected in ((asks, asks, 4), (asks, quiet, 2), (quiet, asks, 2), (quiet, quiet, None)):
        found = merge_reports(own, "id0", [ReplicaAnswer(replica(0), own), ReplicaAnswer(replica(1), theirs)])
        assert found["servers"]["a"].get("own_connections") == expected


@pytest.mark.parametrize(("quota", "expected"), [("max 100000", None), ("150000 100000", 2), ("10000 100000", 1)])
def test_a_container_has_the_cores_it_is_given(tmp_path: Path, quota: str, expected: int | None) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(f"{quota}\n")
    here = cores(tmp_path / "none")
    assert cores(file) == (min(expected, here) if expected is not None else here)


@_NEEDS_WORKERS
def test_an_order_comes_whole_with_its_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket() as bound:
        orders.send(ours, orders.SERVES)
        orders.send(ours, orders.LISTENS, bound, level="info")
        reader, said, descriptors = orders.OrderReader(), list[dict[str, Any]](), list[int]()
        while len(said) < 2:
            data, found = orders.receive(theirs)
            descriptors += found
            for piece in (data[:3], data[3:]):
                said += list(reader.feed(piece))
        assert said == [{"is": orders.SERVES}, {"is": orders.LISTENS, "level": "info"}]
        assert len(descriptors) == 1
        os.close(descriptors[0])


@_NEEDS_WORKERS
@pytest.mark.parametrize("first", [True, False])
def test_what_a_worker_inherits_goes_to_no_program_it_starts(
    monkeypatch: pytest.MonkeyPatch, shared: int, first: bool
) -> None:
    """A server would hold the port open after the end, and could write orders."""
    monkeypatch.setattr(worker, "_go_on_without_supervisor", lambda: None)
    ours, theirs = socket.socketpair()
    with ours, socket.socket() as bound:
        given = [os.dup(shared), theirs.detach(), *([] if first else [os.dup(bound.fileno())])]
        for descriptor in given:
            os.set_inheritable(descriptor, True)
        environ = {"PATH": "/bin", orders.VARIABLE: f"group 2 1 {' '.join(map(str, given))}"}
        found = worker.inherited_worker(environ)
        assert found is not None
        assert environ == {"PATH": "/bin"}
        assert [os.get_inheritable(descriptor) for descriptor in given] == [False] * len(given)
        assert (found.group, found.number, found.line, found.first) == ("group", 2, 1, first)
        found.report(orders.SERVES)
        assert list(orders.OrderReader().feed(orders.receive(ours)[0])) == [{"is": orders.SERVES}]
        found._end.close()
        if found.listening is not None:
            found.listening.close()
        os.close(given[0])
        assert worker.inherited_worker(environ) is None
