"""Requests as they are encoded here, beside those that the SDK's own encoder makes of the same spans."""

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.domain.trace_context import parse_tracestate
from aggregator.telemetry.otel_environment import OtelSettings
from aggregator.telemetry.otlp import Otlp, with_own_encoder
from aggregator.telemetry.span_attributes import Span, spans_of
from tests.laws import examples
from tests.telemetry.call_records import ITEMS, STATUSES, call, calls, item, unknown_tool

BOUND: Final = 10.0
CALLER: Final = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "53995c3f42cd8ad8", "00f067aa0ba902b7")
STATE: Final = CALLER._replace(tracestate="rojo=1,congo=t61rcWkgMzE")
# What a caller's `tracestate` may hold, as it is read: other members are gone by then.
STATES: Final = st.lists(
    st.from_regex(
        r"[a-z][a-z0-9_*/-]{0,5}(@[a-z][a-z0-9_*/-]{0,3})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,5}", fullmatch=True
    ),
    max_size=3,
).map(lambda members: CALLER._replace(tracestate=parse_tracestate([",".join(members)])))
TEXTS: Final = st.text(max_size=5) | st.sampled_from(["", "x" * 127, "x" * 300, "天" * 16_000])
VALUES: Final = TEXTS | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.lists(TEXTS, max_size=3)
TIMES: Final = st.integers(0, 2**64 - 1)
SPAN_IDS: Final = st.sampled_from(["00f067aa0ba902b7", "53995c3f42cd8ad8", "0000000000000001", "ffffffffffffffff"])
SPANS: Final = st.builds(
    Span,
    TEXTS,
    st.sampled_from(["server", "client", "internal"]),
    SPAN_IDS,
    st.none() | SPAN_IDS,
    TIMES,
    TIMES,
    st.dictionaries(TEXTS, VALUES, max_size=4),
    st.none() | st.just("timeout"),
    st.none() | TEXTS,
)


class BothEncoders(SpanExporter):
    """Keeps each batch as the SDK encodes it, and as it is encoded here."""

    def __init__(self) -> None:
        self.theirs: list[ExportTraceServiceRequest] = []
        self.ours: list[ExportTraceServiceRequest] = []

    def export(self, spans: Any) -> SpanExportResult:
        self.theirs.append(encode_spans(spans))
        self.ours.append(spans.request())
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


def encoded(parts: list[tuple[TraceContext, list[Span]]]) -> BothEncoders:
    both = BothEncoders()
    otlp = Otlp(both, OtelSettings(delay=60.0))
    for trace, spans in parts:
        otlp.put(trace, spans)
    assert otlp.flush(BOUND)
    otlp.close(BOUND)
    return both


def spans_by(record: CallRecord, **captured: Any) -> tuple[TraceContext, list[Span]]:
    return record.trace, spans_of(record, str, **captured)


def test_every_kind_of_call_is_the_same_request() -> None:
    """Proves: D9. Every field of every span, the resource, the scope, and the order of all."""
    records = [call(status, error_message="no: 天", queued=0.25, retries=2) for status in STATUSES]
    records += [call(trace=trace, session_id="s", user_id="u") for trace in (CALLER, STATE)]
    records += [*(item(method) for method in ITEMS), unknown_tool("天" * 300)]
    parts = [spans_by(record) for record in records] + [spans_by(call(), captured=("{}", "x" * 16_000))]
    both = encoded(parts)
    assert both.ours == both.theirs
    sent = both.ours[0].resource_spans[0]
    assert len(both.ours) == len(both.ours[0].resource_spans) == len(sent.scope_spans) == 1
    assert len(sent.scope_spans[0].spans) == sum(len(spans) for _, spans in parts)
    assert both.ours[0].SerializeToString(deterministic=True) == both.theirs[0].SerializeToString(deterministic=True)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(calls(), max_size=3), st.lists(SPANS, max_size=4), STATES)
def test_any_span_is_the_same_request(records: list[CallRecord], spans: list[Span], trace: TraceContext) -> None:
    """Proves: D9. Whatever stands in its fields, as long as it is Unicode."""
    both = encoded([*map(spans_by, records), (trace, spans)])
    assert both.ours == both.theirs


def test_an_attribute_that_is_no_unicode_is_left_out() -> None:
    """Proves: D9. The span and its other attributes are sent, as by the SDK's encoder."""
    span = Span("a", "server", CALLER.span_id, None, 0, 1, {"bad": "\ud800", "worse": ["\ud800"], "good": "x"})
    both = encoded([(CALLER, [span])])
    assert both.ours == both.theirs
    assert [pair.key for pair in both.ours[0].resource_spans[0].scope_spans[0].spans[0].attributes] == ["good"]


def test_the_exporter_of_the_sdk_is_not_changed() -> None:
    """D9: Other users of the SDK in this process have its encoder; ours takes their spans too."""
    own: Any = with_own_encoder(trace_exporter.OTLPSpanExporter)
    assert trace_exporter.OTLPSpanExporter.export.__globals__["encode_spans"] is encode_spans
    assert own.export is not trace_exporter.OTLPSpanExporter.export
    encoder = own.export.__globals__["encode_spans"]
    assert encoder is not encode_spans
    both = encoded([spans_by(call())])
    assert encoder([]) == encode_spans([])
    assert both.ours == both.theirs


def test_an_exporter_with_an_encoder_of_its_own_reads_the_spans() -> None:
    """D9: An exporter that does not name the function is given spans as the SDK has them."""

    class Plain(BothEncoders):
        def export(self, spans: Any) -> SpanExportResult:
            assert all(type(span) is ReadableSpan for span in spans)
            return super().export(spans)

    own = with_own_encoder(Plain)
    assert issubclass(own, Plain)
    assert own.export is Plain.export
