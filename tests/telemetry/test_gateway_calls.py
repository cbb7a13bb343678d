"""Calls on their whole road through the gateway: what of them arrives at the receiver, and at the upstream."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.snapshot import Snapshot
from aggregator.telemetry.spans import open_spans
from tests.access.gateway_harness import BOUND, LEGACY, MODERN, GatewayHarness, make_config, tool
from tests.peers.toolbox import Json, text_result
from tests.telemetry.receiver import ReceivedSpan, Receiver, receiving

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
POLICIES: Json = {"agents": {"shop": {"allow": ["*"], "deny": ["weather.secret"]}}}
TOOLS = {"weather": [tool("get", {"city": {"type": "string"}}), tool("secret"), tool("slow")]}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@asynccontextmanager
async def traced(folder: Path, metrics: Metrics) -> AsyncIterator[GatewayHarness]:
    """A gateway whose calls are counted and sent as spans; all have arrived on the way out."""
    harness = GatewayHarness(make_config(folder, {"weather": {"command": "played"}}), TOOLS, POLICIES)
    spans = open_spans(os.environ, str)
    assert spans is not None
    journal = harness.app.telemetry.observers
    journal.sinks, journal.sample, journal.exported = (metrics, spans), spans.sample, True
    try:
        yield harness
    finally:
        await spans.close()


def servers(receiver: Receiver) -> list[ReceivedSpan]:
    return [span for span in receiver.spans if span.kind == "server"]


async def test_one_trace_from_the_host_to_the_upstream(tmp_path: Path, receiver: Receiver) -> None:
    """Proves: D9. The upstream's parent is the span of the request it got, and above that is the host's own."""
    async with traced(tmp_path, Metrics(Snapshot)) as harness:
        meta = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "rojo=1"}
        await harness.call(harness.host("shop"), "weather.get", {"city": "Graz"}, _meta=meta)
    carried = harness.fake_upstreams["weather"].calls[0]["_meta"]
    whole, client = servers(receiver)[0], receiver.named("tools/call get")[0]
    assert (whole.trace_id, whole.parent_id) == (TRACE, SPAN)
    assert (client.trace_id, client.parent_id) == (TRACE, whole.span_id)
    assert carried["traceparent"] == f"00-{TRACE}-{client.span_id}-01"
    assert carried["tracestate"] == "rojo=1"
    assert [span.name for span in receiver.spans if span.kind == "internal"][:2] == ["policy", "check"]


@pytest.mark.parametrize("more", [{}, {"_meta": {}}, {"_meta": {"traceparent": "00-nonsense"}}])
async def test_a_trace_begins_here_if_the_host_has_none(tmp_path: Path, receiver: Receiver, more: Json) -> None:
    """D9: the upstream's parent is the span of the request it got, also if the host sends no `_meta`."""
    async with traced(tmp_path, Metrics(Snapshot)) as harness:
        await harness.call(harness.host("shop"), "weather.get", {"city": "Graz"}, **more)
    carried = harness.fake_upstreams["weather"].calls[0]["_meta"]
    client = receiver.named("tools/call get")[0]
    assert carried["traceparent"] == f"00-{client.trace_id}-{client.span_id}-01"


async def test_every_way_out_leaves_one_closed_span(tmp_path: Path, receiver: Receiver) -> None:
    """Proves: D9. Good, refused, unknown, unfit, failed and called off: one span and one count each."""
    metrics = Metrics(Snapshot)
    async with traced(tmp_path, metrics) as harness:
        host, upstream = harness.host("shop"), harness.fake_upstreams["weather"]
        begun = asyncio.Event()

        async def never(params: Json) -> Json:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody waits so long")

        async def wrong(params: Json) -> Json:
            return {**text_result("no"), "isError": True}

        await harness.call(host, "weather.get")
        await harness.call(host, "weather.secret")
        await harness.call(host, "weather.nothing")
        await harness.call(host, "weather.get", {"city": 7})
        upstream.answer = wrong
        await harness.call(host, "weather.get")
        upstream.answer = never
        called_off = asyncio.create_task(harness.call(host, "weather.slow"))
        async with asyncio.timeout(BOUND):
            await begun.wait()
        called_off.cancel()
        await asyncio.wait([called_off])
    told = Counter(span.attributes["aggregator.status"] for span in servers(receiver))
    assert told == Counter(["ok", "denied", "invalid", "invalid", "error", "cancelled"])
    page = b"".join(metrics.page()).decode()
    counted = [line for line in page.splitlines() if line.startswith("aggregator_calls_total{")]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in counted) == 6
    assert "nothing" not in page
    assert all(span.began <= span.ended for span in receiver.spans)
    ends = {span.span_id: (span.began, span.ended) for span in servers(receiver)}
    for span in receiver.spans:
        if span.kind != "server":
            began, ended = ends[span.parent_id]
            assert began <= span.began <= span.ended <= ended, span.name


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_lists_and_handshakes_are_operations_too(tmp_path: Path, version: str) -> None:
    """Proves: D9. Each once, with its error if it failed; calls are not counted twice, nor what no method is."""
    harness = GatewayHarness(make_config(tmp_path, {"weather": {"command": "played"}}), TOOLS, POLICIES)
    metrics = harness.app.telemetry.enable_metrics(Snapshot)
    host = harness.host("shop", version)
    first = "initialize" if version == LEGACY else "server/discover"
    given = {"protocolVersion": version, "capabilities": {}, "clientInfo": {}} if version == LEGACY else {}
    await harness.ask(host, first, given)
    await harness.call(host, "weather.get", {"city": "Graz"})
    for _ in range(2):
        await harness.ask(host, "tools/list", {})
    assert "error" in await harness.ask(host, "prompts/list", {"cursor": "none of ours"})
    assert "error" in await harness.ask(host, "no/such", {})
    rows = {}
    for family in text_string_to_metric_families(b"".join(metrics.page()).decode()):
        for sample in family.samples:
            if sample.name == "mcp_server_operation_duration_seconds_count":
                labels = sample.labels
                assert labels["mcp_protocol_version"] == version
                assert (labels["network_transport"], labels["network_protocol_name"]) == ("tcp", "http")
                key = labels["mcp_method_name"], labels.get("error_type"), labels.get("rpc_response_status_code")
                rows[key] = int(sample.value)
    assert rows == {
        (first, None, None): 1,
        ("tools/call", None, None): 1,
        ("tools/list", None, None): 2,
        ("prompts/list", "-32602", "-32602"): 1,
    }
