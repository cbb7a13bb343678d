"""The spans of one call, as they are decided."""

from typing import Any

import pytest
from hypothesis import given, settings

from aggregator.domain.call_record import CallRecord, Stage, Status, TraceContext
from aggregator.domain.trace_context import upstream_span_id
from aggregator.telemetry.span_attributes import FAILURES, Span, spans_of
from tests.laws import examples
from tests.telemetry.call_records import ITEMS, STATUSES, UNSENT, call, calls, item, unknown_tool


def hide(text: str) -> str:
    return text.replace("hunter2", "[redacted]")


def made(record: CallRecord, **captured: Any) -> list[Span]:
    return spans_of(record, hide, **captured)


def of_kind(spans: list[Span], kind: str) -> list[Span]:
    return [span for span in spans if span.kind == kind]


def test_a_call_follows_the_conventions_for_mcp() -> None:
    """Proves: D9. Names and attributes of OpenTelemetry, and what they have no word for under `aggregator.`."""
    record = call(
        user_id="alice", session_id="s-1", conversation_id="c-7", tenant="acme", key_id="agk_1", rule="allow weather.*",
        rule_source="policies/a.yaml:7", queued=0.25, retries=1, via="call_tool", answered_by="weather2",
    )  # fmt: skip
    whole = made(record)[0]
    assert (whole.name, whole.kind, whole.error, whole.message) == (
        "tools/call weather.get_forecast",
        "server",
        None,
        None,
    )
    assert whole.attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "mcp.session.id": "s-1",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather.get_forecast",
        "gen_ai.agent.id": "shop",
        "gen_ai.conversation.id": "c-7",
        "user.id": "alice",
        "session.id": "s-1",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "aggregator.frontend": "http",
        "aggregator.via": "call_tool",
        "aggregator.tenant": "acme",
        "aggregator.key.id": "agk_1",
        "aggregator.server.id": "weather",
        "aggregator.answered_by": "weather2",
        "aggregator.tool.version": "5f0c",
        "aggregator.status": "ok",
        "aggregator.rule": "allow weather.*",
        "aggregator.rule.source": "policies/a.yaml:7",
        "aggregator.retries": 1,
        "aggregator.queued": 0.25,
        "langfuse.user.id": "alice",
        "langfuse.session.id": "c-7",
        "langfuse.trace.tags": ["agent:shop"],
    }


def test_every_step_has_its_span_below_the_call() -> None:
    """Proves: D9. Policy, check and output within, the upstream's hop as a client's, each at its time."""
    record = call()
    whole, policy, check, upstream, output = made(record)
    assert [span.name for span in (policy, check, upstream, output)] == [
        "policy",
        "check",
        "tools/call get_forecast",
        "output",
    ]
    assert [span.kind for span in (policy, check, upstream, output)] == ["internal", "internal", "client", "internal"]
    assert {span.parent_id for span in (policy, check, upstream, output)} == {whole.span_id}
    assert (upstream.began - whole.began, upstream.ended - upstream.began) == (1_000_000, 40_000_000)
    assert (whole.began, whole.ended - whole.began) == (1_800_000_000_500_000_000, 50_000_000)
    assert upstream.attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_forecast",
        "aggregator.server.id": "weather",
    }


def test_a_call_at_the_stdio_frontend_and_one_over_v1() -> None:
    piped, posted = made(call(frontend="stdio"))[0], made(call(frontend="v1"))[0]
    assert piped.attributes["network.transport"] == "pipe"
    assert "network.protocol.name" not in piped.attributes
    assert posted.name == "execute_tool weather.get_forecast"
    assert "mcp.method.name" not in posted.attributes


@pytest.mark.parametrize("status", STATUSES)
def test_every_end_has_its_status(status: Status) -> None:
    """Proves: D9. What failed says how; what was called off or waits for a person did not fail."""
    whole, *steps = made(call(status))
    assert whole.error == FAILURES[status] == whole.attributes.get("error.type")
    assert (whole.error is None) == (status in ("ok", "pending", "cancelled"))
    assert whole.attributes["aggregator.status"] == status
    level = {"denied": "WARNING", "invalid": "WARNING", "cancelled": "WARNING"}.get(status)
    assert whole.attributes.get("langfuse.observation.level") == level
    upstream = of_kind(steps, "client")
    assert len(upstream) == (0 if status in UNSENT else 1)
    assert all(span.error == whole.error for span in upstream)
    assert not [span for span in of_kind(steps, "internal") if span.error]


def test_a_code_says_more_than_the_status() -> None:
    """Proves: D9. The code of a JSON-RPC error is told by its own attribute too."""
    record = call("error", error_code="-32001", error_message="no: hunter2 " + "x" * 600)
    for span in (made(record)[0], *of_kind(made(record), "client")):
        assert span.attributes["error.type"] == span.attributes["rpc.response.status_code"] == "-32001"
        assert span.message is not None
        assert span.message.startswith("no: [redacted] xxx")
        assert len(span.message) == 500
    late = made(call("timeout", error_code="upstream_timeout"))[0]
    assert late.attributes["error.type"] == "upstream_timeout"
    assert "rpc.response.status_code" not in late.attributes


def test_a_cancelled_call_is_closed() -> None:
    """Proves: D9. So is the request that still ran."""
    spans = made(call("cancelled", duration=0.03, error_message="gone"))
    assert [span.name for span in spans][-1] == "tools/call get_forecast"
    assert {span.ended for span in spans if span.kind != "internal"} == {spans[0].ended}
    assert not any(span.error or span.message for span in spans)


def test_each_attempt_is_a_span_of_its_own() -> None:
    """Proves: D9. The last one has the end of the call, those before it failed; the ids are those that were sent on."""
    steps = [Stage("upstream", 0.0, 0.01), Stage("upstream", 0.02, 0.01), Stage("upstream", 0.04, 0.01)]
    record = call(steps=steps, retries=2, answered_by="weather2")
    attempts = of_kind(made(record), "client")
    assert [span.span_id for span in attempts] == [upstream_span_id(record.trace, n) for n in range(3)]
    assert [span.error for span in attempts] == ["_OTHER", "_OTHER", None]
    assert [span.attributes.get("aggregator.attempt") for span in attempts] == [None, 2, 3]
    assert [span.attributes["aggregator.server.id"] for span in attempts] == ["weather", "weather", "weather2"]


def test_an_unknown_name_is_no_spans_name() -> None:
    """Proves: D9. Whatever is called: the name of the span stays one of few, and a secret in it is taken out."""
    whole = made(unknown_tool("hunter2 " + "x" * 900))[0]
    assert whole.name == "tools/call"
    assert "gen_ai.tool.name" not in whole.attributes
    assert whole.attributes["aggregator.tool.asked"] == "[redacted] " + "x" * 189


def test_what_is_captured_is_where_both_look() -> None:
    """Proves: D10. Under the names of the convention and those of Langfuse; without capture under neither."""
    names = {
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "langfuse.observation.input",
        "langfuse.observation.output",
    }
    record = call(arguments={"city": "x"}, result={"content": []})
    shown = made(record, captured=('{"city":"x"}', '{"content":[]}'))
    assert {key: shown[0].attributes[key] for key in names} == {
        "gen_ai.tool.call.arguments": '{"city":"x"}',
        "gen_ai.tool.call.result": '{"content":[]}',
        "langfuse.observation.input": '{"city":"x"}',
        "langfuse.observation.output": '{"content":[]}',
    }
    assert not any(names & span.attributes.keys() for span in shown[1:])
    assert not any(names & span.attributes.keys() for span in made(record))


def test_a_trace_of_the_callers_keeps_its_own_session_and_tags() -> None:
    """Proves: D10. We name the conversation if it is known, and a session only where the trace is ours."""
    below = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "53995c3f42cd8ad8", "00f067aa0ba902b7")
    assert made(call(session_id="s-1"))[0].attributes["langfuse.session.id"] == "s-1"
    theirs = made(call(session_id="s-1", trace=below))[0].attributes
    assert not theirs.keys() & {"langfuse.session.id", "langfuse.trace.tags"}
    assert theirs["session.id"] == "s-1"
    assert made(call(conversation_id="c", trace=below))[0].attributes["langfuse.session.id"] == "c"


@settings(deadline=None, max_examples=examples(60))
@given(calls())
def test_spans_nest_whatever_the_clocks_say(record: CallRecord) -> None:
    """Proves: D9. Every span has its end, and lies within the call's."""
    whole, *steps = made(record)
    assert whole.parent_id == record.trace.parent_id
    assert len(steps) == len(record.steps)
    assert len({span.span_id for span in (whole, *steps)}) == len(steps) + 1
    for span in steps:
        assert whole.began <= span.began <= span.ended <= whole.ended
        assert span.parent_id == whole.span_id


@pytest.mark.parametrize("method", ITEMS)
def test_what_is_no_call_of_a_tool_is_named_by_its_method(method: str) -> None:
    """Proves: D9. What is asked for has an attribute of its own; only prompts are few enough to name a span."""
    attribute, asked = ITEMS[method]
    whole, sent = made(item(method, asked_name=f"{asked} hunter2", own_name="own hunter2"))
    named = " own hunter2" if method == "prompts/get" else ""
    assert (whole.name, sent.name) == (f"{method}{named}", f"{method}{named}")
    assert (whole.attributes["mcp.method.name"], sent.attributes["mcp.method.name"]) == (method, method)
    assert (whole.attributes[attribute], sent.attributes[attribute]) == (f"{asked} [redacted]", "own [redacted]")
    assert not [
        key for span in (whole, sent) for key in span.attributes if key.startswith(("gen_ai.tool", "gen_ai.op"))
    ]
    (unknown,) = made(item(method, own_name=None, steps=[]))
    assert unknown.name == method
