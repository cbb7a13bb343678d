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
from aggregator.wire.peer import PeerGone
from tests.access.conftest import Configured
from tests.access.desk import FORMS, LEGACY, MODERN, Desk, Way, content, of_kind, tool
from tests.access.played import Box
from tests.access.rooms import WAYS, OpenRoom
from tests.peers.toolbox import Json, as_it_came, said

TOOLS: Final = [tool("get"), tool("put"), tool("strict", {"n": {"type": "integer"}})]


def ruled(limit: Json, **more: Any) -> Json:
    return {"agents": {"one": {"allow": ["crm.*"], "limits": {"crm.*": limit}, **more}, "two": {"allow": ["crm.*"]}}}


def ran(answer: Json) -> bool:
    return "isError" not in answer["result"]


async def test_per_minute(config: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: over all tools of the pattern together, for this agent alone, until the minute has passed."""
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"per_minute": 2}))
    one, two = desk.host("one"), desk.host("two")
    assert ran(await desk.call(one, "crm.get"))
    assert ran(await desk.call(one, "crm__put"))
    error = of_kind(await desk.call(one, "crm.get"))
    assert (error["code"], error["status"], error["limit"], error["most"]) == ("limit_reached", 429, "per_minute", 2)
    assert 1 <= error["retry_after"] <= 60
    assert all([ran(await desk.call(two, "crm.get")) for _ in range(5)])
    monkeypatch.setattr(limits, "MINUTE", 0.0)
    assert ran(await desk.call(one, "crm.get"))
    assert len(desk.sent) == 8


async def test_retry_after_is_when_it_is_worth_trying(config: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: also when the limit was lowered meanwhile, so that more than one call has to grow old."""
    ledger = RateLimits()
    now = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"per_minute": 3}))
    (record,) = [one for one in desk.app.gateway.catalog.tools if one.own_name == "get"]

    def charge(most: int) -> int | None:
        desk.put(ruled({"per_minute": most}))
        assert desk.live.rulebook is not None
        try:
            with ledger.charged("t", desk.live.rulebook.agents["one"].limits(record), None):
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


async def test_what_is_refused_is_not_charged(config: Configured) -> None:
    """B6: not for its name, its arguments, a denial, or a person's no."""
    policies = ruled({"per_minute": 1, "per_conversation": 1}, confirm=["crm.put"], deny=["crm.d*"])
    desk = Desk(config("crm"), {"crm": [*TOOLS, tool("die")]}, policies)
    one = desk.host("one")
    assert of_kind(await desk.call(one, "crm.put"))["code"] == "not_confirmed"
    assert of_kind(await desk.call(one, "crm.strict", {"n": "x"}))["code"] == "invalid_arguments"
    assert of_kind(await desk.call(one, "crm.die"))["code"] == "tool_not_allowed"
    assert "error" in await desk.call(one, "crm.none")
    assert ran(await desk.call(one, "crm.get"))
    assert of_kind(await desk.call(one, "crm.get"))["code"] == "limit_reached"


async def test_one_limit_reached_charges_no_other(config: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: a call that is stopped by one limit costs nothing of the rest."""
    rules = {"crm.*": {"per_minute": 1}, "crm.get": {"per_conversation": 2}}
    desk = Desk(config("crm"), {"crm": TOOLS}, {"agents": {"one": {"allow": ["crm.*"], "limits": rules}}})
    one = desk.host("one")
    for _ in range(3):
        await desk.call(one, "crm.get")
    monkeypatch.setattr(limits, "MINUTE", 0.0)
    assert ran(await desk.call(one, "crm.get"))
    assert of_kind(await desk.call(one, "crm.get"))["limit"] == "per_conversation"


@pytest.mark.parametrize("ending", ["success", "error", "crash", "lost", "timeout", "cancel"])
async def test_concurrent_calls_are_given_back(config: Configured, ending: str) -> None:
    """B6: however a call ends."""
    desk = Desk(config("crm", timeout=0.2), {"crm": TOOLS}, ruled({"concurrent": 1}))
    one = desk.host("one")
    arrived, go = asyncio.Event(), asyncio.Event()

    async def answer(params: Json) -> Json:
        arrived.set()
        await go.wait()
        if ending == "crash":
            raise RuntimeError("a bug")
        if ending == "lost":
            raise PeerGone("gone")
        return {**said("x"), "isError": True} if ending == "error" else said("x")

    desk.played["crm"].answer = answer
    running = asyncio.ensure_future(desk.call(one, "crm.get"))
    await asyncio.wait_for(arrived.wait(), 5)
    error = of_kind(await desk.call(one, "crm.put"))
    assert (error["limit"], error["most"], error["status"]) == ("concurrent", 1, 429)
    if ending == "cancel":
        running.cancel()
    elif ending != "timeout":
        go.set()
    await asyncio.wait([running], timeout=5)
    assert running.done()
    if ending == "crash":
        assert isinstance(running.exception(), RuntimeError)
    desk.played["crm"].answer = content
    assert ran(await desk.call(one, "crm.get"))


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_per_conversation(config: Configured, version: str) -> None:
    """B6: by what the host names, else by its session; one that has neither is told what to send."""
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"per_conversation": 1}))
    one = desk.host("one", version)
    for name in ("a", "b"):
        meta: Json = {CONVERSATION_KEY: name}
        assert ran(await desk.call(one, "crm.get", _meta=meta))
        assert of_kind(await desk.call(one, "crm.put", _meta=meta))["limit"] == "per_conversation"
    for odd in ({}, {CONVERSATION_KEY: ""}, {CONVERSATION_KEY: 5}, {CONVERSATION_KEY: None}):
        answer = await desk.call(one, "crm.get", _meta=odd)
        if version == MODERN:
            assert CONVERSATION_KEY in of_kind(answer)["message"]
    if version == LEGACY:
        assert of_kind(await desk.call(one, "crm.get"))["limit"] == "per_conversation"
        assert ran(await desk.call(desk.host("one", session="another"), "crm.get"))
    assert ran(await desk.call(desk.host("two", version), "crm.get"))


@pytest.mark.parametrize("way", [way for way in WAYS if way[1] == LEGACY])
async def test_a_session_is_a_conversation(open_room: OpenRoom, way: tuple[str, str]) -> None:
    """B6: at each door that has sessions."""
    box = Box(TOOLS)
    room = open_room({"crm": box.upstream()}, ruled({"per_conversation": 2}))
    async with room.guest(way, "one") as one:
        codes = [(await one.call("crm.get").result()).get("isError", False) for _ in range(3)]
        assert codes == [False, False, True]
        named = await one.ask("tools/call", {"name": "crm.get"}, {CONVERSATION_KEY: "other"}).result()
        assert "isError" not in named
    assert len(box.calls) == 3


async def test_limits_outlive_a_reload(config: Configured) -> None:
    """B6, F6: what was charged counts against the new rules."""
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"per_minute": 2, "concurrent": 9}))
    one = desk.host("one")
    for _ in range(2):
        assert ran(await desk.call(one, "crm.get"))
    desk.put(ruled({"per_minute": 3, "concurrent": 9}, retry=["crm.get"]))
    assert ran(await desk.call(one, "crm.get"))
    assert not ran(await desk.call(one, "crm.get"))
    desk.put(ruled({"per_minute": 2}))
    assert not ran(await desk.call(one, "crm.get"))


async def test_a_large_result_is_cut_and_said_to_be(config: Configured) -> None:
    """B6: the size it had and the size allowed, in the text and in `_meta`; what is left is a beginning of it."""
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"result_bytes": 2000}))
    text = "知识 und \U0001f600 " * 500
    whole = {"content": [{"type": "text", "text": text}, {"type": "text", "text": "more"}], "x-vendor": 1}

    async def answer(params: Json) -> Json:
        return whole

    desk.played["crm"].answer = answer
    result = (await desk.call(desk.host("one"), "crm.get"))["result"]
    size = len(json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode())
    assert result["_meta"]["aggregator/truncated"] == {"bytes": size, "limit": 2000}
    *kept, notice = result["content"]
    assert str(size) in notice["text"]
    assert "2000" in notice["text"]
    assert text.startswith(kept[0]["text"])
    assert len(kept[0]["text"]) > 500
    assert as_it_came((await desk.call(desk.host("two"), "crm.get"))["result"]) == whole


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
async def test_no_part_of_a_result_is_beyond_the_limit(config: Configured, part: Json) -> None:
    """B6: wherever an upstream puts it, no more comes through than is allowed, and the notice."""
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"result_bytes": 1000}))

    async def answer(params: Json) -> Json:
        return part

    desk.played["crm"].answer = answer
    result = (await desk.call(desk.host("one"), "crm.get"))["result"]
    assert len(json.dumps(as_it_came(result))) < 1000 + 500
    assert "aggregator/truncated" in result["_meta"]


async def test_a_cut_result_is_one_that_hosts_take(config: Configured) -> None:
    """B6: a tool that declares an `outputSchema` answers with structured content or with an error (S/server/tools)."""
    definition = tool("measure", outputSchema={"type": "object", "required": ["a"]})
    desk = Desk(config("crm"), {"crm": [definition]}, ruled({"result_bytes": 1000}))

    async def answer(params: Json) -> Json:
        return {"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": "x" * 5000}}

    desk.played["crm"].answer = answer
    result = types.CallToolResult.model_validate((await desk.call(desk.host("one"), "crm.measure"))["result"])
    assert result.is_error or result.structured_content is not None


async def test_a_person_is_not_asked_for_a_call_over_its_limit(config: Configured, storage: str) -> None:
    """B6: an approval is not used up by a call that is not made."""
    policies = ruled({"per_minute": 1}, confirm=["crm.put"], confirm_fallback="queue")
    desk = Desk(config("crm"), {"crm": TOOLS}, policies, storage)
    way = Way()
    async with desk.app._stack:
        assert ran(await desk.call(desk.host("one"), "crm.get"))
        asking = desk.host("one", capabilities=FORMS)
        assert of_kind(await desk.call(asking, "crm.put", way=way))["code"] == "limit_reached"
        assert way.asked == []
        desk.put(ruled({"per_minute": 2}, confirm=["crm.put"], confirm_fallback="queue"))
        waiting = of_kind(await desk.call(desk.host("one"), "crm.put"))["approval"]
        approvals = await desk.app._approvals()
        assert approvals is not None
        await approvals.grant(waiting, "a test", now=time.time())
        desk.put(policies)
        assert of_kind(await desk.call(desk.host("one"), "crm.put"))["code"] == "limit_reached"
        desk.put(ruled({"per_minute": 2}, confirm=["crm.put"], confirm_fallback="queue"))
        assert ran(await desk.call(desk.host("one"), "crm.put"))


async def test_many_conversations_take_bounded_room(monkeypatch: pytest.MonkeyPatch, config: Configured) -> None:
    """B6: by number, and each by its size: a host may name them as it likes."""
    monkeypatch.setattr(limits, "_CONVERSATIONS", 50)
    desk = Desk(config("crm"), {"crm": TOOLS}, ruled({"per_conversation": 5}))
    one = desk.host("one")
    for at in range(120):
        assert ran(await desk.call(one, "crm.get", _meta={CONVERSATION_KEY: f"{at} " + "x" * 10_000}))
    kept = desk.app.gateway._pipeline._ledger._conversations
    assert len(kept) <= 50
    assert sum(len(conversation) for _, conversation in kept) < 50 * 1_000
