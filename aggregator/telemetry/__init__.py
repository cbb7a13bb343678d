"""Spans and metrics of calls, made after the fact: the event loop only counts, and queues records.

Terms:
  span: one timed piece of a trace, as OpenTelemetry has it; a call has one, and each of its steps.
  sampler: decides when a call comes in whether its trace is recorded.
  exporter: sends spans to the collector by OTLP, through the SDK's batch processor.
  series: the values of one metric by labels, with a bound on their number.
  snapshot: the state of upstreams, queues and sessions at the moment of a scrape.

Entry point: `spans.open_spans` and `metrics.Metrics`; both are called with each closed call record.
Must not import: OpenTelemetry outside of `otlp` and `span_bytes`, which are loaded when spans are wanted (an extra);
the other services, `gateway` and all above it (tests/test_layers.py).
"""
