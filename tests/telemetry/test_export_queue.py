"""Spans on their way out through the SDK's batch processor: bounded, counted, never waited for."""

import logging
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from aggregator.domain.trace_context import begin
from aggregator.telemetry.otel_environment import OtelSettings
from aggregator.telemetry.otlp import Otlp
from aggregator.telemetry.snapshot import SpanCounts
from aggregator.telemetry.span_attributes import Span

BOUND = 10.0


class FakeReceiver(SpanExporter):
    """Takes batches once `may_answer` is set, and raises unless it `accepts` them."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_answer, self.was_asked, self.accepts = threading.Event(), threading.Event(), True
        self.may_answer.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.was_asked.set()
        self.may_answer.wait(BOUND)
        self.batches.append([span.name for span in spans])
        if not self.accepts:
            raise OSError("no route")
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.may_answer.set()


def queue(receiver: FakeReceiver, size: int, batch: int, delay: float) -> Otlp:
    return Otlp(receiver, OtelSettings(queue=size, batch=batch, delay=delay))


def put(otlp: Otlp, *numbers: int) -> None:
    """Queue spans of these names."""
    trace = begin()
    otlp.put(trace, [Span(str(number), "server", trace.span_id, None, 0, 1, {}) for number in numbers])


def test_all_that_is_put_arrives_in_order_and_batches() -> None:
    """Proves: D9. Full batches at once, the rest when it is time."""
    receiver = FakeReceiver()
    otlp = queue(receiver, size=100, batch=10, delay=60.0)
    for number in range(25):
        put(otlp, number)
    assert otlp.flush(BOUND)
    assert [int(name) for batch in receiver.batches for name in batch] == list(range(25))
    assert max(map(len, receiver.batches)) == 10
    assert otlp.counts() == SpanCounts(25, 0, 0, 0)
    otlp.close(BOUND)


def test_a_small_batch_goes_when_the_delay_is_over() -> None:
    receiver = FakeReceiver()
    otlp = queue(receiver, size=100, batch=10, delay=0.01)
    put(otlp, 1)
    assert receiver.was_asked.wait(BOUND)
    otlp.close(BOUND)
    assert receiver.batches == [["1"]]


def test_a_dead_end_costs_neither_memory_nor_time(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D9. What finds no room is counted and gone; one line says so."""
    receiver = FakeReceiver()
    receiver.may_answer.clear()
    otlp = queue(receiver, size=20, batch=5, delay=60.0)
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            put(otlp, *[number] * 20)
    assert otlp.counts() == SpanCounts(0, 0, 980, 20)
    assert len(caplog.messages) == 1
    receiver.may_answer.set()
    assert otlp.flush(BOUND)
    assert otlp.counts() == SpanCounts(20, 0, 980, 0)
    otlp.close(BOUND)


def test_what_does_not_arrive_is_counted() -> None:
    """Proves: D9. The next batch is tried all the same."""
    receiver = FakeReceiver()
    receiver.accepts = False
    otlp = queue(receiver, size=20, batch=5, delay=60.0)
    put(otlp, *range(10))
    assert otlp.flush(BOUND)
    assert otlp.counts() == SpanCounts(0, 10, 0, 0)
    receiver.accepts = True
    put(otlp, *range(5))
    assert otlp.flush(BOUND)
    assert otlp.counts() == SpanCounts(5, 10, 0, 0)
    otlp.close(BOUND)


def test_closing_sends_what_there_is() -> None:
    """Proves: D9. And takes nothing more."""
    receiver = FakeReceiver()
    otlp = queue(receiver, size=20, batch=5, delay=60.0)
    put(otlp, *range(7))
    otlp.close(BOUND)
    put(otlp, *range(3))
    assert otlp.counts() == SpanCounts(7, 0, 3, 0)


def test_closing_waits_no_longer_than_it_is_given() -> None:
    """Proves: D9. What is being sent is ended, what waits is given up and counted."""
    receiver = FakeReceiver()
    receiver.may_answer.clear()
    otlp = queue(receiver, size=20, batch=5, delay=60.0)
    put(otlp, *range(12))
    assert receiver.was_asked.wait(BOUND)
    otlp.close(0.0)
    assert otlp.counts() == SpanCounts(5, 0, 7, 0)
    assert len(receiver.batches) == 1
