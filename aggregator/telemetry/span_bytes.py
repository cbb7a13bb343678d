"""Spans as the bytes of an OTLP request. The parts that calls share are encoded once, and joined for each span.

The SDK's encoder makes objects of every attribute, which takes ten times as long as the rest of the work for a span.

Law: a request equals the SDK encoder's for the same spans. Messages whose bytes are joined are merged (Protocol
Buffers, Encoding, "Last One Wins"), so the protobuf library encodes the parts of a span.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import SpanFlags, Status

from aggregator.domain.call_record import TraceContext
from aggregator.telemetry.span_attributes import Kind, Span, Value

_KINDS: Final = {
    "server": Message.SPAN_KIND_SERVER,
    "client": Message.SPAN_KIND_CLIENT,
    "internal": Message.SPAN_KIND_INTERNAL,
}
_HAS_REMOTE: Final[int] = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_IS_REMOTE: Final[int] = SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
# Longer texts are a call's own, and are not kept.
_SHORT: Final = 200
_KEPT: Final = 4_096

# The fields of fixed length, each behind its key: trace id and span id, begin and end; and the parent's key.
_FIXED: Final = struct.Struct("<2s16s2s8sBQBQ").pack
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_BEGAN, _ENDED = 0x39, 0x41
# Field numbers of `ExportTraceServiceRequest.resource_spans`, `ResourceSpans.scope_spans`, `ScopeSpans.spans`.
_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS = 1, 2, 2


class RequestEncoder:
    """An encoder of requests with the spans of one resource and scope, which come from a sample request."""

    def __init__(self, sample: ExportTraceServiceRequest) -> None:
        of_resource = sample.resource_spans[0]
        of_scope = of_resource.scope_spans[0]
        del of_scope.spans[:]
        self._scope: bytes = of_scope.SerializeToString()
        del of_resource.scope_spans[:]
        self._resource: bytes = of_resource.SerializeToString()

    def request(self, spans: Iterable[tuple[TraceContext, Span]]) -> ExportTraceServiceRequest:
        """Return the request that sends these spans."""
        of_scope = [self._scope]
        for trace, span in spans:
            message = _span(trace, span)
            of_scope += _key(_SPANS, len(message)), message
        scope = b"".join(of_scope)
        resource = b"".join((self._resource, _key(_SCOPE_SPANS, len(scope)), scope))
        whole: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(
            _key(_RESOURCE_SPANS, len(resource)) + resource
        )
        return whole


def _span(trace: TraceContext, span: Span) -> bytes:
    name, kind, span_id, parent_id, began, ended, attributes, error, message = span
    remote = parent_id is not None and parent_id == trace.parent_id
    parts = [
        _FIXED(
            *(_TRACE_ID, bytes.fromhex(trace.trace_id), _SPAN_ID, bytes.fromhex(span_id)),
            *(_BEGAN, began, _ENDED, ended),
        ),
        _head(name, kind, remote),
    ]
    if trace.tracestate:
        parts.append(Message(trace_state=trace.tracestate).SerializeToString())
    if parent_id is not None:
        parts += _PARENT_ID, bytes.fromhex(parent_id)
    parts += [
        _text(key, value) if type(value) is str and len(value) <= _SHORT else _other(key, value)
        for key, value in attributes.items()
    ]
    if error is not None:
        parts.append(_failed(message))
    return b"".join(parts)


@lru_cache(_KEPT)
def _head(name: str, kind: Kind, remote: bool) -> bytes:
    """Return the fields that are the same in call after call."""
    flags = _HAS_REMOTE | _IS_REMOTE if remote else _HAS_REMOTE
    whole = Message(name=name, kind=_KINDS[kind], flags=flags, status=Status())
    return bytes(whole.SerializeToString())


def _failed(message: str | None) -> bytes:
    status = Status(code=Status.STATUS_CODE_ERROR, message=message or "")
    return bytes(Message(status=status).SerializeToString())


@lru_cache(_KEPT)
def _text(key: str, value: str) -> bytes:
    return _encoded(key, value)


@lru_cache(_KEPT)
def _texts(key: str, values: tuple[str, ...]) -> bytes:
    return _encoded(key, list(values))


def _other(key: str, value: Value) -> bytes:
    return _texts(key, tuple(value)) if isinstance(value, list) else _encoded(key, value)


def _encoded(key: str, value: Value) -> bytes:
    """Return the bytes of an attribute; none for a text that is no Unicode."""
    try:
        return bytes(Message(attributes=[KeyValue(key=key, value=_value(value))]).SerializeToString())
    except UnicodeEncodeError:
        return b""


def _value(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=map(_value, value)))


@lru_cache(_KEPT)
def _key(field: int, length: int) -> bytes:
    """Return what stands before the bytes of a message that is a field: its key, and its length by seven bits."""
    key = bytearray((field << 3 | 2,))
    while length > 127:
        key.append(length & 127 | 128)
        length >>= 7
    key.append(length)
    return bytes(key)
