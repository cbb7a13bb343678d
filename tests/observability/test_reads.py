"""Reads of resources, gets of prompts and completions are on record like calls: one row, one span and one count."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from mcp.shared.exceptions import MCPError

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import NotRecorded
from aggregator.storage.digest import argument_digest
from tests.access.secured_harness import HOST_KINDS
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, LEGACY, MODERN
from tests.observability.agent_clients import CONVERSATION
from tests.observability.cases import meta_for, trace_of
from tests.observability.consistency import assert_span_matches_row
from tests.observability.observed_harness import ObservedHarness, counted_in
from tests.passthrough.upstreams import local
from tests.peers.library import FILE, Library
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until
from tests.telemetry.receiver import Receiver

NUMBERS: Final = itertools.count(1)
POLICY: Final = """
agents:
  shop:
    allow: [server:lib, server:slow, server:shut, server:held, server:down]
    deny: ["resource:lib.file:///secret*", "prompt:lib.a.b"]
    confirm: ["prompt:lib.embed"]
    confirm_fallback: queue
    confirm_wait: 0
  blind:
    denials: hidden
    allow: [server:lib]
    deny: ["prompt:lib.a.b"]
"""
READ, GET, COMPLETE = "resources/read", "prompts/get", "completion/complete"
UNKNOWN_RESOURCE: Final = {"status": "invalid", "error_code": "unknown_resource"}
UNKNOWN_PROMPT: Final = {"status": "invalid", "error_code": "unknown_prompt"}
NO_REQUEST: Final = {"status": "invalid", "error_code": "-32602"}
PROMPT: Final = {"type": "ref/prompt", "name": "lib.greet"}
ARGUMENT: Final = {"name": "who", "value": "par"}


@dataclass(frozen=True)
class Ask:
    """A request, and what its row has. `sent`: it reaches its server; `blamed` is the line of the policy."""

    method: str
    params: Mapping[str, Any]
    row: Mapping[str, Any] = field(default_factory=dict)
    sent: bool = False
    blamed: str | None = None
    arguments: Any = None


OK_READ: Final = {"status": "ok", "server_id": "lib", "own_name": FILE}
ASKS: Final = {
    "read": Ask(READ, {"uri": "file://lib//notes/a.txt"}, OK_READ, sent=True),
    "read what its server does not have": Ask(
        READ,
        {"uri": "file://lib//gone"},
        {**UNKNOWN_RESOURCE, "server_id": "lib", "own_name": "file:///gone"},
        sent=True,
    ),
    "read what nobody has": Ask(READ, {"uri": "nobody:x"}, UNKNOWN_RESOURCE),
    "read what is denied": Ask(
        READ,
        {"uri": "file://lib//secret.txt"},
        {"status": "denied", "error_code": "not_allowed", "server_id": "lib"},
        blamed="deny:",
    ),
    "read too slowly": Ask(
        READ, {"uri": "file://slow//notes/a.txt"}, {"status": "timeout", "error_code": "upstream_timeout"}, sent=True
    ),
    "read nothing": Ask(READ, {"uri": ""}, NO_REQUEST),
    "get": Ask(
        GET,
        {"name": "lib.greet", "arguments": {"who": "Ada"}},
        {"status": "ok", "server_id": "lib", "own_name": "greet"},
        sent=True,
        arguments={"who": "Ada"},
    ),
    "get what there is not": Ask(GET, {"name": "lib.nothing"}, UNKNOWN_PROMPT),
    "get what is denied": Ask(
        GET,
        {"name": "lib.a.b"},
        {"status": "denied", "error_code": "not_allowed", "server_id": "lib", "own_name": "a.b"},
        blamed="deny:",
    ),
    "get what somebody has to agree to": Ask(
        GET,
        {"name": "lib.embed", "arguments": {"uri": "a:b"}},
        {"status": "pending", "error_code": "approval_pending", "server_id": "lib"},
        blamed="confirm:",
        arguments={"uri": "a:b"},
    ),
    "get what its server refuses": Ask(
        GET, {"name": "shut.greet"}, {"status": "error", "error_code": "-32000", "server_id": "shut"}, sent=True
    ),
    "get from one that is away": Ask(
        GET,
        {"name": "down.greet"},
        {"status": "unavailable", "error_code": "upstream_unavailable", "server_id": "down"},
    ),
    "complete": Ask(
        COMPLETE,
        {"ref": PROMPT, "argument": ARGUMENT},
        {"status": "ok", "server_id": "lib", "own_name": "greet", "asked_name": "lib.greet"},
        sent=True,
        arguments=ARGUMENT,
    ),
    "complete nothing": Ask(COMPLETE, {"ref": {}, "argument": ARGUMENT}, NO_REQUEST, arguments=ARGUMENT),
}


@pytest.fixture(scope="module")
def lib() -> Library:
    return Library()


@pytest.fixture(scope="module")
def held() -> Library:
    """A library whose reads log their start and are not answered."""
    library = Library()

    async def never() -> Json:
        library.event_log.append("began")
        await asyncio.Event().wait()
        return {}

    library.broken[READ] = never
    return library


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop,
    receiver: Receiver,
    lib: Library,
    held: Library,
    tmp_path_factory: pytest.TempPathFactory,
) -> ObservedHarness:
    folder = tmp_path_factory.mktemp("scene")
    slow, shut = Library(), Library()

    async def refuse() -> Json:
        raise MCPError(-32000, "not today")

    slow.broken[READ] = held.broken[READ]
    shut.broken[GET] = refuse
    servers = {
        "lib": local(lib, protocol="legacy"),
        "slow": local(slow, timeout=0.05, health={"failures": 100_000}),
        "shut": local(shut),
        "held": local(held),
        "down": {"command": str(folder / "nothing")},
    }
    return ObservedHarness(background, folder, receiver, servers, POLICY, ["shop", "blind"])


@pytest.mark.parametrize("host_kind", HOST_KINDS, ids="-".join)
async def test_each_leaves_one_row_one_span_and_one_count(
    harness: ObservedHarness, lib: Library, host_kind: tuple[str, str]
) -> None:
    """Proves: D9, E13. However it ends; with the caller's trace, which its server gets too."""
    before = await harness.call_counts()
    conversations = {name: f"{'-'.join(host_kind)}-{name}" for name in ASKS}
    numbers = {name: next(NUMBERS) for name in ASKS}
    async with harness.connect_as(host_kind, "shop") as host:
        calls = [
            host.ask(ask.method, ask.params, meta_for(conversations[name], numbers[name])) for name, ask in ASKS.items()
        ]
        answers = dict(zip(ASKS, await asyncio.gather(*(call.message() for call in calls)), strict=True))
    await harness.flush()
    rows = []
    for name, ask in ASKS.items():
        (row,), (whole,) = harness.rows(conversations[name]), harness.call_spans(conversations[name])
        rows.append(row)
        assert {key: row.get(key) for key in ask.row} == ask.row, name
        assert ("result" in answers[name]) is (ask.row["status"] == "ok"), name
        row_says_what_is_true(row, ask, numbers[name], host_kind)
        assert_span_matches_row(harness, row, whole)
        (client,) = [span for span in harness.child_spans(whole) if span.kind == "client"] if ask.sent else [None]
        if ask.method == READ and client is not None and row["server_id"] == "lib":
            carried = [read["_meta"]["traceparent"] for read in lib.read if row["trace_id"] in json.dumps(read)]
            assert carried == [f"00-{row['trace_id']}-{client.span_id}-01"]
    assert await harness.call_counts() - before == counted_in(rows)


def row_says_what_is_true(row: Json, ask: Ask, number: int, host_kind: tuple[str, str]) -> None:
    assert (row["frontend"], row["host_version"], row["agent_id"]) == (*host_kind, "shop")
    assert (row["trace_id"], row["parent_id"]) == trace_of(number)
    assert (row["tool_name"], "schema_version" in row, row["retries"]) == (ask.method, False, 0)
    asked = ask.params.get("uri", ask.params.get("name"))
    assert asked is None or row["asked_name"] == asked
    assert (row["upstream_seconds"] > 0) is ask.sent
    assert ("result_digest" in row) is (row["status"] == "ok")
    assert row.get("arguments_digest") == (argument_digest(ask.arguments) if ask.arguments is not None else None)
    if ask.blamed is None:
        assert "rule" not in row
    else:
        lines = POLICY.splitlines()
        assert row["rule_source"].endswith(f"main.yaml:{1 + next(n for n, x in enumerate(lines) if ask.blamed in x)}")


@pytest.mark.parametrize("host_kind", HOST_KINDS, ids="-".join)
async def test_one_that_is_given_up(harness: ObservedHarness, held: Library, host_kind: tuple[str, str]) -> None:
    """Proves: D9. It was sent by then, and nobody waits for it any more."""
    conversation = f"given up {'-'.join(host_kind)}"
    began = len(held.event_log)
    async with harness.connect_as(host_kind, "shop") as host:
        call = host.ask(READ, {"uri": "file://held//notes/a.txt"}, {CONVERSATION: conversation})
        await until(lambda: len(held.event_log) > began, "it is read")
        await host.wire.cancel(call)
        # Whatever comes after it on the same connection finds it cancelled.
        await host.ask("tools/list").message()
        await until(lambda: harness.rows(conversation), "it is on record")
    await harness.flush()
    (row,), (whole,) = harness.rows(conversation), harness.call_spans(conversation)
    assert (row["status"], row["error_code"]) == ("cancelled", "cancelled")
    assert_span_matches_row(harness, row, whole)


async def test_what_is_hidden_is_denied_on_record_and_unknown_to_the_host(harness: ObservedHarness) -> None:
    """Proves: D5, D9. The admin reads which prompt was meant and which line hides it; the host learns of neither."""
    async with harness.connect_as(("http", MODERN), "blind") as host:
        error = await host.ask(GET, {"name": "lib.a.b"}, {CONVERSATION: "hidden"}).error()
    await harness.flush()
    (row,) = harness.rows("hidden")
    assert (row["status"], row["error_code"], row["own_name"]) == ("denied", "unknown_prompt", "a.b")
    assert row["rule"]
    assert row["rule"] not in json.dumps(error)


@pytest.mark.parametrize("host_kind", ["legacy", "modern"])
async def test_headers_say_for_whom_it_is(harness: ObservedHarness, host_kind: str) -> None:
    """Proves: D9. As with calls."""
    headers = {
        "traceparent": "00-{}-{}-01".format(*trace_of(9_000)),
        "x-conversation-id": f"h-{host_kind}",
        "x-user-id": "ada",
    }
    params: Json = {"uri": "file://lib//notes/a.txt"}
    async with harness.client("shop") as client:
        if host_kind == "modern":
            params["_meta"] = ENVELOPE
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": READ, "mcp-name": params["uri"]}
        else:
            hello = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": {"name": "bare", "version": "0"}}
            opened = await client.post("/mcp", json=message("initialize", hello), headers=ACCEPT)
            headers |= {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": LEGACY[-1]}
        answer = await client.post("/mcp", json=message(READ, params), headers={**ACCEPT, **headers})
    assert answer.status_code == 200, answer.text
    await harness.flush()
    (row,) = harness.rows(f"h-{host_kind}")
    assert (row["trace_id"], row["parent_id"], row["user_id"]) == (*trace_of(9_000), "ada")


def message(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def test_one_that_cannot_be_recorded_is_withheld(
    harness: ObservedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: D9. Where the operator wants nothing without a row, as with calls."""

    async def not_written(record: CallRecord) -> None:
        raise NotRecorded(record.asked_name, "The outcome is withheld.")

    monkeypatch.setattr(harness.app.telemetry.observers, "written", not_written)
    async with harness.connect_as(("http", LEGACY[-1]), "shop") as host:
        error = await host.ask(READ, {"uri": "file://lib//notes/a.txt"}).error()
        assert error["data"]["code"] == "audit_unavailable"
        # What had no effect may be answered.
        error = await host.ask(GET, {"name": "lib.nothing"}).error()
        assert "Unknown prompt" in error["message"]


async def test_nothing_is_sent_that_is_not_on_record_as_begun(
    harness: ObservedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: D9. Whatever reaches a server is told first, and is not sent where that cannot be written."""
    begun: list[CallRecord] = []

    async def begins(record: CallRecord) -> None:
        begun.append(record)
        raise NotRecorded(record.asked_name, "It was not called.")

    monkeypatch.setattr(harness.app.telemetry.observers, "begun", begins)
    async with harness.connect_as(("http", MODERN), "shop") as host:
        sent = {name: ask for name, ask in ASKS.items() if ask.sent}
        for name, ask in sent.items():
            error = await host.ask(ask.method, ask.params, {CONVERSATION: f"begun {name}"}).error()
            assert error["data"]["code"] == "audit_unavailable", name
    await harness.flush()
    assert [one.called.method for one in begun] == [ask.method for ask in sent.values()]
    assert all(one.called.server for one in begun)
    for name in sent:
        (row,) = harness.rows(f"begun {name}")
        assert (row["status"], row["upstream_seconds"]) == ("unavailable", 0), name


async def test_what_was_given_is_not_in_what_the_server_says_of_it(
    background: BackgroundLoop, receiver: Receiver, tmp_path: Path
) -> None:
    """Proves: D9. By default no argument is kept, not even where a server repeats it in its error."""
    library = Library()

    async def repeat() -> Json:
        raise MCPError(-32000, "no such person: Ada Lovelace, born 18151210, nor anybody like her")

    library.broken[GET] = library.broken["tools/call"] = repeat
    servers, policies = {"lib": local(library)}, {"agents": {"shop": {"allow": ["server:lib"]}}}
    harness = await asyncio.to_thread(ObservedHarness, background, tmp_path, receiver, servers, policies, ["shop"])
    given = {"who": "Ada Lovelace", "born": [18151210]}
    async with harness.connect_as(("http", LEGACY[-1]), "shop") as host:
        told = [await host.ask(GET, {"name": "lib.greet", "arguments": given}).error()]
        told += [await host.call("lib.links", given).error()]
    await harness.flush()
    assert all("Ada Lovelace, born 18151210" in error["message"] for error in told), "the host is told all"
    said = "no such person: [argument], born [argument], nor anybody like her"
    assert Counter(row["error_message"] for row in harness.rows()) == {said: 2}
    assert {whole.message for whole in harness.call_spans()} >= {said}
    assert not [whole for whole in harness.call_spans() if "Lovelace" in repr(whole)]
