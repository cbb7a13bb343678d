"""What outlives servers is ended for many servers at the cost of one, and nobody else is signalled."""

import asyncio
import signal
import subprocess
from contextlib import ExitStack

import pytest

from aggregator.upstream.process import reaper_pipe as strays
from aggregator.upstream.process.reaper import VARIABLE, carriers
from aggregator.upstream.process.reaper_pipe import Orphans

MARKS = [f"mark.{number}." for number in range(93)]


class FakeProcesses:
    """Processes by mark: `stubborn` ones leave only when they are killed."""

    def __init__(self, stubborn: set[int]) -> None:
        self.marked = {mark: [number] for number, mark in enumerate(MARKS)}
        self.stubborn = stubborn
        self.signals: list[tuple[int, int]] = []
        self.readings = 0

    def carriers(self) -> dict[str, list[int]]:
        self.readings += 1
        return {mark: processes[:] for mark, processes in self.marked.items() if processes}

    def signal_each(self, processes: list[int], number: int) -> None:
        for process in processes:
            self.signals.append((process, number))
            if number == signal.SIGKILL or process not in self.stubborn:
                self.marked[MARKS[process]] = []


def _system(monkeypatch: pytest.MonkeyPatch, stubborn: set[int]) -> FakeProcesses:
    system = FakeProcesses(stubborn)
    monkeypatch.setattr(strays, "carriers", system.carriers)
    monkeypatch.setattr(strays, "signal_each", system.signal_each)
    return system


async def test_many_that_end_together_are_looked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: the first of them is looked for alone; whoever asks meanwhile shares the next reading."""
    system = _system(monkeypatch, stubborn=set())
    ended = Orphans(asyncio.Event())
    assert await asyncio.gather(*(ended.end(mark, 60) for mark in MARKS)) == [1] * len(MARKS)
    assert {process for process, _ in system.signals} == set(range(len(MARKS)))
    # Looking, waiting until they are gone, and three rounds of killing, each at most twice.
    assert system.readings <= 10


async def test_in_a_hurry_none_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: an hour of grace, of which nothing is waited for."""
    system = _system(monkeypatch, stubborn={0})
    hurry = asyncio.Event()
    hurry.set()
    async with asyncio.timeout(5):
        assert await Orphans(hurry).end(MARKS[0], 3600) == 1
    assert system.signals == [(0, signal.SIGTERM), (0, signal.SIGKILL)]


async def test_a_stubborn_one_is_killed_once_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: asked first, killed then; others with other marks are left alone."""
    system = _system(monkeypatch, stubborn={0})
    assert await Orphans(asyncio.Event()).end(MARKS[0], 0.01) == 1
    assert system.signals == [(0, signal.SIGTERM), (0, signal.SIGKILL)]
    assert await Orphans(asyncio.Event()).end("mark.of.nobody.", 0.01) == 0
    assert len(system.signals) == 2


def test_processes_are_found_by_their_mark() -> None:
    """C3: all with one mark, and no others."""
    marks = ("mark.a.", "mark.a.", "mark.b.", "", None)
    with ExitStack() as stack:
        started = []
        for mark in marks:
            env = {} if mark is None else {VARIABLE: mark}
            process = stack.enter_context(subprocess.Popen(["/bin/sleep", "60"], env=env))
            stack.callback(process.kill)
            started.append(process.pid)
        found = carriers()
    assert set(found["mark.a."]) == set(started[:2])
    assert found["mark.b."] == [started[2]]
    assert all(started[4] not in processes for processes in found.values())
