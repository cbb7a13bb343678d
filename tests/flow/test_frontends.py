"""Real frontends and real servers: what was read is on record, and counts, before the answer is there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import aggregator
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, write_policies
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.end_to_end.server_harness import write_config
from tests.flow.flow_harness import FORMS, OTHER_TRACE, outcome_of, traced
from tests.flow.served_harness import AGENTS, POLICIES, ServedHarness, kept_labels
from tests.peers.library import FILE
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.v1.api import api_client

HTTP: Final = ("http", LEGACY[-1])
STATELESS: Final = ("http", MODERN)


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/harness.db"


@pytest.fixture
def harness(background: BackgroundLoop, tmp_path: Path, storage: str) -> ServedHarness:
    return ServedHarness(background, tmp_path, storage=storage)


async def outcome(host: ScriptedHost, method: str, params: Json, meta: Json | None = None) -> str:
    return outcome_of(await host.ask(method, params, meta).message())


async def called(host: ScriptedHost, name: str, meta: Json | None = None, **arguments: Any) -> str:
    return await outcome(host, "tools/call", {"name": name, "arguments": arguments}, meta)


async def test_after_reading_a_call_out_is_not_made(harness: ServedHarness, storage: str) -> None:
    """Every frontend in every era: a label is committed before the answer, and the next call is decided by it."""
    for agent, kind in zip(AGENTS, HOST_KINDS, strict=True):
        async with harness.connect_as(kind, agent) as host:
            assert await called(host, "mail.send") == "ok"
            # Often enough for the gateway to take the short way, with no task.
            for text in "abc":
                assert await called(host, "proc.echo", text=text) == "ok"
                rows = [row for row in await kept_labels(storage, agent) if row.label == "untrusted"]
                assert {row.tool for row in rows} == {"proc.echo"}
                assert {row.kind for row in rows} >= {"key"}
            sent = len(harness.mail.calls)
            assert await called(host, "mail.list") == "ok"
            assert await called(host, "mail.send") == "not_confirmed"
            assert len(harness.mail.calls) == sent + 1
            assert await called(host, "files.read") == "ok"
            assert await called(host, "mail.send") == "flow_denied"


async def test_sessions_are_apart_and_keys_together(harness: ServedHarness, storage: str) -> None:
    """A session of the handshake eras has its own labels; requests without one share those of their key."""
    async with (
        harness.connect_as(HTTP, "ada") as one,
        harness.connect_as(HTTP, "ada") as two,
        harness.connect_as(STATELESS, "ada") as stateless,
        harness.connect_as(STATELESS, "bob") as other,
    ):
        await two.list()
        await called(one, "web.fetch")
        assert await called(one, "mail.send") == "not_confirmed"
        assert await called(two, "mail.send") == "ok"
        assert await called(stateless, "mail.send") == "not_confirmed"
        assert await called(other, "mail.send") == "ok"
    read = [row for row in await kept_labels(storage) if row.label == "untrusted"]
    assert {(row.agent_id, row.kind) for row in read} == {("ada", "session"), ("ada", "key")}


async def test_traces_of_hosts_are_conversations(harness: ServedHarness) -> None:
    """In `_meta`; a trace that was heard of before is apart from one that reads."""
    async with harness.connect_as(STATELESS, "ada") as host:
        assert await called(host, "mail.list", traced()) == "ok"
        await called(host, "web.fetch", traced(OTHER_TRACE))
        assert await called(host, "mail.send", traced(OTHER_TRACE)) == "not_confirmed"
        assert await called(host, "mail.send", traced()) == "ok"


async def test_a_restart_forgets_nothing(background: BackgroundLoop, tmp_path: Path, storage: str) -> None:
    """What was read with a key, or in a trace, counts for the next process on the database."""
    first = ServedHarness(background, tmp_path, storage=storage)
    async with first.connect_as(STATELESS, "ada") as host:
        await called(host, "web.fetch", traced())
    (tmp_path / "again").mkdir()
    second = ServedHarness(background, tmp_path / "again", storage=storage)
    second.keys = first.keys
    for one in ("main.yaml", "keys.yaml"):
        (second.policies / one).write_bytes((first.policies / one).read_bytes())
    await second.wait_for_policies(second.revision if second.revision != first.revision else None)
    async with second.connect_as(STATELESS, "ada") as host:
        assert await called(host, "mail.send", traced()) == "not_confirmed"
        assert await called(host, "mail.send") == "not_confirmed"
    assert second.mail.calls == []


@pytest.mark.parametrize("kind", [HTTP, STATELESS, ("sse", LEGACY[-1]), ("stdio", LEGACY[-1])])
async def test_resources_prompts_and_completions_are_read_too(harness: ServedHarness, kind: tuple[str, str]) -> None:
    """Each brings the labels of the item, by the patterns for items."""
    ref = {"type": "ref/prompt", "name": "library.greet"}
    reads: list[tuple[str, Json]] = [
        ("resources/read", {"uri": FILE}),
        ("prompts/get", {"name": "library.greet", "arguments": {"who": "me"}}),
        ("completion/complete", {"ref": ref, "argument": {"name": "who", "value": "pa"}}),
    ]
    for agent, (method, params) in zip(("ada", "bob", "cyd"), reads, strict=True):
        async with harness.connect_as(kind, agent) as host:
            assert await called(host, "mail.send") == "ok"
            assert await outcome(host, method, params) == "ok"
            assert await called(host, "mail.send") == "not_confirmed"


async def test_items_that_lead_outside_are_decided_about(background: BackgroundLoop, tmp_path: Path) -> None:
    """A read, a get and a completion whose arguments leave are refused after what was read."""
    labels = {"untrusted": ["web.*"], "outward": ["resource:library.*", "prompt:library.*"]}
    flow = [{"after": "untrusted", "calls": "outward", "then": "confirm"}]
    agents = {agent: {"allow": ["*", "resource:*", "prompt:*"]} for agent in ("ada", "bob", "cyd")}
    harness = ServedHarness(background, tmp_path, {"labels": labels, "flow": flow, "agents": agents})
    complete = {"ref": {"type": "ref/prompt", "name": "library.greet"}, "argument": {"name": "who", "value": "pa"}}
    async with harness.connect_as(HTTP, "ada") as host:
        assert await outcome(host, "resources/read", {"uri": FILE}) == "ok"
        await called(host, "web.fetch")
        assert await outcome(host, "resources/read", {"uri": FILE}) == "not_confirmed"
        assert await outcome(host, "prompts/get", {"name": "library.greet"}) == "not_confirmed"
        assert await outcome(host, "completion/complete", complete) == "flow_denied"
        assert await outcome(host, "resources/subscribe", {"uri": FILE}) == "flow_denied"
    async with harness.connect_as(HTTP, "bob") as host:
        assert await outcome(host, "resources/subscribe", {"uri": FILE}) == "ok"
    async with harness.connect_as(STATELESS, "bob") as host:
        for read, honoured in ((False, {"resourceSubscriptions": [FILE]}), (True, {})):
            if read:
                await called(host, "web.fetch")
            host.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": [FILE]}})
            told = await host.inbox.named("notifications/subscriptions/acknowledged", 1 + read)
            assert told[-1]["params"]["notifications"] == honoured


async def test_what_a_server_says_of_its_result_counts(harness: ServedHarness) -> None:
    """SEP-1913: only ever more; a tool without a label of its own brings `private`."""
    async with harness.connect_as(HTTP, "ada") as host:
        assert await called(host, "mail.tell") == "ok"
        assert await called(host, "mail.send") == "ok"
        assert await called(host, "web.fetch") == "ok"
        assert await called(host, "mail.send") == "flow_denied"


async def test_a_program_reads_and_sends(background: BackgroundLoop, tmp_path: Path) -> None:
    """`run_code`: each call counts where it is made, and the program is told why the next one was not."""
    policies = {
        "labels": {"untrusted": ["web.*"], "outward": ["mail.send"]},
        "flow": [{"after": "untrusted", "calls": "outward", "then": "deny"}],
        "agents": {"ada": {"allow": ["*"], "expose": "code"}},
    }
    harness = ServedHarness(background, tmp_path, policies)
    code = "call_tool('mail.send', {})\ncall_tool('web.fetch', {})\ncall_tool('mail.send', {})"
    for kind in (HTTP, STATELESS):
        async with harness.connect_as(kind, "ada") as host:
            result = await host.call("run_code", {"code": code}).result()
            assert result["isError"] is True
            assert "web.fetch was read a moment ago" in result["content"][0]["text"]
        if kind == HTTP:
            assert len(harness.mail.calls) == 1


async def test_a_batch_over_v1(harness: ServedHarness) -> None:
    """`/v1`: the key, or the trace of the header; a refusal is a 403 where it is alone."""
    async with api_client(harness, "ada") as api:
        assert (await api.call("mail.send")).status == 200
        assert (await api.call("web.fetch")).status == 200
        assert (await api.call("mail.send")).status == 403
        answer = await api.calls(("files.read", {}), ("mail.list", {}))
        assert answer.status == 200
        refused = await api.call("mail.send")
        assert (refused.status, refused.body["error"]["code"]) == (403, "flow_denied")
    async with api_client(harness, "bob") as api:
        header = {"traceparent": traced()["traceparent"]}
        for name, status in (("web.fetch", 200), ("mail.send", 403)):
            answer = await api.post("tool_calls", {"tool_call": {"name": name, "arguments": {}}}, **header)
            assert answer.status == status


async def test_a_call_that_is_taken_back_after_its_result(harness: ServedHarness, storage: str) -> None:
    """A call that was slow, and so left the short way, brings its labels when it ends."""
    async with harness.connect_as(HTTP, "ada", FORMS) as host:
        waiting = host.call("web.hold", {"key": "k1"})
        assert await called(host, "web.release", key="k1") == "ok"
        await waiting.result()
        assert {row.tool for row in await kept_labels(storage, "ada")} <= {"web.hold", "web.release"}
        assert await called(host, "files.read") == "ok"
        assert await called(host, "mail.send") == "flow_denied"


async def test_a_gateway_inside_a_program(tmp_path: Path) -> None:
    """Calls of one agent belong to its key, or to the trace that the program names; the labels are kept."""
    mail = RecordingToolbox([tool("send")])
    servers = {"web": RecordingToolbox([tool("fetch")]).config_entry(), "mail": mail.config_entry()}
    storage = f"sqlite+aiosqlite:///{tmp_path}/inside.db"
    path = write_config(tmp_path, servers, storage=storage)
    write_policies(tmp_path / "policies", POLICIES)
    async with aggregator.open_gateway(path, agent="ada") as gateway:
        assert (await gateway.call("mail.send", {})).get("isError") is not True
        await gateway.call("web.fetch", {})
        refused = await gateway.call("mail.send", {})
        assert refused["_meta"]["aggregator/error"]["code"] == "not_confirmed"
    assert {(row.kind, row.label) for row in await kept_labels(storage, "ada")} >= {("key", "untrusted")}
    assert len(mail.calls) == 1
