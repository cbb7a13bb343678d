"""Spans on their way out: bounded, counted, never waited for."""

import logging
import threading
from collections.abc import Sequence

import pytest

from aggregator.telemetry.export_queue import ExportFigures, ExportQueue

BOUND = 10.0


class SlowReceiver:
    """The other end: takes batches once it is let, and says whether it took them."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.let, self.asked, self.took = threading.Event(), threading.Event(), True
        self.let.set()

    def __call__(self, batch: Sequence[int]) -> bool:
        self.asked.set()
        self.let.wait(BOUND)
        self.batches.append(list(batch))
        if not self.took:
            raise OSError("no route")
        return True


def test_all_that_is_put_arrives_in_order_and_batches() -> None:
    """Proves: D9. Full batches at once, the rest when it is time."""
    other = SlowReceiver()
    queue = ExportQueue(other, size=100, batch=10, delay=60.0)
    for n in range(25):
        queue.put([n])
    assert queue.flush(BOUND)
    assert [n for batch in other.batches for n in batch] == list(range(25))
    assert max(map(len, other.batches)) == 10
    assert queue.figures() == ExportFigures(25, 0, 0, 0)
    queue.close(BOUND, other.let.set)


def test_a_small_batch_goes_when_the_delay_is_over() -> None:
    other = SlowReceiver()
    queue = ExportQueue(other, size=100, batch=10, delay=0.01)
    queue.put([1])
    assert other.asked.wait(BOUND)
    queue.close(BOUND, other.let.set)
    assert other.batches == [[1]]


def test_a_dead_end_costs_neither_memory_nor_time(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D9. What finds no room is counted and gone; one line says so."""
    other = SlowReceiver()
    other.let.clear()
    queue = ExportQueue(other, size=20, batch=5, delay=60.0)
    with caplog.at_level(logging.WARNING):
        for n in range(50):
            queue.put([n] * 20)
    assert queue.figures() == ExportFigures(0, 0, 980, 20)
    assert len(caplog.messages) == 1
    other.let.set()
    assert queue.flush(BOUND)
    assert queue.figures() == ExportFigures(20, 0, 980, 0)
    queue.close(BOUND, other.let.set)


def test_what_does_not_arrive_is_counted() -> None:
    """Proves: D9. The next batch is tried all the same."""
    other = SlowReceiver()
    other.took = False
    queue = ExportQueue(other, size=20, batch=5, delay=60.0)
    queue.put(range(10))
    assert queue.flush(BOUND)
    assert queue.figures() == ExportFigures(0, 10, 0, 0)
    other.took = True
    queue.put(range(5))
    assert queue.flush(BOUND)
    assert queue.figures() == ExportFigures(5, 10, 0, 0)
    queue.close(BOUND, other.let.set)


def test_closing_sends_what_there_is() -> None:
    """Proves: D9. And takes nothing more."""
    other = SlowReceiver()
    queue = ExportQueue(other, size=20, batch=5, delay=60.0)
    queue.put(range(7))
    queue.close(BOUND, other.let.set)
    queue.put(range(3))
    assert queue.figures() == ExportFigures(7, 0, 3, 0)


def test_closing_waits_no_longer_than_it_is_given() -> None:
    """Proves: D9. What is being sent is ended, what waits is given up and counted."""
    other = SlowReceiver()
    other.let.clear()
    queue = ExportQueue(other, size=20, batch=5, delay=60.0)
    queue.put(range(12))
    assert other.asked.wait(BOUND)
    queue.close(0.0, other.let.set)
    assert queue.figures() == ExportFigures(5, 0, 7, 0)
    assert len(other.batches) == 1
