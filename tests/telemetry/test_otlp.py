"""From the record of a call to an OTLP receiver on loopback, through the SDK and over HTTP."""

import asyncio
import base64
import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from aggregator import __version__
from aggregator.domain.call_record import CallRecord
from aggregator.domain.trace_context import begin, onward
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.snapshot import Snapshot, SpanCounts
from aggregator.telemetry.spans import Spans, open_spans
from tests.polling import until
from tests.telemetry.call_records import STATUSES, call, unknown_tool
from tests.telemetry.receiver import Receiver, receiving

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSET, ERROR = 0, 2


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@asynccontextmanager
async def tracing(**given: Any) -> AsyncIterator[Spans]:
    spans = open_spans(os.environ, lambda text: text.replace("hunter2", "[redacted]"), **given)
    assert spans is not None
    try:
        yield spans
    finally:
        await spans.close()


async def test_the_maker_of_spans_rests_once_all_are_made(receiver: Receiver) -> None:
    """D9: its thread waits for the next calls."""
    async with tracing() as spans:
        assert await spans.flush()
        await until(lambda: not spans._awake.is_set())


async def test_a_call_arrives_as_its_spans(receiver: Receiver) -> None:
    """Proves: D9. One server span below the caller's, its steps below it, in one trace, all closed."""
    record = call(trace=begin({"traceparent": PARENT, "tracestate": "rojo=1"}), session_id="s-1")
    async with tracing() as spans:
        spans(record)
        assert await spans.flush()
        assert spans.counts() == SpanCounts(5, 0, 0, 0)
    assert {path for path, _ in receiver.requests} == {"/v1/traces"}
    whole = receiver.named("tools/call weather.get_forecast")[0]
    assert (whole.kind, whole.trace_id, whole.parent_id) == (
        "server",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00f067aa0ba902b7",
    )
    below = [span for span in receiver.spans if span is not whole]
    assert Counter(span.name for span in below) == Counter(["policy", "check", "output", "tools/call get_forecast"])
    assert {(span.trace_id, span.parent_id, span.tracestate) for span in below} == {
        (whole.trace_id, whole.span_id, "rojo=1")
    }
    assert all(whole.began <= span.began <= span.ended <= whole.ended for span in below)
    sent_on = begin(onward(record.trace, recorded=True))
    assert receiver.named("tools/call get_forecast")[0].span_id == sent_on.parent_id
    assert whole.resource["service.name"] == "aggregator"
    assert whole.resource["service.version"] == __version__


@pytest.mark.parametrize("meta", [{}, {"traceparent": "00-nonsense"}, {"traceparent": PARENT.upper()}])
async def test_without_a_valid_parent_a_trace_begins(receiver: Receiver, meta: dict[str, Any]) -> None:
    """Proves: D9. The call is the root of it."""
    record = call(trace=begin(meta))
    async with tracing() as spans:
        spans(record)
    whole = receiver.named("tools/call weather.get_forecast")[0]
    assert (whole.parent_id, whole.trace_id) == ("", record.trace.trace_id)


async def test_every_end_of_a_call_is_told(receiver: Receiver) -> None:
    """Proves: D9. Status and `error.type` over the wire; nothing stays open, cancelled calls neither."""
    async with tracing() as spans:
        for status in STATUSES:
            spans(call(status, asked_name=status, error_message=f"it was {status}, hunter2"))
        spans(unknown_tool())
    told = {
        span.attributes["aggregator.status"]: (span.status, span.attributes.get("error.type"), span.message)
        for span in receiver.named("tools/call weather.get_forecast")
    }
    assert told == {
        "ok": (UNSET, None, ""),
        "pending": (UNSET, None, ""),
        "cancelled": (UNSET, None, ""),
        "error": (ERROR, "tool_error", "it was error, [redacted]"),
        "timeout": (ERROR, "timeout", "it was timeout, [redacted]"),
        "unavailable": (ERROR, "upstream_unavailable", "it was unavailable, [redacted]"),
        "denied": (ERROR, "tool_not_allowed", "it was denied, [redacted]"),
        "invalid": (ERROR, "invalid_arguments", "it was invalid, [redacted]"),
    }
    assert receiver.named("tools/call")[0].attributes["error.type"] == "unknown_tool"
    assert all(span.began <= span.ended for span in receiver.spans)


async def test_records_spans_and_metrics_agree(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. After a mixed run each record is one server span and one count, by every status."""
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "50")
    records = [call(STATUSES[n % len(STATUSES)], agent_id=f"agent{n % 3}") for n in range(400)]
    records += [unknown_tool(f"no{n}") for n in range(40)]
    metrics = Metrics(Snapshot)
    async with tracing() as spans:
        for record in records:
            spans(record)
            metrics(record)
        assert await spans.flush()
        assert spans.counts() == SpanCounts(sum(1 + len(record.steps) for record in records), 0, 0, 0)
    servers = [span for span in receiver.spans if span.kind == "server"]
    by_status = Counter(span.attributes["aggregator.status"] for span in servers)
    assert by_status == Counter(record.outcome.status for record in records)
    page = b"".join(metrics.page()).decode()
    counted = Counter[str]()
    for line in page.splitlines():
        if line.startswith("aggregator_calls_total{"):
            counted[line.split('status="')[1].split('"')[0]] += int(line.rsplit(" ", 1)[1])
    assert counted == by_status
    assert {span.trace_id for span in servers} == {record.trace.trace_id for record in records}
    assert len(receiver.requests) > 5


async def test_langfuse_reads_what_it_looks_for(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D10. The recipe of docs/observability.md: its path, its Basic auth, and every attribute it maps."""
    basic = base64.b64encode(b"pk-lf-12:sk-lf-3").decode()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{receiver.url}/api/public/otel")
    headers = f"Authorization=Basic%20{basic},x-langfuse-ingestion-version=4"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=production")

    def capture(record: CallRecord) -> tuple[str, str]:
        return '{"city":"Graz"}', "x" * 20_000

    async with tracing(capture=capture) as spans:
        spans(call(user_id="alice", session_id="s-1", conversation_id="c-7"))
    path, sent = receiver.requests[0]
    assert path == "/api/public/otel/v1/traces"
    assert (sent["authorization"], sent["x-langfuse-ingestion-version"]) == (f"Basic {basic}", "4")
    assert sent["content-type"] == "application/x-protobuf"
    whole = receiver.named("tools/call weather.get_forecast")[0]
    assert whole.resource["deployment.environment.name"] == "production"
    said = whole.attributes
    assert (said["langfuse.session.id"], said["langfuse.user.id"]) == ("c-7", "alice")
    assert said["langfuse.trace.tags"] == ["agent:shop"]
    assert (said["gen_ai.operation.name"], said["gen_ai.tool.name"]) == ("execute_tool", "weather.get_forecast")
    assert said["langfuse.observation.input"] == '{"city":"Graz"}'
    assert said["langfuse.observation.output"] == "x" * 16_000


async def test_nothing_is_captured_unless_it_is_asked_for(receiver: Receiver) -> None:
    """Proves: D9. Neither arguments nor results are in any span, whatever is in them."""
    async with tracing() as spans:
        spans(call(arguments={"password": "hunter2"}, result={"content": [{"text": "hunter2"}]}))
    assert len(receiver.spans) == 5
    assert "hunter2" not in repr(receiver.spans)


async def test_who_sends_is_what_the_environment_says(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` count before our own words."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gate")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=9,team=a")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    async with tracing() as spans:
        spans(call())
    resource = receiver.spans[0].resource
    assert (resource["service.name"], resource["service.version"], resource["team"]) == ("gate", "9", "a")
    assert receiver.requests[0][1]["content-encoding"] == "gzip"


async def test_the_interpreter_stays_as_it_is(receiver: Receiver) -> None:
    """Proves: D9. What belongs to the whole process is no business of spans, while they are made and afterwards."""
    before = sys.getswitchinterval()
    async with tracing():
        assert sys.getswitchinterval() == before
    assert sys.getswitchinterval() == before


async def test_the_last_of_several_puts_back_what_belongs_to_the_process(receiver: Receiver) -> None:
    """D9: Whichever ends first; the exporters' own words stay out of the log meanwhile."""
    exporters = logging.getLogger("opentelemetry.exporter")
    before = exporters.propagate
    async with AsyncExitStack() as second:
        async with tracing():
            await second.enter_async_context(tracing())
        assert exporters.propagate is False
    assert exporters.propagate is before


async def test_what_is_not_sampled_is_not_sent(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. The caller's flag counts, and `OTEL_TRACES_SAMPLER` where there is none."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    async with tracing() as spans:
        for meta in ({}, {"traceparent": PARENT}, {"traceparent": f"{PARENT[:-1]}0"}):
            spans(call(trace=begin(meta, sample=spans.sample)))
    assert [span.parent_id for span in receiver.spans if span.kind == "server"] == ["00f067aa0ba902b7"]


async def test_a_receiver_that_refuses_is_told_of_once(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D9. One line when it begins, one when it is over; what was lost is counted, and calls go on."""
    receiver.status = 401
    with caplog.at_level(logging.INFO):
        async with tracing() as spans:
            for _ in range(3):
                spans(call())
                assert await spans.flush()
            receiver.status = 200
            spans(call())
            assert await spans.flush()
            assert spans.counts() == SpanCounts(5, 15, 0, 0)
    told = [line for line in caplog.messages if "spans" in line.lower()]
    assert len(told) == 2
    assert told[0].startswith("spans are not delivered")
    assert "401" in told[0]
    assert told[1] == "spans are delivered again"


async def test_a_receiver_that_does_not_answer_holds_nobody_up(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D9. Calls are not kept waiting, memory is bounded, drops are counted, and the end comes in time."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    receiver.held.clear()
    with caplog.at_level(logging.WARNING):
        async with tracing() as spans:
            for _ in range(1_000):
                spans(call())
            async with asyncio.timeout(10):
                while spans.counts().dropped < 4_900:
                    assert not await spans.flush(0.05)
            assert spans.counts() == SpanCounts(0, 0, 4_900, 100)
            await spans.close(0.1)
    assert len([line for line in caplog.messages if line.startswith("spans are dropped")]) == 1


async def test_a_capture_that_cannot_keep_up_is_bounded(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D9. Results are not held in memory without end: calls beyond the bound have no spans, and are counted."""
    let = threading.Event()

    def capture(record: CallRecord) -> tuple[None, None]:
        let.wait(10)
        return None, None

    with caplog.at_level(logging.WARNING):
        async with tracing(capture=capture) as spans:
            for _ in range(400):
                spans(call())
            assert spans.counts().waiting <= 256
            let.set()
            assert await spans.flush()
            figures = spans.counts()
    assert figures.dropped >= 5 * (400 - 256 - 1)
    assert figures.exported + figures.dropped == 5 * 400
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(("protocol", "extra"), [("http/protobuf", "otel"), ("grpc", "otel-grpc")])
def test_a_missing_package_is_named_with_its_cure(
    protocol: str, extra: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D9. One line with the command, and the aggregator starts."""
    package = f"opentelemetry.exporter.otlp.proto.{protocol.partition('/')[0]}"
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    assert open_spans(environ, str) is None
    assert [f'pip install "aggregator-mcp[{extra}]"' in line for line in caplog.messages] == [True]


def test_a_package_that_does_not_load_is_told_without_a_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D9. A library of the system that is missing raises an error that names no package."""

    class Broken(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise ImportError("libgrpc.so: cannot open shared object file")

    monkeypatch.setitem(sys.modules, "aggregator.telemetry.otlp", Broken("broken"))
    assert open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, str) is None
    assert [line.startswith("tracing is off, a package is missing") for line in caplog.messages] == [True]


def test_a_variable_that_cannot_be_leaves_tracing_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D9. The aggregator starts all the same, and the log says what is wrong."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "short")
    assert open_spans(os.environ, str) is None
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("tracing is off")


def test_without_an_exporter_nothing_is_loaded() -> None:
    """Proves: D9. Off costs nothing: neither the SDK nor anything of OTLP is imported, and there is no sink."""
    check = (
        "import sys; from aggregator.telemetry.spans import open_spans;"
        "from aggregator.telemetry.metrics import Metrics;"
        "found = open_spans({}, str); print(found, [name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "None []"
