"""Spans over OTLP, by the OpenTelemetry SDK. The one file that knows it; loaded only when spans are wanted.

Endpoint, headers, certificates, compression and time-outs are the SDK's business: it reads them from `OTEL_EXPORTER_*`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Final

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from aggregator import __version__
from aggregator.domain.call_record import TraceContext
from aggregator.telemetry.otel_environment import Protocol
from aggregator.telemetry.refcounted import Refcounted
from aggregator.telemetry.span_attributes import Kind, Span

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


class Otlp:
    """Sends spans by one of the SDK's exporters. That it fails is logged once, and once that it works again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.text_limit: int | None = SpanLimits().max_span_attribute_length
        self._exporter = exporter
        self._resource = resource()
        self._scope = InstrumentationScope("aggregator", __version__)
        self._words = ExportErrors()
        self._works = True

    def make(self, trace: TraceContext, span: Span) -> ReadableSpan:
        """The SDK's form of a span."""
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

    def send(self, spans: Sequence[ReadableSpan]) -> bool:
        """Whether they arrived; passing failures are tried again by the exporter, for `OTEL_EXPORTER_OTLP_TIMEOUT`."""
        try:
            arrived = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception as error:
            self._words.last = f"{type(error).__name__}: {error}"
            arrived = False
        if arrived is not self._works:
            self._works = arrived
            if arrived:
                log.info("spans are delivered again")
            else:
                log.warning("spans are not delivered, and lost as long as that lasts: %s", self._words.last)
        return arrived

    def close(self) -> None:
        """End what is being sent."""
        self._exporter.shutdown()
        self._words.close()


def _keep_quiet() -> Callable[[], None]:
    before, _logger.propagate = _logger.propagate, False
    return lambda: setattr(_logger, "propagate", before)


_quiet: Final = Refcounted(_keep_quiet)


class ExportErrors(logging.Handler):
    """Keeps what the exporters say to itself: they would log every attempt."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = "the exporter does not say why"
        _quiet.enter()
        _logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()

    def close(self) -> None:
        # Python closes every handler once more on its way out.
        if self in _logger.handlers:
            _logger.removeHandler(self)
            _quiet.leave()
        super().close()


def open_exporter(protocol: Protocol) -> Otlp:
    """The exporter that the environment of this process describes.

    Raises:
        ImportError: its package is not installed.
        ValueError, OSError: a variable says what cannot be.
    """
    return Otlp(resolve_name(_EXPORTERS[protocol])())


def resource() -> Resource:
    """Who sends the spans: what the environment says, and our own name where it says none."""
    said = OTELResourceDetector().detect().attributes
    ours = {SERVICE_VERSION: __version__} | ({} if SERVICE_NAME in said else {SERVICE_NAME: "aggregator"})
    return Resource.create({key: value for key, value in ours.items() if key not in said})
