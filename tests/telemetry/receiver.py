"""A real OTLP receiver on loopback that writes down what it is sent, and can be slow, broken or deaf."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

KINDS: Final = {Span.SPAN_KIND_SERVER: "server", Span.SPAN_KIND_CLIENT: "client", Span.SPAN_KIND_INTERNAL: "internal"}


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it came over the wire."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int
    ended: int
    status: int
    message: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    tracestate: str = ""


@dataclass
class Receiver:
    """An OTLP receiver. `status` is its answer; it does not answer while `held`."""

    status: int = 200
    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def read(self, body: bytes) -> None:
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {pair.key: _value(pair.value) for pair in of_resource.resource.attributes}
            for scope in of_resource.scope_spans:
                self.spans += [_heard(span, resource) for span in scope.spans]


def _heard(span: Span, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        KINDS[span.kind],
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code,
        span.status.message,
        {pair.key: _value(pair.value) for pair in span.attributes},
        resource,
        span.trace_state,
    )


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def receiving(status: int = 200) -> Iterator[Receiver]:
    """A receiver on a free port."""
    receiver = Receiver(status)
    receiver.held.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            receiver.held.wait(30)
            if receiver.status == 200:
                receiver.read(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
            try:
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()
            except OSError:
                # The client has stopped waiting for the answer.
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.held.set()
        server.shutdown()
        thread.join(5)
        server.server_close()
