"""How much may be used: counted when a call is forwarded, given back when it has ended, told truthfully."""

import asyncio
import json
import time
from typing import Any, Final

import mcp_types as types
import pytest

from aggregator.domain.call import CONVERSATION_KEY
from aggregator.domain.errors import OverLimit
from aggregator.gateway.calls import rate_limits as limits
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.replicas.group import usage
from aggregator.wire.peer import PeerGone
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, default_answer, error_data, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, OpenHarness
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, text_result, without_provenance
from tests.replicas.alone import alone

TOOLS: Final = [tool("get"), tool("put"), tool("strict", {"n": {"type": "integer"}})]


def ruled(limit: Json, **more: Any) -> Json:
    return {"agents": {"one": {"allow": ["crm.*"], "limits": {"crm.*": limit}, **more}, "two": {"allow": ["crm.*"]}}}


def ran(answer: Json) -> bool:
    return "isError" not in answer["result"]


async def test_per_minute(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: over all tools of the pattern together, for this agent alone, until the minute has passed."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"per_minute": 2}))
    one, two = harness.host("one"), harness.host("two")
    assert ran(await harness.call(one, "crm.get"))
    assert ran(await harness.call(one, "crm__put"))
    error = error_data(await harness.call(one, "crm.get"))
    assert (error["code"], error["status"], error["limit"], error["most"]) == ("limit_reached", 429, "per_minute", 2)
    assert 1 <= error["retry_after"] <= 60
    assert all([ran(await harness.call(two, "crm.get")) for _ in range(5)])
    monkeypatch.setattr(usage, "MINUTE", 0.0)
    assert ran(await harness.call(one, "crm.get"))
    assert len(harness.sent) == 8


async def test_retry_after_is_when_it_is_worth_trying(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: also when the limit was lowered meanwhile, so that more than one call has to grow old."""
    ledger = RateLimits(alone())
    now = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"per_minute": 3}))
    (record,) = [one for one in harness.app.gateway.catalog.tools if one.own_name == "get"]

    def charge(most: int) -> int | None:
        harness.set_policies(ruled({"per_minute": most}))
        assert harness.live.rulebook is not None
        try:
            with ledger.charged("t", harness.live.rulebook.agents["one"].limits(record), None):
                return None
        except OverLimit as over:
            wait: int = over.details["retry_after"]
            return wait

    for _ in range(3):
        assert charge(3) is None
        now += 10.0
    wait = charge(1)
    assert wait is not None
    now += wait
    assert charge(1) is None


async def test_what_is_refused_is_not_charged(config: MakeConfig) -> None:
    """B6: not for its name, its arguments, a denial, or a person's no."""
    policies = ruled({"per_minute": 1, "per_conversation": 1}, confirm=["crm.put"], deny=["crm.d*"])
    harness = GatewayHarness(config("crm"), {"crm": [*TOOLS, tool("die")]}, policies)
    one = harness.host("one")
    assert error_data(await harness.call(one, "crm.put"))["code"] == "not_confirmed"
    assert error_data(await harness.call(one, "crm.strict", {"n": "x"}))["code"] == "invalid_arguments"
    assert error_data(await harness.call(one, "crm.die"))["code"] == "tool_not_allowed"
    assert "error" in await harness.call(one, "crm.none")
    assert ran(await harness.call(one, "crm.get"))
    assert error_data(await harness.call(one, "crm.get"))["code"] == "limit_reached"


async def test_one_limit_reached_charges_no_other(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: a call that is stopped by one limit costs nothing of the rest."""
    rules = {"crm.*": {"per_minute": 1}, "crm.get": {"per_conversation": 2}}
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, {"agents": {"one": {"allow": ["crm.*"], "limits": rules}}})
    one = harness.host("one")
    for _ in range(3):
        await harness.call(one, "crm.get")
    monkeypatch.setattr(usage, "MINUTE", 0.0)
    assert ran(await harness.call(one, "crm.get"))
    assert error_data(await harness.call(one, "crm.get"))["limit"] == "per_conversation"


@pytest.mark.parametrize("ending", ["success", "error", "crash", "lost", "timeout", "cancel"])
async def test_concurrent_calls_are_given_back(config: MakeConfig, ending: str) -> None:
    """B6: however a call ends."""
    harness = GatewayHarness(config("crm", timeout=0.2), {"crm": TOOLS}, ruled({"concurrent": 1}))
    one = harness.host("one")
    arrived, go = asyncio.Event(), asyncio.Event()

    async def answer(params: Json) -> Json:
        arrived.set()
        await go.wait()
        if ending == "crash":
            raise RuntimeError("a bug")
        if ending == "lost":
            raise PeerGone("gone")
        return {**text_result("x"), "isError": True} if ending == "error" else text_result("x")

    harness.fake_upstreams["crm"].answer = answer
    running = asyncio.ensure_future(harness.call(one, "crm.get"))
    await asyncio.wait_for(arrived.wait(), 5)
    error = error_data(await harness.call(one, "crm.put"))
    assert (error["limit"], error["most"], error["status"]) == ("concurrent", 1, 429)
    if ending == "cancel":
        running.cancel()
    elif ending != "timeout":
        go.set()
    await asyncio.wait([running], timeout=5)
    assert running.done()
    if ending == "crash":
        assert isinstance(running.exception(), RuntimeError)
    harness.fake_upstreams["crm"].answer = default_answer
    assert ran(await harness.call(one, "crm.get"))


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_per_conversation(config: MakeConfig, version: str) -> None:
    """B6: by what the host names, else by its session; one that has neither is told what to send."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"per_conversation": 1}))
    one = harness.host("one", version)
    for name in ("a", "b"):
        meta: Json = {CONVERSATION_KEY: name}
        assert ran(await harness.call(one, "crm.get", _meta=meta))
        assert error_data(await harness.call(one, "crm.put", _meta=meta))["limit"] == "per_conversation"
    for odd in ({}, {CONVERSATION_KEY: ""}, {CONVERSATION_KEY: 5}, {CONVERSATION_KEY: None}):
        answer = await harness.call(one, "crm.get", _meta=odd)
        if version == MODERN:
            assert CONVERSATION_KEY in error_data(answer)["message"]
    if version == LEGACY:
        assert error_data(await harness.call(one, "crm.get"))["limit"] == "per_conversation"
        assert ran(await harness.call(harness.host("one", session="another"), "crm.get"))
    assert ran(await harness.call(harness.host("two", version), "crm.get"))


@pytest.mark.parametrize("host_kind", [host_kind for host_kind in HOST_KINDS if host_kind[1] == LEGACY])
async def test_a_session_is_a_conversation(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """B6: at each frontend that has sessions."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, ruled({"per_conversation": 2}))
    async with harness.connect_as(host_kind, "one") as one:
        codes = [(await one.call("crm.get").result()).get("isError", False) for _ in range(3)]
        assert codes == [False, False, True]
        named = await one.ask("tools/call", {"name": "crm.get"}, {CONVERSATION_KEY: "other"}).result()
        assert "isError" not in named
    assert len(toolbox.calls) == 3


async def test_limits_outlive_a_reload(config: MakeConfig) -> None:
    """B6, F6: what was charged counts against the new rules."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"per_minute": 2, "concurrent": 9}))
    one = harness.host("one")
    for _ in range(2):
        assert ran(await harness.call(one, "crm.get"))
    harness.set_policies(ruled({"per_minute": 3, "concurrent": 9}, retry=["crm.get"]))
    assert ran(await harness.call(one, "crm.get"))
    assert not ran(await harness.call(one, "crm.get"))
    harness.set_policies(ruled({"per_minute": 2}))
    assert not ran(await harness.call(one, "crm.get"))


async def test_a_large_result_is_cut_and_said_to_be(config: MakeConfig) -> None:
    """B6: the size it had and the size allowed, in the text and in `_meta`; what is left is a beginning of it."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"result_bytes": 2000}))
    text = "知识 und \U0001f600 " * 500
    whole = {"content": [{"type": "text", "text": text}, {"type": "text", "text": "more"}], "x-vendor": 1}

    async def answer(params: Json) -> Json:
        return whole

    harness.fake_upstreams["crm"].answer = answer
    result = (await harness.call(harness.host("one"), "crm.get"))["result"]
    size = len(json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode())
    assert result["_meta"]["aggregator/truncated"] == {"bytes": size, "limit": 2000}
    *kept, notice = result["content"]
    assert str(size) in notice["text"]
    assert "2000" in notice["text"]
    assert text.startswith(kept[0]["text"])
    assert len(kept[0]["text"]) > 500
    assert without_provenance((await harness.call(harness.host("two"), "crm.get"))["result"]) == whole


@pytest.mark.parametrize(
    "part",
    [
        {"content": [{"type": "text", "text": "x" * 20_000}]},
        {"content": [{"type": "text", "text": "x"}] * 2_000},
        {"content": [{"type": "image", "data": "x" * 20_000, "mimeType": "image/png"}]},
        {"content": [{"type": "text", "text": "x", "annotations": {"y": "x" * 20_000}}]},
        {"content": [], "structuredContent": {"a": "x" * 20_000}},
        {"content": [], "_meta": {"com.example/a": "x" * 20_000}},
        {"content": [], "x-vendor": "x" * 20_000},
        {"content": "x" * 20_000},
        {"content": [], "isError": True, "_meta": {"a": ["x"] * 9_000}},
    ],
    ids=["text", "blocks", "image", "annotations", "structured", "meta", "vendor", "odd", "error"],
)
async def test_no_part_of_a_result_is_beyond_the_limit(config: MakeConfig, part: Json) -> None:
    """B6: wherever an upstream puts it, no more comes through than is allowed, and the notice."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"result_bytes": 1000}))

    async def answer(params: Json) -> Json:
        return part

    harness.fake_upstreams["crm"].answer = answer
    result = (await harness.call(harness.host("one"), "crm.get"))["result"]
    assert len(json.dumps(without_provenance(result))) < 1000 + 500
    assert "aggregator/truncated" in result["_meta"]


async def test_a_cut_result_is_one_that_hosts_take(config: MakeConfig) -> None:
    """B6: a tool that declares an `outputSchema` answers with structured content or with an error (S/server/tools)."""
    definition = tool("measure", outputSchema={"type": "object", "required": ["a"]})
    harness = GatewayHarness(config("crm"), {"crm": [definition]}, ruled({"result_bytes": 1000}))

    async def answer(params: Json) -> Json:
        return {"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": "x" * 5000}}

    harness.fake_upstreams["crm"].answer = answer
    result = types.CallToolResult.model_validate((await harness.call(harness.host("one"), "crm.measure"))["result"])
    assert result.is_error or result.structured_content is not None


async def test_a_person_is_not_asked_for_a_call_over_its_limit(config: MakeConfig, storage: str) -> None:
    """B6: an approval is not used up by a call that is not made."""
    policies = ruled({"per_minute": 1}, confirm=["crm.put"], confirm_fallback="queue", confirm_wait=0)
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, policies, storage)
    channel = AnsweringBackChannel()
    async with harness.app.database:
        assert ran(await harness.call(harness.host("one"), "crm.get"))
        asking = harness.host("one", capabilities=FORMS)
        assert error_data(await harness.call(asking, "crm.put", channel=channel))["code"] == "limit_reached"
        assert channel.asked == []
        harness.set_policies(ruled({"per_minute": 2}, confirm=["crm.put"], confirm_fallback="queue", confirm_wait=0))
        waiting = error_data(await harness.call(harness.host("one"), "crm.put"))["approval"]
        approvals = await harness.app.database.approvals()
        assert approvals is not None
        await approvals.approve(waiting, "a test", now=time.time())
        harness.set_policies(policies)
        assert error_data(await harness.call(harness.host("one"), "crm.put"))["code"] == "limit_reached"
        harness.set_policies(ruled({"per_minute": 2}, confirm=["crm.put"], confirm_fallback="queue", confirm_wait=0))
        assert ran(await harness.call(harness.host("one"), "crm.put"))


async def test_many_conversations_take_bounded_room(monkeypatch: pytest.MonkeyPatch, config: MakeConfig) -> None:
    """B6: by number, and each by its size: a host may name them as it likes."""
    monkeypatch.setattr(limits, "_CONVERSATIONS", 50)
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, ruled({"per_conversation": 5}))
    one = harness.host("one")
    for at in range(120):
        assert ran(await harness.call(one, "crm.get", _meta={CONVERSATION_KEY: f"{at} " + "x" * 10_000}))
    kept = harness.app.gateway._pipeline._rate_limits._conversations
    assert len(kept) <= 50
    assert sum(len(conversation) for _, conversation in kept) < 50 * 1_000
