"""The fields that the row and the spans of one call share, and that must agree."""

from collections.abc import Mapping
from typing import Final

import pytest

from aggregator.domain.call_record import ON_RECORD, TOOL_CALL
from aggregator.telemetry.span_attributes import FAILURES
from tests.observability.observed_harness import ObservedHarness
from tests.peers.toolbox import Json
from tests.telemetry.receiver import ReceivedSpan

_NAMED_BY: Final[Mapping[str, str]] = {
    "prompts/get": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
    "completion/complete": "aggregator.completion.ref",
}


def assert_span_matches_row(harness: ObservedHarness, row: Json, whole: ReceivedSpan) -> None:
    """The span of a call and those below it, in every field that the row has too."""
    assert (whole.trace_id, whole.span_id) == (row["trace_id"], row["span_id"])
    assert whole.parent_id == row.get("parent_id", "")
    said = whole.attributes
    for attribute, column in {
        "gen_ai.agent.id": "agent_id",
        "aggregator.tenant": "tenant",
        "aggregator.key.id": "key_id",
        "user.id": "user_id",
        "session.id": "session_id",
        "gen_ai.conversation.id": "conversation_id",
        "aggregator.server.id": "server_id",
        "aggregator.tool.version": "schema_version",
        "aggregator.frontend": "frontend",
        "aggregator.via": "via",
        "mcp.protocol.version": "host_version",
        "aggregator.status": "status",
        "aggregator.rule": "rule",
        "aggregator.rule.source": "rule_source",
    }.items():
        assert said.get(attribute) == row.get(column), attribute
    if row.get("tool_name") in ON_RECORD - {TOOL_CALL}:
        assert (said["mcp.method.name"], said.get("gen_ai.tool.name")) == (row["tool_name"], None)
    else:
        assert said.get("gen_ai.tool.name") == row.get("tool_name")
    failed = FAILURES[row["status"]] is not None
    assert (whole.status == 2) is failed
    assert said.get("error.type") == (row["error_code"] if failed else None)
    assert whole.began == pytest.approx(row["started"] * 1e9, abs=2_000)
    assert whole.ended - whole.began == pytest.approx(row["duration"] * 1e9, abs=2_000)
    below = harness.child_spans(whole)
    assert all(whole.began <= span.began <= span.ended <= whole.ended for span in below)
    assert all(span.trace_id == whole.trace_id for span in below)
    clients = [span for span in below if span.kind == "client"]
    assert len(clients) == (row["upstream_seconds"] > 0)
    for client in clients:
        named = client.attributes[_NAMED_BY.get(row["tool_name"], "gen_ai.tool.name")]
        assert named == row["own_name"]
        # Ids are counted by connection; a request that was not sent has none.
        assert client.attributes.get("jsonrpc.request.id", "1").isdecimal() is True
        assert ("jsonrpc.request.id" in client.attributes) is ("upstream_version" in row)
        assert client.attributes.get("mcp.protocol.version") == row.get("upstream_version")
        assert client.ended - client.began == pytest.approx(row["upstream_seconds"] * 1e9, abs=2_000)
