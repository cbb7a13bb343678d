"""For whom a call is and where it stands in its trace, by `_meta` and by headers; and what only some calls have."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.gateway.calls import relay
from tests.access.recording_toolbox import RecordingToolbox
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, LEGACY, MODERN
from tests.faults.raw_http import ReceivedRequest, ReplyWriter, raw_http
from tests.observability.agent_clients import CONVERSATION, V1, agent_client
from tests.observability.observed_harness import ObservedHarness
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json, text_result, tool
from tests.telemetry.receiver import Receiver

TRACE, SPAN, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "a3ce929d0e0e47364bf92f3577b34da6"
PARENT: Final = f"00-{TRACE}-{SPAN}-01"
HEADERS: Final = {
    "traceparent": PARENT,
    "tracestate": "rojo=1,congo=2",
    "x-user-id": "ada",
    "x-session-id": "s-7",
    "x-conversation-id": "c-7",
}
IDENTITY: Final = {
    "trace_id": TRACE,
    "parent_id": SPAN,
    "user_id": "ada",
    "session_id": "s-7",
    "conversation_id": "c-7",
}
POLICY: Final = """
agents:
  shop:
    allow: ["*"]
    limits:
      crm.rare: { per_conversation: 1 }
  blind:
    denials: hidden
    allow: ["crm.get"]
    deny: ["crm.rare"]
"""
CRM: Final = RecordingToolbox([tool("get", "Gets."), tool("rare", "Seldom.")])


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> ObservedHarness:
    folder = tmp_path_factory.mktemp("scene")
    v1 = {"max_calls_per_conversation": 2}
    audit = {"capture": "full"}
    return ObservedHarness(
        background, folder, receiver, {"crm": CRM.config_entry()}, POLICY, ["shop", "blind"], audit=audit, v1=v1
    )


async def only(harness: ObservedHarness, conversation: str) -> Json:
    """The one row of a conversation, in which the one span agrees."""
    await harness.flush()
    (row,), (whole,) = harness.rows(conversation), harness.call_spans(conversation)
    assert (whole.trace_id, whole.span_id, whole.parent_id) == (
        row["trace_id"],
        row["span_id"],
        row.get("parent_id", ""),
    )
    assert whole.attributes.get("user.id") == row.get("user_id")
    return row


async def post(client: httpx2.AsyncClient, message: Json, **headers: str) -> httpx2.Response:
    return await client.post("/mcp", json=message, headers={**ACCEPT, **headers})


async def session_of(client: httpx2.AsyncClient, version: str) -> str:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "bare", "version": "0"}}
    opened = await post(client, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    return str(opened.headers["mcp-session-id"])


def calling(name: str = "crm.get", **meta: str) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta}}


@pytest.mark.parametrize("host_kind", ["legacy", "batch", "modern", "sse", "v1"])
async def test_headers_say_for_whom_a_call_is(harness: ObservedHarness, host_kind: str) -> None:
    """Proves: D9. The caller's trace goes on, and its user, session and conversation are on record."""
    given = {**HEADERS, "x-conversation-id": f"c-{host_kind}"}
    async with harness.client("shop") as client:
        if host_kind == "v1":
            answer = await client.post("/v1/tool_calls", json={"tool_call": {"name": "crm.get"}}, headers=given)
        elif host_kind == "modern":
            message = calling()
            message["params"]["_meta"] = dict(ENVELOPE)
            routed = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "crm.get"}
            answer = await post(client, message, **routed, **given)
        elif host_kind == "sse":
            async with harness.connect_as(("sse", LEGACY[-1]), "shop") as host:
                address = await host.wire.endpoint  # type: ignore[attr-defined]
                answer = await client.post(address, json={**calling(), "id": "x"}, headers=given)
                await host.inbox.until(lambda message: message.get("id") == "x")
        else:
            version = "2025-03-26" if host_kind == "batch" else LEGACY[-1]
            session = {"mcp-session-id": await session_of(client, version), "mcp-protocol-version": version}
            sent: Any = [calling()] if host_kind == "batch" else calling()
            answer = await post(client, sent, **session, **given)
    assert answer.status_code in (200, 202), answer.text
    row = await only(harness, f"c-{host_kind}")
    assert {name: row[name] for name in IDENTITY} == {**IDENTITY, "conversation_id": f"c-{host_kind}"}
    carried = next(call["_meta"] for call in reversed(CRM.calls))
    assert carried["tracestate"] == HEADERS["tracestate"]
    assert carried["traceparent"].startswith(f"00-{TRACE}-")
    assert not [key for key in carried if key.startswith("aggregator/")]


async def test_meta_has_the_last_word(harness: ObservedHarness) -> None:
    """Proves: D9. A message says more of itself than the request that brought it; what is malformed says nothing."""
    async with harness.client("shop") as client:
        session = {"mcp-session-id": await session_of(client, LEGACY[-1]), "mcp-protocol-version": LEGACY[-1]}
        meta = {
            "traceparent": f"00-{OTHER}-{SPAN}-01",
            "aggregator/user_id": "grace",
            "aggregator/session_id": "",
            CONVERSATION: "meta first",
        }
        await post(client, calling(**meta), **session, **HEADERS)
        row = await only(harness, "meta first")
        assert (row["trace_id"], row["user_id"]) == (OTHER, "grace")
        assert row["session_id"] == session["mcp-session-id"].partition(".")[0]
        meta = {"traceparent": "00-nonsense", CONVERSATION: "malformed"}
        await post(client, calling(**meta), **session)
        row = await only(harness, "malformed")
        assert "parent_id" not in row
        assert len(row["trace_id"]) == 32


async def test_a_hidden_tool_is_denied_on_record_and_unknown_to_the_host(harness: ObservedHarness) -> None:
    """Proves: D5, D9. The admin reads which tool was meant and which line hides it; the host learns of neither."""
    async with harness.connect_as(("http", MODERN), "blind") as host:
        error = await host.call("crm.rare", {}, **{CONVERSATION: "hidden"}).error()
    row = await only(harness, "hidden")
    assert (row["status"], row["error_code"], row["tool_name"]) == ("denied", "unknown_tool", "crm.rare")
    line = next(at for at, text in enumerate(POLICY.splitlines(), 1) if 'deny: ["crm.rare"]' in text)
    assert row["rule_source"].endswith(f"main.yaml:{line}")
    assert row["rule"] not in json.dumps(error)


async def test_a_limit_that_is_reached_names_its_rule(harness: ObservedHarness) -> None:
    """Proves: B6, D9. The policy's by its line, that of `/v1` by the setting."""
    async with agent_client(harness, V1, "shop") as client:
        for _ in range(3):
            await client.call("crm.rare", {}, {CONVERSATION: "often"})
        await client.call("crm.get", {}, {CONVERSATION: "often"})
        await client.call("crm.get", {}, {CONVERSATION: "often"})
    await harness.flush()
    rows = harness.rows("often")
    line = next(at for at, text in enumerate(POLICY.splitlines(), 1) if "per_conversation" in text)
    assert [row["status"] for row in rows] == ["ok", "denied", "denied", "ok", "denied"]
    assert {row["error_code"] for row in rows if row["status"] == "denied"} == {"limit_reached"}
    assert rows[1]["rule_source"].endswith(f"main.yaml:{line}")
    assert rows[4]["rule"] == "v1.max_calls_per_conversation"
    assert len(harness.call_spans("often")) == 5


async def test_each_attempt_is_a_span_and_the_row_counts_them(
    background: BackgroundLoop, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: D9. A call that was sent three times is one call with two retries."""
    monkeypatch.setattr(relay, "_RETRY_PAUSES", (0.01, 0.01))

    async def flaky(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if raw.count("tools/call") < 3:
            await reply.send(503, "later")
        else:
            await reply.result(seen, text_result("at last"))

    async with raw_http() as raw:
        raw.on = {"tools/call": flaky}
        policy = {"agents": {"shop": {"allow": ["*"], "retry": ["raw.echo"]}}}
        # In a thread: what it connects to lives in this loop.
        servers = {"raw": {"url": raw.url}}
        harness = await asyncio.to_thread(ObservedHarness, background, tmp_path, receiver, servers, policy, ["shop"])
        async with harness.connect_as(("http", MODERN), "shop") as host:
            meta = {CONVERSATION: "again", "traceparent": PARENT}
            await host.call("raw.echo", {}, **meta).result()
        row = await only(harness, "again")
        calls = [seen.message for seen in raw.seen if seen.method == "tools/call"]
        carried = [call["params"]["_meta"]["traceparent"] for call in calls]
    assert (row["status"], row["retries"]) == ("ok", 2)
    (whole,) = harness.call_spans("again")
    attempts = [span for span in harness.child_spans(whole) if span.kind == "client"]
    assert [span.attributes.get("aggregator.attempt") for span in attempts] == [None, 2, 3]
    assert [span.attributes.get("jsonrpc.request.id") for span in attempts] == [str(call["id"]) for call in calls]
    assert carried == [f"00-{TRACE}-{span.span_id}-01" for span in attempts]
    assert whole.attributes["aggregator.retries"] == 2
    took = sum(span.ended - span.began for span in attempts)
    assert took == pytest.approx(row["upstream_seconds"] * 1e9, abs=5_000)


async def test_what_is_captured_is_the_same_everywhere(harness: ObservedHarness) -> None:
    """Proves: D9, D10. Row and span hold the same arguments and the same result, without what looks like a secret."""
    async with harness.connect_as(("http", LEGACY[-1]), "shop") as host:
        given = {"city": "Graz", "password": "hunter2-hunter2"}
        await host.call("crm.get", given, **{CONVERSATION: "captured"}).result()
    row = await only(harness, "captured")
    (whole,) = harness.call_spans("captured")
    assert json.loads(row["arguments"]) == {"city": "Graz", "password": "[redacted]"}
    assert json.loads(row["result"])["content"] == text_result("did get")["content"]
    said_of: Mapping[str, Any] = whole.attributes
    for names, kept in (
        (("gen_ai.tool.call.arguments", "langfuse.observation.input"), row["arguments"]),
        (("gen_ai.tool.call.result", "langfuse.observation.output"), row["result"]),
    ):
        assert [said_of[name] for name in names] == [kept, kept]


async def test_a_refusal_says_which_field_was_missing(harness: ObservedHarness) -> None:
    """Proves: D6, D9. By its place, and never by what stood there."""
    async with harness.connect_as(("http", MODERN), "shop") as host:
        await host.call("describe_tools", {"level": 9}, **{CONVERSATION: "missing"}).result()
    row = await only(harness, "missing")
    assert (row["status"], row["error_code"]) == ("invalid", "invalid_arguments")
    assert "/names" in row["error_message"]
    assert "/level" in row["error_message"]
    assert "9" not in row["error_message"]
