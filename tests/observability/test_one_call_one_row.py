"""What a call is: every `tools/call` in a valid envelope leaves one row, whatever is in it; nothing else leaves any."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import pytest

from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, LEGACY, META, MODERN, ScriptedHost
from tests.observability.agent_clients import CONVERSATION, V1, agent_client
from tests.observability.observed_harness import ObservedHarness, counted_in
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json, tool
from tests.telemetry.receiver import Receiver

NOT_A_CALL: Final = {"status": "invalid", "error_code": "-32602"}
OURS: Final = {"server_id": "aggregator", "status": "ok"}
LOOKED: Final = {"server_id": "crm", "tool_name": "crm.get", "status": "ok"}
LOOKED_AT: Final = {"server_id": "crm", "tool_name": "crm.get"}
UNFIT: Final = {"status": "invalid", "error_code": "invalid_arguments"}


@dataclass(frozen=True)
class Odd:
    """A call, and what its row has. What is no text cannot be repeated in the header of a modern request."""

    params: Mapping[str, Any]
    row: Mapping[str, Any] = field(default_factory=dict)
    over_http: bool = True


CALLS: Final = {
    "no name": Odd({}, {**NOT_A_CALL, "asked_name": ""}, over_http=False),
    "a list for a name": Odd({"name": ["crm.get"]}, {**NOT_A_CALL, "asked_name": ""}, over_http=False),
    "an empty name": Odd({"name": ""}, {**NOT_A_CALL, "asked_name": ""}),
    "a list of arguments": Odd({"name": "crm.get", "arguments": [1]}, {**NOT_A_CALL, "tool_name": "crm.get"}),
    "unknown": Odd({"name": "crm.x"}, {"status": "invalid", "error_code": "unknown_tool", "asked_name": "crm.x"}),
    "a key at the end of what is shown": Odd(
        {"name": f"crm.{'x' * 180}/ghp_{'k9Zq' * 9}"},
        {"status": "invalid", "error_code": "unknown_tool", "asked_name": f"crm.{'x' * 180}/[redacted]"},
    ),
    "search": Odd({"name": "search_tools", "arguments": {"query": "get"}}, {**OURS, "tool_name": "search_tools"}),
    "describe": Odd(
        {"name": "describe_tools", "arguments": {"names": ["crm.get"]}}, {**OURS, "tool_name": "describe_tools"}
    ),
    "servers": Odd({"name": "list_servers"}, {**OURS, "tool_name": "list_servers"}),
    "intent": Odd({"name": "match_intent", "arguments": {"message": "hi"}}, {**OURS, "tool_name": "match_intent"}),
    "search badly": Odd(
        {"name": "search_tools", "arguments": {"level": 9}},
        {**UNFIT, "server_id": "aggregator", "tool_name": "search_tools"},
    ),
    "call nothing": Odd(
        {"name": "call_tool", "arguments": {}}, {**UNFIT, "server_id": "aggregator", "tool_name": "call_tool"}
    ),
    "call with a list": Odd(
        {"name": "call_tool", "arguments": [1]}, {**UNFIT, "server_id": "aggregator", "tool_name": "call_tool"}
    ),
    "call what is unknown": Odd(
        {"name": "call_tool", "arguments": {"name": "crm.x"}},
        {"status": "invalid", "error_code": "unknown_tool", "asked_name": "crm.x", "via": "call_tool"},
    ),
    "call a search": Odd(
        {"name": "call_tool", "arguments": {"name": "search_tools", "arguments": {"query": "get"}}},
        {**OURS, "tool_name": "search_tools", "via": "call_tool"},
    ),
    "call a call": Odd(
        {"name": "call_tool", "arguments": {"name": "call_tool", "arguments": {"name": "crm.get"}}},
        {**LOOKED, "asked_name": "crm.get", "via": "call_tool"},
    ),
    "call for ever": Odd(
        {
            "name": "call_tool",
            "arguments": {
                "name": "call_tool",
                "arguments": {"name": "call_tool", "arguments": {"name": "call_tool"}},
            },
        },
        {**UNFIT, "tool_name": "call_tool", "via": "call_tool"},
    ),
    "a tool of ours as a host writes it": Odd(
        {"name": "mcp__aggregator__search_tools", "arguments": {"query": "get"}},
        {**OURS, "tool_name": "search_tools", "asked_name": "mcp__aggregator__search_tools"},
    ),
    "call as a host writes it": Odd(
        {"name": "aggregator.call_tool", "arguments": {"name": "mcp__crm__get"}},
        {**LOOKED, "asked_name": "mcp__crm__get", "via": "call_tool"},
    ),
    "call under another spelling": Odd(
        {"name": "call_tool", "arguments": {"name": "CRM-get"}},
        {**LOOKED, "asked_name": "CRM-get", "via": "call_tool"},
    ),
    "call with its server beside": Odd(
        {"name": "call_tool", "arguments": {"name": "get", "server": "crm"}},
        {**LOOKED, "asked_name": "get", "via": "call_tool"},
    ),
    "a tool of ours of an unknown server": Odd(
        {"name": "gateway__search_tools"},
        {"status": "invalid", "error_code": "unknown_tool", "asked_name": "gateway__search_tools"},
    ),
    "read": Odd({"name": "read_tool", "arguments": {"name": "crm.get"}}, {**LOOKED, "via": "read_tool"}),
    "read what writes": Odd(
        {"name": "read_tool", "arguments": {"name": "crm.put"}},
        {"status": "denied", "error_code": "not_read_only", "tool_name": "crm.put", "via": "read_tool"},
    ),
    "read what is unknown": Odd(
        {"name": "read_tool", "arguments": {"name": "crm.x"}},
        {"status": "invalid", "error_code": "unknown_tool", "asked_name": "crm.x", "via": "read_tool"},
    ),
}


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> ObservedHarness:
    toolbox = RecordingToolbox([tool("get", "Gets."), tool("put", "Puts.", annotations={})])
    policy = {"agents": {"shop": {"allow": ["*"], "read_only": ["crm.get"]}}}
    folder = tmp_path_factory.mktemp("scene")
    return ObservedHarness(
        background, folder, receiver, {"crm": toolbox.config_entry()}, policy, ["shop"], read_tool=True
    )


@pytest.mark.parametrize("host_kind", HOST_KINDS, ids="-".join)
async def test_every_call_leaves_one_row(harness: ObservedHarness, host_kind: tuple[str, str]) -> None:
    """Proves: D9, F5. Calls of the aggregator's own tools too; a call inside a call is one, by its own name."""
    before = await harness.call_counts()
    cases = {name: odd for name, odd in CALLS.items() if odd.over_http or host_kind != ("http", MODERN)}
    conversations = {name: f"{'-'.join(host_kind)}-{name}" for name in cases}
    async with harness.connect_as(host_kind, "shop") as host:
        calls = [host.ask("tools/call", odd.params, {CONVERSATION: conversations[n]}) for n, odd in cases.items()]
        for call in calls:
            assert {"result", "error"} & (await call.message()).keys()
    await harness.flush()
    rows = [row for name, odd in cases.items() for row in one_row(harness, conversations[name], odd)]
    assert await harness.call_counts() - before == counted_in(rows)


def one_row(harness: ObservedHarness, conversation: str, odd: Odd) -> list[Json]:
    rows, wholes = harness.rows(conversation), harness.call_spans(conversation)
    assert len(rows) == 1, conversation
    assert {name: rows[0].get(name) for name in odd.row} == odd.row, conversation
    assert rows[0].get("via") == odd.row.get("via")
    assert "ghp_" not in str((rows, wholes)), "half a key is one that nothing recognises"
    assert [(whole.trace_id, whole.span_id) for whole in wholes] == [(rows[0]["trace_id"], rows[0]["span_id"])]
    if rows[0].get("server_id") == "aggregator":
        assert len(rows[0]["schema_version"]) == 32
        assert rows[0]["own_name"] == rows[0]["tool_name"]
    return rows


async def test_without_a_name_in_a_post_of_its_own(harness: ObservedHarness) -> None:
    """Proves: D9. As 2026-07-28 has it over HTTP, where the header that repeats the name is missing, too."""
    async with harness.client("shop") as client:
        meta = {**ENVELOPE, CONVERSATION: "nameless"}
        answer = await posted(client, {"params": {"_meta": meta}}, {"mcp-method": "tools/call"})
    assert answer.json()["error"]["code"] == -32602
    await harness.flush()
    (row,) = harness.rows("nameless")
    assert (row["status"], row["error_code"], row["asked_name"]) == ("invalid", "-32602", "")


async def test_the_looks_of_applications_without_mcp(harness: ObservedHarness) -> None:
    """Proves: D9. A search through `/v1` is on record as one through MCP."""
    async with agent_client(harness, V1, "shop") as client:
        await client.call("search_tools", {"query": "get"}, {CONVERSATION: "look"})
    await harness.flush()
    (row,) = harness.rows("look")
    assert (row["server_id"], row["tool_name"], row["frontend"]) == ("aggregator", "search_tools", "v1")


UNREADABLE: Final[dict[str, tuple[Json, Json, int]]] = {
    "no JSON": ({"name": "crm.get", "arguments": "{broken"}, {**UNFIT, **LOOKED_AT}, 400),
    "a list": ({"name": "crm.get", "arguments": "[1]"}, {**UNFIT, **LOOKED_AT}, 400),
    "of its own tools": ({"name": "search_tools", "arguments": "{"}, {**UNFIT, "asked_name": "search_tools"}, 400),
    "of no tool": ({"name": "crm.x", "arguments": "{"}, {"status": "invalid", "error_code": "unknown_tool"}, 404),
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_arguments_that_nobody_can_read(harness: ObservedHarness, what: str) -> None:
    """Proves: A6, D6, D9. What a model wrote that is no JSON: the row says what the application is told."""
    wanted, row, status = UNREADABLE[what]
    before = await harness.call_counts()
    async with harness.client("shop") as client:
        headers = {"x-conversation-id": f"unreadable {what}"}
        answer = await client.post("/v1/tool_calls", json={"tool_call": wanted}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, row["error_code"])
    await harness.flush()
    rows = one_row(harness, f"unreadable {what}", Odd({}, row))
    assert "broken" not in rows[0]["error_message"]
    assert await harness.call_counts() - before == counted_in(rows)


NAMED: Final = {"mcp-method": "tools/call", "mcp-name": "crm.get"}
REFUSED: Final[dict[str, tuple[Json, dict[str, str], int]]] = {
    "a header that says something else": ({}, {**NAMED, "mcp-name": "crm.put"}, -32020),
    "a method that is another": ({}, {**NAMED, "mcp-method": "tools/list"}, -32020),
    "no envelope": ({"params": {"name": "crm.get"}}, NAMED, -32602),
    "half an envelope": ({"params": {"name": "crm.get", "_meta": {f"{META}protocolVersion": MODERN}}}, NAMED, -32602),
    "params that are a list": ({"params": [1]}, NAMED, -32602),
    "a revision that nobody knows": (
        {"params": {"name": "crm.get", "_meta": {**ENVELOPE, f"{META}protocolVersion": "2031-01-01"}}},
        {**NAMED, "mcp-protocol-version": "2031-01-01"},
        -32022,
    ),
    "an id that is none": ({"id": {}}, NAMED, -32600),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_the_frontend_refuses_is_no_call(harness: ObservedHarness, what: str) -> None:
    """Proves: D9. It is known neither which tool it means nor in which words to answer: no row, no span, no count."""
    message, headers, code = REFUSED[what]
    before = len(harness.rows()), len(harness.call_spans()), await harness.call_counts()
    async with harness.client("shop") as client:
        answer = await posted(client, message, headers)
    assert answer.json()["error"]["code"] == code
    await harness.flush()
    assert (len(harness.rows()), len(harness.call_spans()), await harness.call_counts()) == before


@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc":"2.0"}', b"[]", b'{"method":"tools/call","id":1}'])
async def test_what_belongs_to_no_session_is_no_call(harness: ObservedHarness, body: bytes) -> None:
    """Proves: D9. Nor what is no JSON at all."""
    before = len(harness.rows()), len(harness.call_spans())
    async with harness.client("shop") as client:
        answer = await client.post("/mcp", content=body, headers={**ACCEPT, "mcp-session-id": "nobody's"})
        assert answer.status_code in (400, 404)
    async with harness.connect_as(("sse", LEGACY[-1]), "shop") as host:
        await before_the_handshake(host)
    await harness.flush()
    assert (len(harness.rows()), len(harness.call_spans())) == before


async def before_the_handshake(host: ScriptedHost) -> None:
    """Send a message that is no request, and one that names an unknown method."""
    await host.wire.notify({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "crm.get"}})
    assert (await host.ask("tools/calls", {"name": "crm.get"}).error())["code"] == -32601


async def posted(client: httpx2.AsyncClient, message: Json, headers: Mapping[str, str]) -> httpx2.Response:
    """A call of `crm.get` as 2026-07-28 has it, but for what `message` and `headers` say."""
    whole = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "crm.get", "_meta": ENVELOPE},
        **message,
    }
    given = {**ACCEPT, "mcp-protocol-version": MODERN, **headers}
    return await client.post("/mcp", content=json.dumps(whole), headers=given)
