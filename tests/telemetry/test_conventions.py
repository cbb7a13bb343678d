"""Spans and metrics against the tables of the OpenTelemetry semantic conventions for MCP.

Source: open-telemetry/semantic-conventions, tag v1.41.0, docs/gen-ai/mcp.md, the last release of that repository that
has the page; it goes on in open-telemetry/semantic-conventions-genai.
"""

from typing import Any, Final, Literal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.domain.call_record import Attempt, CallRecord, Stage
from aggregator.telemetry.hops import NetworkHop, hop_to
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.operations import BOUNDS
from aggregator.telemetry.snapshot import Snapshot
from aggregator.telemetry.span_attributes import Span, spans_of
from tests.telemetry.call_records import ITEMS, STATUSES, UNSENT, call, item, unknown_tool

Level = Literal["required", "conditional", "recommended", "opt-in"]

_BOTH: Final[dict[str, Level]] = {
    "mcp.method.name": "required",
    "error.type": "conditional",
    "gen_ai.prompt.name": "conditional",
    "gen_ai.tool.name": "conditional",
    "rpc.response.status_code": "conditional",
    "gen_ai.operation.name": "recommended",
    "jsonrpc.protocol.version": "recommended",
    "mcp.protocol.version": "recommended",
    "network.protocol.name": "recommended",
    "network.protocol.version": "recommended",
    "network.transport": "recommended",
}
_SPANS: Final[dict[str, Level]] = {
    **_BOTH,
    "jsonrpc.request.id": "conditional",
    "mcp.resource.uri": "conditional",
    "mcp.session.id": "recommended",
    "gen_ai.tool.call.arguments": "opt-in",
    "gen_ai.tool.call.result": "opt-in",
}
_TO_SERVER: Final[dict[str, Level]] = {"server.address": "recommended", "server.port": "recommended"}
_SESSION: Final[dict[str, Level]] = {
    "error.type": "conditional",
    "jsonrpc.protocol.version": "recommended",
    "mcp.protocol.version": "recommended",
    "network.protocol.name": "recommended",
    "network.protocol.version": "recommended",
    "network.transport": "recommended",
}
TABLES: Final[dict[str, dict[str, Level]]] = {
    "client span": {**_SPANS, **_TO_SERVER},
    "server span": {**_SPANS, "client.address": "recommended", "client.port": "recommended"},
    "mcp.client.operation.duration": {**_BOTH, **_TO_SERVER, "mcp.resource.uri": "opt-in"},
    "mcp.server.operation.duration": {**_BOTH, "mcp.resource.uri": "opt-in"},
    "mcp.client.session.duration": {**_SESSION, **_TO_SERVER},
    "mcp.server.session.duration": _SESSION,
}
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
# Why something of a table is not there.
NOT_SENT: Final[dict[str, dict[str, str]]] = {
    "client span": {
        "jsonrpc.protocol.version": "it is 2.0",
        "network.protocol.version": "not on record",
        "mcp.session.id": "the id of that hop is not on record",
    },
    "server span": {
        "jsonrpc.protocol.version": "it is 2.0",
        "network.protocol.version": "not on record",
        "client.address": "hosts' addresses are not recorded",
        "client.port": "hosts' addresses are not recorded",
    },
    "mcp.client.operation.duration": {
        "jsonrpc.protocol.version": "it is 2.0",
        "network.protocol.version": "not on record",
    },
    "mcp.server.operation.duration": {
        "jsonrpc.protocol.version": "it is 2.0",
        "network.protocol.version": "not on record",
    },
    "mcp.client.session.duration": {
        "jsonrpc.protocol.version": "it is 2.0",
        "network.protocol.version": "not on record",
    },
    "mcp.server.session.duration": {
        "jsonrpc.protocol.version": "it is 2.0",
        "network.protocol.version": "not on record",
    },
}
# Attributes of other conventions: of agents, of users and of sessions, of Langfuse, and our own.
OTHERS: Final = ("gen_ai.agent.id", "gen_ai.conversation.id", "user.id", "session.id", "langfuse.", "aggregator.")
OPT_IN: Final = ("{}", "{}")


def find_hop(server: str) -> NetworkHop:
    return hop_to(f"https://{server}.example.com:8443/secret/mcp?key=hunter2", None)


def every_record() -> list[CallRecord]:
    """Records of every method, era, frontend and end."""
    ids: dict[str, Any] = {"request_id": 7, "upstream_request_id": 3, "session_id": "s"}
    records = [call(status, frontend=one, **ids) for status in STATUSES for one in ("http", "sse", "stdio")]
    records += [item(method, request_id="a", session_id="s") for method in ITEMS]
    return [*records, call("error", error_code="-32000", request_id=0, session_id="s"), unknown_tool()]


def spans(kind: str) -> list[Span]:
    return [one for record in every_record() for one in spans_of(record, str, OPT_IN, find_hop) if one.kind == kind]


def sent() -> dict[str, set[str]]:
    """The attributes that there are, by table."""
    found = {f"{kind} span": {name for one in spans(kind) for name in one.attributes} for kind in ("client", "server")}
    return found | families(every_record())


def families(records: list[CallRecord]) -> dict[str, set[str]]:
    metrics = Metrics(Snapshot, find_hop)
    for record in records:
        metrics(record)
    for failure in (None, "-32602", "_OTHER"):
        for frontend in ("http", "sse", "stdio", "inprocess"):
            metrics.request_over("tools/list", frontend, "2025-11-25", 0.25, failure)
    for failure in (None, "unread"):
        for frontend in ("http", "sse", "stdio"):
            metrics.sessions.host_over(frontend, "2025-11-25", 0.25, failure)
        metrics.sessions.upstream_over("weather", "2025-11-25", 0.25, failure)
    known = {name.replace(".", "_"): name for table in TABLES.values() for name in table}
    return {
        f"mcp.{side}.{what}.duration": {
            known[label] for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in text_string_to_metric_families(b"".join(metrics.page()).decode())
        for side in ("client", "server")
        for what in ("operation", "session")
        if family.name == f"mcp_{side}_{what}_duration_seconds"
    }


@pytest.mark.parametrize("table", TABLES)
def test_what_is_there_is_in_the_table_and_what_is_not_has_a_reason(table: str) -> None:
    """Proves: D9."""
    found = {name for name in sent()[table] if not name.startswith(OTHERS)}
    ours = {"aggregator.completion.ref"}
    assert found - set(TABLES[table]) - ours == set()
    wanted = {name for name, level in TABLES[table].items() if level != "opt-in"}
    assert wanted - found == set(NOT_SENT[table])


def test_what_is_required_is_always_there() -> None:
    """Proves: D9. And `error.type` if and only if something failed, with the code of a JSON-RPC error beside it."""
    for kind in ("client", "server"):
        for one in spans(kind):
            assert one.attributes["mcp.method.name"]
            assert ("error.type" in one.attributes) == (one.error is not None)
            code = one.attributes.get("rpc.response.status_code")
            assert code == (one.error if one.error == "-32000" else None)


@pytest.mark.parametrize(
    ("frontend", "request_id", "told"),
    [
        ("http", 7, "7"),
        ("http", 0, "0"),
        ("http", "", ""),
        ("sse", "a-1", "a-1"),
        ("stdio", 8, "8"),
        ("http", None, None),
        ("v1", 9, None),
        ("cli", 9, None),
        ("http", "x" * 500, "x" * 200),
        ("http", "hunter2", "[redacted]"),
    ],
)
def test_the_id_of_the_request(frontend: str, request_id: str | int | None, told: str | None) -> None:
    """Proves: D9. A text, as the conventions have it; none where the host does not speak JSON-RPC."""
    record = call(frontend=frontend, request_id=request_id)
    whole, *steps = spans_of(record, lambda text: text.replace("hunter2", "[redacted]"))
    assert whole.attributes.get("jsonrpc.request.id") == told
    assert not any("jsonrpc.request.id" in step.attributes for step in steps)


def test_the_id_of_each_request_to_a_server() -> None:
    """Proves: D9. Of every attempt its own; none for one that was not sent."""
    steps = [Stage("policy", 0.0, 0.1), Stage("upstream", 0.1, 0.2), Stage("upstream", 0.4, 0.2)]
    steps.append(Stage("upstream", 0.7, 0.2))
    attempts = (Attempt(1, "weather", "It is gone.", 0), Attempt(2, "weather", "It is away."))
    record = call(steps=steps, attempts=attempts, upstream_request_id=5, request_id="of the host")
    clients = [one for one in spans_of(record, str) if one.kind == "client"]
    assert [one.attributes.get("jsonrpc.request.id") for one in clients] == ["0", None, "5"]


def test_each_attempt_has_the_name_that_it_sent() -> None:
    """Proves: D9. Beside the approved name, if the server spells that otherwise; the spans keep the approved one."""
    steps = [Stage("upstream", 0.0, 0.25), Stage("upstream", 0.5, 2.0)]
    attempts = (Attempt(0, "weather", "It is gone.", 0, "getForecast"), Attempt(1, "spare", None, 1))
    spans = spans_of(call(steps=steps, attempts=attempts, answered_by="spare"), str)
    assert [one.attributes.get("aggregator.tool.sent") for one in spans] == [None, "getForecast", None]
    assert spans[1].attributes["gen_ai.tool.name"] == "get_forecast"
    (_, client) = spans_of(call(steps=steps[:1], sent_name="getForecast"), str)
    assert client.attributes["aggregator.tool.sent"] == "getForecast"


@pytest.mark.parametrize(
    ("url", "command", "hop"),
    [
        ("https://mcp.example.com/mcp?key=hunter2", None, NetworkHop("tcp", "http", "mcp.example.com", 443)),
        ("http://mcp.example.com/mcp", None, NetworkHop("tcp", "http", "mcp.example.com", 80)),
        ("http://[::1]:8080/sse", None, NetworkHop("tcp", "http", "::1", 8080)),
        ("https://user:hunter2@mcp.example.com:1/", None, NetworkHop("tcp", "http", "mcp.example.com", 1)),
        ("http://mcp.example.com:none/", None, NetworkHop("tcp", "http")),
        ("http:///mcp", None, NetworkHop("tcp", "http", None, 80)),
        (None, "uvx", NetworkHop("pipe")),
        (None, None, NetworkHop()),
    ],
)
def test_the_way_to_a_server(url: str | None, command: str | None, hop: NetworkHop) -> None:
    """Proves: D9. Host and port of its address, and nothing else of it."""
    assert hop_to(url, command) == hop
    (client,) = [one for one in spans_of(call(), str, find_hop=lambda server: hop) if one.kind == "client"]
    told = ("network.transport", "network.protocol.name", "server.address", "server.port")
    port = hop.port if hop.address else None
    assert [client.attributes.get(name) for name in told] == [hop.transport, hop.protocol, hop.address, port]


def test_each_attempt_names_the_server_that_it_went_to() -> None:
    """Proves: D9. The last one is that of the server that answered."""
    steps = [Stage("upstream", 0.0, 0.25), Stage("upstream", 0.5, 2.0)]
    clients = spans_of(call(steps=steps, answered_by="spare"), str, find_hop=find_hop)[1:]
    assert [one.attributes["server.address"] for one in clients] == ["weather.example.com", "spare.example.com"]


Rows = dict[tuple[str, str, str], tuple[int, float]]


def rows(side: str, *records: CallRecord) -> Rows:
    """Count and sum of a histogram by method, tool or prompt, and error."""
    metrics = Metrics(Snapshot, find_hop)
    for record in records:
        metrics(record)
    found: dict[tuple[str, str, str], list[float]] = {}
    for family in text_string_to_metric_families(b"".join(metrics.page()).decode()):
        for sample in family.samples:
            if sample.name in (f"mcp_{side}_operation_duration_seconds_{part}" for part in ("count", "sum")):
                labels = sample.labels
                what = labels.get("gen_ai_tool_name") or labels.get("gen_ai_prompt_name") or ""
                key = (labels["mcp_method_name"], what, labels.get("error_type", ""))
                found.setdefault(key, [0, 0])[sample.name.endswith("_sum")] += sample.value
    return {key: (int(count), total) for key, (count, total) in found.items()}


def test_operations_of_hosts() -> None:
    """Proves: D9. From arrival to answer, by what failed; `/v1` speaks no MCP."""
    records = [call(duration=0.5), call(duration=0.25, agent_id="desk"), call("denied", duration=0.125)]
    records += [call("cancelled", duration=0.0625), call(frontend="v1"), item("prompts/get", duration=1.0)]
    records += [item("prompts/get", own_name="other", duration=2.0), item("resources/read", duration=0.5)]
    assert rows("server", *records) == {
        ("tools/call", "weather.get_forecast", ""): (3, 0.8125),
        ("tools/call", "weather.get_forecast", "tool_not_allowed"): (1, 0.125),
        ("prompts/get", "own", ""): (1, 1.0),
        ("prompts/get", "other", ""): (1, 2.0),
        ("resources/read", "", ""): (1, 0.5),
    }


def test_operations_at_servers() -> None:
    """Proves: D9. Each attempt by itself; what was not sent is none, and what failed here did not fail there."""
    twice = [Stage("upstream", 0.0, 0.25), Stage("confirm", 0.3, 9.0), Stage("upstream", 0.5, 2.0)]
    once = [Stage("upstream", 0.0, 0.5)]
    records = [call(steps=twice), call("timeout", steps=once), call("invalid", steps=once, error_code="bad")]
    records += [call(status, steps=[]) for status in UNSENT]
    records += [call(frontend="v1", steps=once)]
    assert rows("client", *records) == {
        ("tools/call", "get_forecast", "_OTHER"): (1, 0.25),
        ("tools/call", "get_forecast", ""): (3, 3.0),
        ("tools/call", "get_forecast", "timeout"): (1, 0.5),
    }


def test_lists_and_handshakes_have_no_name_of_a_tool() -> None:
    """Proves: D9. Only the method, the revision, the way and what failed."""
    metrics = Metrics(Snapshot, find_hop)
    metrics.request_over("initialize", "stdio", "2025-11-25", 0.25, None)
    metrics.request_over("tools/list", "http", None, 0.5, "-32602")
    metrics.request_over("tools/list", "http", None, 0.5, "_OTHER")
    found = [
        {**sample.labels, "sum": sample.value}
        for family in text_string_to_metric_families(b"".join(metrics.page()).decode())
        for sample in family.samples
        if sample.name == "mcp_server_operation_duration_seconds_sum"
    ]
    http = {"mcp_method_name": "tools/list", "network_transport": "tcp", "network_protocol_name": "http", "sum": 0.5}
    assert found == [
        {
            "mcp_method_name": "initialize",
            "mcp_protocol_version": "2025-11-25",
            "network_transport": "pipe",
            "sum": 0.25,
        },
        {**http, "error_type": "-32602", "rpc_response_status_code": "-32602"},
        {**http, "error_type": "_OTHER"},
    ]


def test_the_buckets_are_those_of_the_conventions() -> None:
    assert BOUNDS == BUCKETS
    metrics = Metrics(Snapshot, find_hop)
    for seconds in (0.01, 0.011, 300.0, 301.0):
        metrics(call(duration=seconds))
    lines = b"".join(metrics.page()).decode().splitlines()
    buckets = [line for line in lines if line.startswith("mcp_server_operation_duration_seconds_bucket")]
    for bound, below in (("0.01", 1), ("0.02", 2), ("120.0", 2), ("300.0", 3), ("+Inf", 4)):
        assert [line for line in buckets if line.endswith(f'le="{bound}"}} {below}')], bound


def test_nothing_a_caller_writes_makes_more_rows_than_the_bound() -> None:
    """Proves: D9. What comes later is counted under `other`, so that sums stay right."""
    records = [call(tool=f"weather.t{number}", own_name=f"t{number}") for number in range(1_000)]
    records += [call("error", error_code=f"-{number}") for number in range(1_000)]
    for side in ("server", "client"):
        found = rows(side, *records)
        assert len(found) <= 503
        assert sum(count for count, _ in found.values()) == 2_000
        assert ("tools/call", "other", "") in found
        assert ("tools/call", "other", "other") in found
