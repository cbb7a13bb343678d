"""A person is asked at the host, in the way of its era, and the call waits for the answer."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from aggregator.cli.approvals import _answered
from aggregator.domain.errors import RpcError
from aggregator.gateway.ask import confirm as ask
from aggregator.gateway.ask import sealed_state
from aggregator.gateway.ask.sealed_state import StateSealer
from aggregator.storage.approvals import ApprovalAnswer, Approvals
from aggregator.storage.errors import StorageBusy
from aggregator.wire.peer import PeerGone
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import FORMS, LEGACY, MODERN, GatewayHarness, error_data, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, OpenHarness
from tests.end_to_end.scripted_host import ScriptedHost
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json
from tests.polling import until
from tests.replicas.alone import group_of_one

TOOLS: Final = [tool("pay", {"n": {"type": "integer"}}), tool("get"), tool("send")]
POLICIES: Final = {
    "agents": {
        "one": {"allow": ["crm.*"], "confirm": ["crm.pay", "crm.send"]},
        "two": {"allow": ["crm.*"], "confirm": ["crm.pay"]},
    }
}
YES: Final[Json] = {"action": "accept", "content": {"allow": True}}
NOES: Final[list[Json]] = [
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "accept"},
    {"action": "accept", "content": {}},
    {"action": "accept", "content": {"allow": False}},
    {"action": "accept", "content": {"allow": "true"}},
    {"action": "accept", "content": {"allow": 1}},
    {"action": "accept", "content": {"allow": [True]}},
    {"action": "accept", "content": [True]},
    {"action": "ACCEPT", "content": {"allow": True}},
    {"action": True, "content": {"allow": True}},
    {"content": {"allow": True}},
    {},
]
OLDER: Final = [host_kind for host_kind in HOST_KINDS if host_kind[1] == LEGACY]
NEWER: Final = [host_kind for host_kind in HOST_KINDS if host_kind[1] == MODERN]


async def question(host: ScriptedHost, count: int = 1) -> Json:
    """Return the last request that the host received."""
    return (await host.inbox.named("elicitation/create", count))[-1]


async def reply(host: ScriptedHost, asked: Json, result: Json) -> None:
    await host.wire.notify({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@pytest.mark.parametrize("host_kind", OLDER)
async def test_the_host_is_asked_while_its_call_waits(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """B6: a yes lets the call through once, a no says who said it; nothing is called before."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, POLICIES)
    async with harness.connect_as(host_kind, "one", FORMS) as host:
        call = host.call("crm.pay", {"n": 7})
        asked = await question(host)
        params = asked["params"]
        assert params["mode"] == "form"
        assert params["requestedSchema"]["required"] == ["allow"]
        for part in ("one", "pay", "crm", '"n": 7'):
            assert part in params["message"]
        assert not toolbox.calls
        assert not call.done
        await reply(host, asked, YES)
        assert "isError" not in await call.result()
        call = host.call("crm.pay", {"n": 7})
        await reply(host, await question(host, 2), {"action": "decline"})
        error = (await call.result())["_meta"]["aggregator/error"]
        assert (error["code"], error["status"]) == ("not_confirmed", 403)
        assert "declined" in error["message"]
    assert len(toolbox.calls) == 1


@pytest.mark.parametrize("host_kind", OLDER)
async def test_two_hosts_are_not_crossed(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """B6: each question goes to the host whose call it is, and only its answer counts."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, POLICIES)
    async with harness.connect_as(host_kind, "one", FORMS) as one, harness.connect_as(host_kind, "two", FORMS) as two:
        calls = [one.call("crm.pay", {"n": 1}), two.call("crm.pay", {"n": 2}), one.call("crm.pay", {"n": 3})]
        await question(one, 2)
        of_two = await question(two)
        for asked in await one.inbox.named("elicitation/create", 2):
            assert "'one'" in asked["params"]["message"]
        assert '"n": 2' in of_two["params"]["message"]
        # Ids of one session mean nothing in another: a stray answer moves nobody's call.
        for stray in (98, 99, "1e0", None, True):
            await reply(two, {"id": stray}, YES)
        await reply(two, of_two, {"action": "decline"})
        assert (await calls[1].result())["isError"] is True
        assert not calls[0].done
        assert not calls[2].done
        for asked in await one.inbox.named("elicitation/create", 2):
            await reply(one, asked, YES if '"n": 3' in asked["params"]["message"] else {"action": "cancel"})
        assert (await calls[0].result())["isError"] is True
        assert "isError" not in await calls[2].result()
    assert [call["arguments"] for call in toolbox.calls] == [{"n": 3}]


@pytest.mark.parametrize("host_kind", OLDER)
async def test_a_call_that_is_given_up_asks_no_longer(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """B6, C9: the question is taken back, and a late yes does nothing."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, POLICIES)
    async with harness.connect_as(host_kind, "one", FORMS) as host:
        call = host.call("crm.pay", {"n": 1})
        asked = await question(host)
        await host.wire.cancel(call)
        await host.inbox.until(
            lambda message: (
                message.get("method") == "notifications/cancelled" and message["params"]["requestId"] == asked["id"]
            )
        )
        await reply(host, asked, YES)
        assert "isError" not in await host.call("crm.get").result()
        call.drop()
    assert [call["name"] for call in toolbox.calls] == ["get"]


@pytest.mark.parametrize("no", NOES, ids=json.dumps)
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_only_yes_is_yes(config: MakeConfig, no: Json, version: str) -> None:
    """B6: everything else a host may send is a no."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)
    host = harness.host("one", version, FORMS)
    host.capabilities = FORMS

    async def person(params: Json) -> Json:
        return no

    answer = await harness.call(host, "crm.pay", channel=AnsweringBackChannel(person))
    if version == MODERN:
        state = answer["result"]["requestState"]
        answer = await harness.call(host, "crm.pay", inputResponses={"confirm": no}, requestState=state)
    assert error_data(answer)["code"] == "not_confirmed"
    assert harness.sent == []


async def test_nobody_answers(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: after a while that is a no, and is said."""
    monkeypatch.setattr(ask, "PATIENCE", 0.02)
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)

    async def person(params: Json) -> Json:
        await asyncio.Event().wait()
        return YES

    error = error_data(
        await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", channel=AnsweringBackChannel(person))
    )
    assert error["code"] == "not_confirmed"
    assert "no answer came" in error["message"]
    assert harness.sent == []


@pytest.mark.parametrize("host_kind", NEWER)
async def test_a_modern_host_comes_back_with_the_answer(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """B6: the result carries the question; the same call with the answer goes through exactly once."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, POLICIES)
    async with harness.connect_as(host_kind, "one", FORMS) as host:
        first = await host.call("crm.pay", {"n": 7}).result()
        assert first["resultType"] == "input_required"
        (form,) = first["inputRequests"].values()
        assert form["method"] == "elicitation/create"
        assert '"n": 7' in form["params"]["message"]
        (name,) = first["inputRequests"]
        again = {
            "name": "crm.pay", "arguments": {"n": 7},
            "inputResponses": {name: YES}, "requestState": first["requestState"],
        }  # fmt: skip
        assert not toolbox.calls
        done = await host.ask("tools/call", again).result()
        assert done["resultType"] == "complete"
        assert "isError" not in done
        replayed = await host.ask("tools/call", again).result()
        assert replayed["resultType"] == "input_required"
    (call,) = toolbox.calls
    assert call["arguments"] == {"n": 7}
    assert "inputResponses" not in call
    assert "requestState" not in call


Change = Callable[[GatewayHarness, Json], Awaitable[Json]]


async def of_another_agent(harness: GatewayHarness, params: Json) -> Json:
    return await _again(harness, "two", params)


async def with_other_arguments(harness: GatewayHarness, params: Json) -> Json:
    return await _again(harness, "one", {**params, "arguments": {"n": 8}})


async def for_another_tool(harness: GatewayHarness, params: Json) -> Json:
    return await _again(harness, "one", {**params, "name": "crm.send"})


async def tampered(harness: GatewayHarness, params: Json) -> Json:
    state = params["requestState"]
    at = len(state) // 2
    return await _again(harness, "one", {**params, "requestState": state[:at] + "AAAA" + state[at + 4 :]})


async def of_another_process(harness: GatewayHarness, params: Json) -> Json:
    sealed = StateSealer("consent", group_of_one()).seal({"agent": "one"}, 1e12)
    return await _again(harness, "one", {**params, "requestState": sealed})


async def without_state(harness: GatewayHarness, params: Json) -> Json:
    return await _again(harness, "one", {key: value for key, value in params.items() if key != "requestState"})


async def nonsense(harness: GatewayHarness, params: Json) -> Json:
    states: list[Any] = [5, None, "", "x", "é", "\ud800", "=" * 100, [], {}, "A" * 100_000]
    for state in states:
        answer = await _again(harness, "one", {**params, "requestState": state})
        assert answer["result"]["resultType"] == "input_required", state
    return answer


async def expired(harness: GatewayHarness, params: Json) -> Json:
    clock = harness.app.replication.clock
    clock.measure(time.monotonic(), clock.now() + ask.PATIENCE + 1, time.monotonic())
    return await _again(harness, "one", params)


async def _again(harness: GatewayHarness, agent: str, params: Json) -> Json:
    host = harness.host(agent, MODERN)
    host.capabilities = FORMS
    return await harness.ask(host, "tools/call", params)


@pytest.mark.parametrize(
    "change",
    [of_another_agent, with_other_arguments, for_another_tool, tampered, of_another_process, without_state, nonsense,
     expired],
)  # fmt: skip
async def test_an_answer_is_good_for_its_own_call_only(config: MakeConfig, change: Change) -> None:
    """B6: else the person is asked again."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)
    asked = await _again(harness, "one", {"name": "crm.pay", "arguments": {"n": 7}})
    params = {
        "name": "crm.pay", "arguments": {"n": 7},
        "inputResponses": {"confirm": YES}, "requestState": asked["result"]["requestState"],
    }  # fmt: skip
    assert (await change(harness, params))["result"]["resultType"] == "input_required"
    assert harness.sent == []


async def test_the_same_arguments_in_another_order_are_the_same(config: MakeConfig) -> None:
    """B6: what the answer is bound to is the meaning, not the spelling."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)
    asked = await _again(harness, "one", {"name": "crm.pay", "arguments": {"n": 7, "m": [1, {"a": 1, "b": 2.0}]}})
    again = {
        "name": "crm__pay", "arguments": {"m": [1, {"b": 2, "a": 1}], "n": 7},
        "inputResponses": {"confirm": YES}, "requestState": asked["result"]["requestState"],
    }  # fmt: skip
    assert (await _again(harness, "one", again))["result"]["resultType"] == "complete"


async def test_used_answers_take_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: however fast a host asks and answers itself."""
    monkeypatch.setattr(sealed_state, "USED_AT_MOST", 50)
    sealer = StateSealer("consent", group_of_one())
    states = [sealer.seal({"at": at}, 300.0) for at in range(200)]
    opened = [state for state in states if await sealer.open(state) is not None]
    assert len(sealer._used) <= 50
    assert opened == states[:50]
    assert [state for state in states if await sealer.open(state) is not None] == []
    assert await sealer.open(sealer.seal({}, 300.0)) is not None


CANNOT: Final[list[tuple[str, Json]]] = [
    (LEGACY, {}),
    (LEGACY, {"elicitation": {"url": {}}}),
    (LEGACY, {"elicitation": True}),
    (LEGACY, {"sampling": {}}),
    ("2025-03-26", FORMS),
    (MODERN, {}),
    (MODERN, {"elicitation": {"url": {}}}),
]


@pytest.mark.parametrize(("version", "capabilities"), CANNOT)
async def test_a_host_that_cannot_ask(config: MakeConfig, version: str, capabilities: Json) -> None:
    """B6: is refused, and told why; its own claim of an answer does not help."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)
    host = harness.host("one", MODERN if version == MODERN else LEGACY, capabilities)
    host.capabilities = capabilities
    host.version = None if version == MODERN else version
    channel = AnsweringBackChannel(None)
    answer = await harness.call(host, "crm.pay", channel=channel, inputResponses={"confirm": YES}, requestState="x")
    assert error_data(answer)["code"] == "not_confirmed"
    assert "cannot ask" in error_data(answer)["message"]
    assert channel.asked == []
    assert harness.sent == []


@pytest.mark.parametrize("fault", [RpcError(-32601, "Method not found"), PeerGone("gone"), None])
async def test_a_host_that_could_not_ask_after_all(config: MakeConfig, storage: str, fault: Exception | None) -> None:
    """B6: what it declares and cannot do is what `confirm_fallback` is for."""
    body = {"allow": ["crm.*"], "confirm": ["crm.pay"], "confirm_fallback": "queue", "confirm_wait": 0}
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, {"agents": {"one": body}}, storage)

    async def person(params: Json) -> Json:
        assert fault is not None
        raise fault

    async with harness.app.database:
        channel = AnsweringBackChannel(person if fault is not None else None)
        error = error_data(await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", channel=channel))
    assert error["code"] == "approval_pending"
    assert harness.sent == []


async def test_what_a_person_reads_cannot_be_dressed_up(config: MakeConfig) -> None:
    """B6: arguments from a model may hold text that reorders, hides or breaks lines of the question."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)
    tricks = "\u202e\u2066\u200b\u2028\x85\r\n\x1b[2K"
    seen = AnsweringBackChannel()
    await harness.call(
        harness.host("one", capabilities=FORMS), "crm.pay", {"note": f"Allow it? {tricks} ok", tricks: 1}, seen
    )
    ((form),) = seen.asked
    assert all(line.isprintable() for line in form["message"].split("\n"))
    assert len(form["message"].split("\n")) == 4


async def test_a_person_sees_what_changes_hands(config: MakeConfig) -> None:
    """B6: padding cannot push the rest of the arguments out of sight unnoticed."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)
    seen = AnsweringBackChannel()
    arguments = {"note": "x" * 5_000, "to": "mallory", "n": 1_000_000}
    await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", arguments, seen)
    ((form),) = seen.asked
    assert "mallory" in form["message"]
    assert len(form["message"]) < 3_000


async def test_the_rules_may_change_while_a_person_thinks(config: MakeConfig) -> None:
    """B6, F6: a call goes on under the rules it was decided by, and is one decision."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, POLICIES)

    async def person(params: Json) -> Json:
        harness.set_policies({"agents": {"one": {"allow": ["crm.get"]}}})
        return YES

    assert (
        "isError"
        not in (
            await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", channel=AnsweringBackChannel(person))
        )["result"]
    )
    assert (
        error_data(await harness.call(harness.host("one", capabilities=FORMS), "crm.pay"))["code"] == "tool_not_allowed"
    )


def queued(**more: Any) -> Json:
    return {
        "agents": {
            "one": {"allow": ["crm.*"], "confirm": ["crm.*"], "confirm_fallback": "queue", "confirm_wait": 0, **more},
            "two": {"allow": ["crm.*"], "confirm": ["crm.*"], "confirm_fallback": "queue", "confirm_wait": 0},
        }
    }


async def test_a_queued_yes_is_good_for_one_call(config: MakeConfig, storage: str) -> None:
    """B6: of this agent, this tool and these arguments; the next asks again."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, queued(), storage)
    async with harness.app.database:
        one = harness.host("one")
        error = error_data(await harness.call(one, "crm.pay", {"n": 7}))
        assert (error["code"], error["status"]) == ("approval_pending", 202)
        again = error_data(await harness.call(one, "crm__pay", {"n": 7}))
        assert again["approval"] == error["approval"]
        approvals = await harness.app.database.approvals()
        assert approvals is not None
        await approvals.approve(error["approval"], "a test", now=time.time())
        for agent, name, arguments in (
            ("one", "crm.pay", {"n": 8}),
            ("one", "crm.send", {"n": 7}),
            ("two", "crm.pay", {"n": 7}),
            ("one", "crm.pay", {"n": 7, "m": None}),
        ):
            assert error_data(await harness.call(harness.host(agent), name, arguments))["code"] == "approval_pending"
        assert harness.sent == []
        assert "isError" not in (await harness.call(one, "crm/pay", {"n": 7}))["result"]
        third = error_data(await harness.call(one, "crm.pay", {"n": 7}))
        assert third["code"] == "approval_pending"
        assert third["approval"] != error["approval"]
    assert harness.sent == [("crm", "pay")]


async def test_one_yes_and_many_calls_at_once(config: MakeConfig, storage: str) -> None:
    """B6: exactly one of them goes through."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, queued(), storage)
    async with harness.app.database:
        one = harness.host("one")
        waiting = error_data(await harness.call(one, "crm.pay"))["approval"]
        approvals = await harness.app.database.approvals()
        assert approvals is not None
        await approvals.approve(waiting, "a test", now=time.time())
        answers = await asyncio.gather(*(harness.call(one, "crm.pay") for _ in range(8)))
    assert sorted("isError" in answer["result"] for answer in answers) == [False] + [True] * 7
    assert harness.sent == [("crm", "pay")]


async def test_a_full_queue_is_a_refusal(config: MakeConfig, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: in words and with a code, not an error of ours; the other agent still has room."""
    monkeypatch.setattr("aggregator.storage.approvals.PENDING_AT_MOST", 2)
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, queued(), storage)
    async with harness.app.database:
        for at in range(2):
            assert (
                error_data(await harness.call(harness.host("one"), "crm.pay", {"n": at}))["code"] == "approval_pending"
            )
        assert error_data(await harness.call(harness.host("two"), "crm.pay", {"n": 1}))["code"] == "approval_pending"
        error = error_data(await harness.call(harness.host("one"), "crm.pay", {"n": 3}))
        assert error["status"] in (403, 429, 503)
    assert harness.sent == []


async def test_a_database_that_fails_lets_nothing_through(
    config: MakeConfig, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6: closed, never open, and said in words."""

    async def busy(*_: Any, **__: Any) -> None:
        raise StorageBusy("The database is locked.")

    for step in ("find_answer", "ask"):
        harness = GatewayHarness(config("crm"), {"crm": TOOLS}, queued(), storage)
        async with harness.app.database:
            with monkeypatch.context() as patched:
                patched.setattr(Approvals, step, busy)
                assert error_data(await harness.call(harness.host("one"), "crm.pay"))["status"] in (403, 503)
        assert harness.sent == []


async def test_without_a_database_nothing_is_queued(config: MakeConfig) -> None:
    """B6: then `queue` is a no."""
    harness = GatewayHarness(config("crm"), {"crm": TOOLS}, queued())
    assert error_data(await harness.call(harness.host("one"), "crm.pay"))["code"] == "not_confirmed"
    assert harness.sent == []


async def test_the_queue_is_answered_by_another_process(open_harness: OpenHarness, storage: str) -> None:
    """B6: over HTTP, with the command line's own function; approved, then gone through once."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"crm": toolbox.config_entry()}, queued(), storage=storage)
    async with harness.connect_as(("http", LEGACY), "one") as host:

        async def error() -> Json:
            found: Json = (await host.call("crm.pay", {"n": 7}).result())["_meta"]["aggregator/error"]
            return found

        waiting = (await error())["approval"]
        await _answered(storage, waiting, ApprovalAnswer("approve", "somebody"))

        async def through() -> bool:
            return "isError" not in await host.call("crm.pay", {"n": 7}).result()

        await until(through)
        assert (await error())["code"] == "approval_pending"
    assert len(toolbox.calls) == 1
