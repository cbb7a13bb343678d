"""A lock file as it comes, changes, breaks and goes; and what was stored of a list since it was read."""

import logging
import os
from pathlib import Path
from typing import Final

import pytest

from aggregator.pins.app.locked import LockWatch, lock_beside
from aggregator.pins.app.noted import NotedLists
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.lock_file import LOCK_FILE, write_lock
from aggregator.pins.gateway.state import JudgedChange, JudgedList
from aggregator.storage.records import SeenItem
from tests.pins.build import change, tool

ONE: Final = write_lock({"one": [pinned_item("tool", "a", tool("a"))]})
TWO: Final = write_lock({"two": [pinned_item("tool", "a", tool("a"))]})
BAD: Final = b"no lock file"
# What is written (None: the file is removed), whether other pins count then, whose they are, whether there is a
# problem, and whether no file could be used since the start.
STEPS: Final[dict[str, list[tuple[bytes | None, bool, set[str], bool, bool]]]] = {
    "it is there": [(ONE, True, {"one"}, False, False), (TWO, True, {"two"}, False, False)],
    "it comes later": [(None, True, set(), False, False), (ONE, True, {"one"}, False, False)],
    "it goes and comes back": [
        (ONE, True, {"one"}, False, False),
        (None, True, set(), False, False),
        (TWO, True, {"two"}, False, False),
    ],
    "it breaks and is mended": [
        (ONE, True, {"one"}, False, False),
        (BAD, False, {"one"}, True, False),
        (TWO, True, {"two"}, False, False),
    ],
    "it is broken at first": [
        (BAD, False, set(), True, True),
        (BAD + b"!", False, set(), True, True),
        (ONE, True, {"one"}, False, False),
    ],
    "it is broken at first and removed": [(BAD, False, set(), True, True), (None, True, set(), False, False)],
    "it goes and is broken when it comes back": [
        (None, True, set(), False, False),
        (BAD, False, set(), True, False),
    ],
}


@pytest.mark.parametrize("case", STEPS)
def test_the_lock_file_counts_as_it_is_or_was_last(tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture) -> None:
    """What was in force stays while a file cannot be used; a file that is none is no problem."""
    caplog.set_level(logging.INFO)
    path = lock_beside(tmp_path / "aggregator.json")
    assert path == tmp_path / LOCK_FILE
    watch, mended = LockWatch(path), 0
    for at, (text, others, servers, problem, unusable) in enumerate(STEPS[case]):
        had_problem = watch.problem is not None
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(text)
            os.utime(path, (at, at))
        assert [watch.read(), watch.read()] == [others, False], "it is read once"
        assert {*watch.servers} == servers
        assert (watch.problem is not None, watch.unusable) == (problem, unusable)
        mended += had_problem and not problem
    assert sum("can be used again" in one.message for one in caplog.records) == mended
    assert any("the pins that were in force stay" in one.message for one in caplog.records) is (
        case.startswith(("it breaks", "it goes and is broken"))
    )


def test_without_a_configuration_file_there_is_no_lock_file() -> None:
    watch = LockWatch(lock_beside(None))
    assert not watch.read()
    assert (watch.problem, watch.unusable) == (None, False)


def judged(said: str) -> JudgedList:
    """Return a list with a changed tool."""
    changed = change(tool("a", description=said), tool("a", description="It does something else."))
    assert changed is not None
    return JudgedList("shop", "tool", changes=(JudgedChange(changed, waits=True, adopted=False),))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("aggregator.pins.app.noted.time.time", lambda: now[0])
    return now


def test_what_was_stored_of_a_list_counts_until_it_is_read_again(clock: list[float]) -> None:
    """The same digest, compared with the same pin, of the same list."""
    lists, one = NotedLists(), judged("It was so.")
    seen, gone, other = (
        SeenItem("tool", "a", "sha256:1"),
        SeenItem("tool", "b", None),
        SeenItem("tool", "a", "sha256:2"),
    )
    assert lists.said(one, [seen, gone]) == set()
    lists.keep(one, [seen])
    assert lists.said(one, [seen, gone]) == {("tool", "a")}
    lists.keep(one, [gone])
    assert lists.said(one, [seen, gone]) == {("tool", "a"), ("tool", "b")}
    assert lists.said(one, [other]) == set(), "another digest"
    assert lists.said(judged("It was otherwise."), [seen, gone]) == {("tool", "b")}, "another pin"
    assert lists.said(JudgedList("other", "tool"), [seen, gone]) == set()
    assert lists.read_at(one) == 100.0, "it is unknown"
    clock[0] = 200.0
    lists.read("shop", ["prompt"])
    lists.read("other", ["tool"])
    assert lists.said(one, [seen, gone]) == {("tool", "a"), ("tool", "b")}
    lists.read("shop", ["tool", "instructions"])
    assert lists.said(one, [seen, gone]) == set()
    clock[0] = 300.0
    assert (lists.read_at(one), lists.read_at(JudgedList("shop", "skill"))) == (200.0, 300.0)
