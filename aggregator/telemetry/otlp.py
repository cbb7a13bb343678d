"""Spans over OTLP, by the OpenTelemetry SDK. The one file that knows it; loaded only when spans are wanted.

Endpoint, headers, certificates, compression and time-outs are the SDK's business: it reads them from `OTEL_EXPORTER_*`.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pkgutil import resolve_name
from threading import Thread
from types import FunctionType
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from aggregator import __version__
from aggregator.domain.call_record import TraceContext
from aggregator.domain.text.error_text import error_text
from aggregator.telemetry.otel_environment import OtelSettings, Protocol
from aggregator.telemetry.snapshot import SpanCounts
from aggregator.telemetry.span_attributes import Kind, Span
from aggregator.telemetry.span_bytes import RequestEncoder

log = logging.getLogger(__name__)

_EXPORTERS: Final[Mapping[Protocol, str]] = {
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http.trace_exporter:OTLPSpanExporter",
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.trace_exporter:OTLPSpanExporter",
}
_logger: Final = logging.getLogger("opentelemetry.exporter")
_KINDS: Final[Mapping[Kind, SpanKind]] = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "internal": SpanKind.INTERNAL,
}
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
# Encoding is work in Python, and a thread at work gives the interpreter to the event loop each 5 ms, if not asked.
_FEW: Final = 64
# Seconds for the end of a request that was interrupted.
_LAST: Final = 0.2


class Otlp:
    """Spans on their way out through the SDK's batch processor: bounded, and counted.

    `text_limit` is the length of an attribute, None without a bound.
    """

    def __init__(self, exporter: SpanExporter, settings: OtelSettings) -> None:
        self.text_limit: int | None = SpanLimits().max_span_attribute_length
        self._size = settings.queue
        self._sender = _Sender(exporter)
        self._processor = BatchSpanProcessor(
            self._sender,
            max_queue_size=settings.queue,
            schedule_delay_millis=settings.delay * 1000,
            max_export_batch_size=settings.batch,
        )
        self._taken = self._dropped = 0
        self._full = self._closed = False

    def put(self, trace: TraceContext, spans: Sequence[Span]) -> None:
        """Queue as many spans of a trace as there is room for."""
        waiting = self._waiting()
        space = 0 if self._closed else self._size - waiting
        self._full = self._full and waiting > 0
        for span in spans[:space]:
            self._taken += 1
            self._processor.on_end(_Waiting(trace, span))
        if len(spans) > space:
            self._dropped += len(spans) - space
            if not self._full and not self._closed:
                # Logged once, until the queue has been empty again.
                self._full = True
                log.warning("spans are dropped: %d wait to be sent, which is all there is room for", self._size)

    def counts(self) -> SpanCounts:
        """Return what became of all spans so far."""
        return SpanCounts(self._sender.exported, self._sender.failed, self._dropped, self._waiting())

    def _waiting(self) -> int:
        return self._taken - self._sender.exported - self._sender.failed

    def flush(self, seconds: float) -> bool:
        """Send all there is now; return whether it was sent, or given up, within that time."""
        return not _run(self._processor.force_flush, seconds).is_alive()

    def close(self, seconds: float) -> None:
        """Send the queue within this time; then interrupt the request, and drop the rest."""
        self._closed = True
        ending = _run(self._processor.shutdown, seconds)
        self._sender.close()
        ending.join(_LAST)
        left = self.counts().waiting
        self._taken -= left
        self._dropped += left


class _Sender(SpanExporter):
    """An exporter that counts what another one delivers. A failure is logged once, and once that it is over.

    Passing failures are tried again by that exporter, for `OTEL_EXPORTER_OTLP_TIMEOUT`.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self.exported = self.failed = 0
        self._exporter = exporter
        self._sent_by = _SentBy(resource(), InstrumentationScope("aggregator", __version__))
        self._words = ExportErrors()
        self._works = True
        self._closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one queued batch. It may take long."""
        if self._closed:
            return SpanExportResult.FAILURE
        try:
            result = self._exporter.export(_Batch(spans, self._sent_by))
        except Exception as error:
            self._words.last = f"{type(error).__name__}: {error_text(error)}"
            result = SpanExportResult.FAILURE
        arrived = result is SpanExportResult.SUCCESS
        if arrived:
            self.exported += len(spans)
        else:
            self.failed += len(spans)
        if arrived is not self._works:
            self._works = arrived
            if arrived:
                log.info("spans are delivered again")
            else:
                log.warning("spans are not delivered, and lost as long as that lasts: %s", self._words.last)
        return result

    def close(self) -> None:
        """Interrupt the request in flight."""
        self._closed = True
        self._exporter.shutdown()
        self._words.close()


class _Waiting(ReadableSpan):
    """A span in the queue, of which the processor asks no more than whether it is sampled."""

    context = SpanContext(1, 1, False, _SAMPLED)

    def __init__(self, trace: TraceContext, span: Span) -> None:
        self.trace = trace
        self.span = span


class _SentBy:
    """The resource and the scope of all spans."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = resource
        self._scope = scope
        trace = TraceContext("1".zfill(32), "1".zfill(16))
        self.encoder = RequestEncoder(
            encode_spans([self.readable(trace, Span("", "server", trace.span_id, None, 0, 0, {}))])
        )

    def readable(self, trace: TraceContext, span: Span) -> ReadableSpan:
        """Return a span as the SDK has it."""
        trace_id = int(trace.trace_id, 16)
        state = TraceState.from_header([trace.tracestate]) if trace.tracestate else None
        parent = None
        if span.parent_id is not None:
            from_elsewhere = span.parent_id == trace.parent_id
            parent = SpanContext(trace_id, int(span.parent_id, 16), from_elsewhere, _SAMPLED, state)
        return ReadableSpan(
            span.name,
            SpanContext(trace_id, int(span.span_id, 16), False, _SAMPLED, state),
            parent,
            self._resource,
            span.attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.message) if span.error else _UNSET,
            start_time=span.began,
            end_time=span.ended,
            instrumentation_scope=self._scope,
        )


class _Batch(list[ReadableSpan]):
    """Queued spans: for any exporter a list of SDK spans, and a request for OTLP exporters."""

    def __init__(self, spans: Iterable[ReadableSpan], sent_by: _SentBy) -> None:
        super().__init__(spans)
        self._sent_by = sent_by

    def __iter__(self) -> Iterator[ReadableSpan]:
        for trace, span in self._parts():
            yield self._sent_by.readable(trace, span)

    def request(self) -> ExportTraceServiceRequest:
        """Return the request that sends them."""
        return self._sent_by.encoder.request(self._parts())

    def _parts(self) -> Iterator[tuple[TraceContext, Span]]:
        """Yield the spans, and give the event loop a turn after each few."""
        for number, waiting in enumerate(super().__iter__(), 1):
            assert isinstance(waiting, _Waiting)
            yield waiting.trace, waiting.span
            if number % _FEW == 0:
                time.sleep(0)


def _encoded(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    return spans.request() if isinstance(spans, _Batch) else encode_spans(spans)


def with_own_encoder(exporter: type[SpanExporter]) -> type[SpanExporter]:
    """Return an exporter that encodes batches as `span_bytes` does, in the method that names `encode_spans`.

    An exporter takes no encoder, and its module is not ours to change, so the method is copied with another meaning of
    that name. One that does not name it reads the batch as any other list of spans.
    """
    own: dict[str, Any] = {}
    for name, method in vars(exporter).items():
        if isinstance(method, FunctionType) and encode_spans.__name__ in method.__code__.co_names:
            names = {**method.__globals__, encode_spans.__name__: _encoded}
            own[name] = FunctionType(method.__code__, names, name, method.__defaults__, method.__closure__)
    return type(exporter.__name__, (exporter,), own)


class ExportErrors(logging.Handler):
    """A log handler that keeps the last message of the exporters from the log: they log every attempt."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = "the exporter does not say why"
        _logger.addHandler(self)
        _logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()

    def close(self) -> None:
        _logger.removeHandler(self)
        _logger.propagate = not any(isinstance(one, ExportErrors) for one in _logger.handlers)
        super().close()


def _run(work: Callable[[], object], seconds: float) -> Thread:
    """Do some work in a thread, and wait for it so long."""
    thread = Thread(target=work, name="aggregator-spans-end", daemon=True)
    thread.start()
    thread.join(seconds)
    return thread


def open_exporter(settings: OtelSettings) -> Otlp:
    """Return the exporter that the environment of this process describes.

    Raises:
        ImportError: its package is not installed.
        ValueError, OSError: a variable says what cannot be.
    """
    return Otlp(with_own_encoder(resolve_name(_EXPORTERS[settings.protocol]))(), settings)


def resource() -> Resource:
    """Return the sender of the spans: the environment's resource, and our own name if it has none."""
    said = OTELResourceDetector().detect().attributes
    ours = {SERVICE_VERSION: __version__} | ({} if SERVICE_NAME in said else {SERVICE_NAME: "aggregator"})
    return Resource.create({key: value for key, value in ours.items() if key not in said})
