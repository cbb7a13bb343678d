"""`POST /v1/tool_calls`: calls in every form, side by side, each ending for itself."""

import asyncio
import json
from typing import Any, Final

from aggregator.domain.call_record import CallRecord
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import OpenHarness, SecuredHarness
from tests.end_to_end.scripted_host import MODERN
from tests.peers.toolbox import PIXEL, REFUSAL_CODE, REFUSAL_DATA
from tests.v1.api import ApiResponse, api_client
from tests.v1.conftest import SECRET, OpenApi

SUNNY: Final = "北京今天晴，温度 25°C"
POSTED: Final = {"content-type": "application/json"}
BEIJING: Final = {"city": "北京"}


def codes(answer: ApiResponse) -> list[str | None]:
    """Return the error code of each call, or None for success."""
    return [record.get("error", {}).get("code") for record in answer.body["results"]]


async def test_one_call(open_api: OpenApi) -> None:
    """A6, A10, C8: role, name and content, and nothing else; the id if there was one."""
    async with open_api("one") as api:
        answer = await api.call("weather.get", BEIJING)
        assert (answer.status, answer.body) == (200, {"role": "tool", "name": "weather.get", "content": SUNNY})
        said = {"response": "让我查一下", "tool_call": {"name": "weather/get", "arguments": BEIJING, "id": "c7"}}
        answer = await api.post("tool_calls", said)
        assert answer.body == {"role": "tool", "tool_call_id": "c7", "name": "weather/get", "content": SUNNY}


async def test_calls_of_openai(open_api: OpenApi) -> None:
    """A6, B3: the assistant's message as it is; messages back that can be appended as they are."""
    async with open_api("one") as api:
        answer = await api.calls(("weather__get", BEIJING), ("weather__picture", {}), ("weather__measure", {}))
        assert answer.status == 200
        assert answer.body["messages"] == [
            {"role": "tool", "tool_call_id": "c0", "name": "weather__get", "content": SUNNY},
            {
                "role": "tool",
                "tool_call_id": "c1",
                "name": "weather__picture",
                "content": f"[image: image/png, {len(PIXEL) * 3 // 4 - PIXEL.count('=')} bytes]",
            },
            {"role": "tool", "tool_call_id": "c2", "name": "weather__measure", "content": '{"metres":1.5}'},
        ]
        assert codes(answer) == [None, None, None]


async def test_tool_uses_of_anthropic(open_api: OpenApi) -> None:
    """A6, C10: blocks in, blocks out."""
    content = [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "u1", "name": "weather__get", "input": BEIJING},
        {"type": "tool_use", "id": "u2", "name": "weather__refuse", "input": {}},
    ]
    async with open_api("one") as api:
        answer = await api.post("tool_calls", {"role": "assistant", "content": content})
        assert answer.body["messages"] == [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "u1", "content": SUNNY},
                    {"type": "tool_result", "tool_use_id": "u2", "content": "no such city", "is_error": True},
                ],
            }
        ]


async def test_calls_run_side_by_side(open_api: OpenApi) -> None:
    """A6: the first waits for the second, and is answered first."""
    async with open_api("one") as api:
        answer = await api.calls(("weather.hold", {"key": "side"}), ("weather.release", {"key": "side"}))
        assert [message["content"] for message in answer.body["messages"]] == ["side", "released"]


async def test_one_that_fails_fails_no_other(open_api: OpenApi) -> None:
    """A6, C12: each has its own end, told in its place."""
    bad = {"id": "c9", "type": "function", "function": {"name": "weather__get", "arguments": '{"city": '}}
    async with open_api("two") as api:
        answer = await api.calls(("weather.nothing", {}), ("weather.decline", {}), ("weather.get", BEIJING))
        assert answer.status == 200
        assert codes(answer) == ["unknown_tool", "upstream_rpc_error", None]
        assert [record["status"] for record in answer.body["results"]] == [404, 200, 200]
        assert answer.body["results"][1]["error"]["rpc"] == {
            "code": REFUSAL_CODE, "message": "The peer declines.", "data": REFUSAL_DATA,
        }  # fmt: skip
        assert "The peer declines." in answer.body["messages"][1]["content"]
        good = {"id": "c1", "type": "function", "function": {"name": "weather__get", "arguments": BEIJING}}
        answer = await api.post("tool_calls", {"tool_calls": [bad, good]})
        assert codes(answer) == ["invalid_arguments", None]
        assert "not valid JSON" in answer.body["messages"][0]["content"]


async def test_an_error_of_the_tool(open_api: OpenApi) -> None:
    """C12: its own words, marked as an error; no object, since nobody refused anything."""
    async with open_api("one") as api:
        answer = await api.call("weather.refuse")
        assert answer.status == 200
        assert answer.body == {"role": "tool", "name": "weather.refuse", "content": "no such city", "is_error": True}


async def test_arguments_that_do_not_fit(open_api: OpenApi) -> None:
    """C13, D6, F3: 400, the field named to the model and to programs; the tightened schema counts."""
    async with open_api("one") as api:
        answer = await api.call("weather.get", {})
        assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_arguments")
        assert answer.body["error"]["missing"] == ["city"]
        assert "city" in answer.body["content"]
        answer = await api.call("shop.put", {"amount": 51})
        assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_arguments")
        assert (await api.call("shop.put", {"amount": 50})).status == 200


async def test_corrected_arguments_are_told(open_api: OpenApi) -> None:
    """In the record of each call, or in a header of a single one; nothing if nothing was corrected."""
    told = ["/City: as 'city'"]
    async with open_api("one") as api:
        answer = await api.calls(("weather__get", {"City": "北京"}), ("weather__get", BEIJING))
        assert [record.get("corrected") for record in answer.body["results"]] == [told, None]
        assert [message["content"] for message in answer.body["messages"]] == [SUNNY, SUNNY]
        assert "x-corrected-arguments" not in answer.headers
        for _ in range(2):
            # The second is like one that the connection remembers.
            answer = await api.call("weather.get", {"City": "北京"})
            assert answer.body == {"role": "tool", "name": "weather.get", "content": SUNNY}
            assert json.loads(answer.headers["x-corrected-arguments"]) == told
            plain = await api.call("weather.get", BEIJING)
            assert "x-corrected-arguments" not in plain.headers
        inside = await api.call("call_tool", {"name": "weather.get", "arguments": {"City": "北京"}})
        assert json.loads(inside.headers["x-corrected-arguments"]) == told


async def test_a_call_that_is_not_allowed(open_api: OpenApi) -> None:
    """D5, F3: 403 and a code; the same call of another agent goes on."""
    async with open_api("one") as api, open_api("two") as other:
        answer = await api.call(f"shop.{SECRET}wipe")
        assert (answer.status, answer.body["is_error"]) == (403, True)
        assert (answer.body["error"]["code"], answer.body["error"]["status"]) == ("tool_not_allowed", 403)
        assert (await api.calls((f"shop__{SECRET}wipe", {}))).status == 403
        assert (await other.call(f"shop.{SECRET}wipe")).status == 200


async def test_a_hidden_denial_is_an_unknown_tool(open_api: OpenApi) -> None:
    """D5: the same answer but for the name."""
    async with open_api("hidden") as api:
        denied, unknown = [await api.call(f"shop.{name}") for name in (f"{SECRET}wipe", "vwkwipe")]
        assert (denied.status, unknown.status) == (404, 404)
        assert json.dumps(denied.body).replace(f"{SECRET}wipe", "") == json.dumps(unknown.body).replace("vwkwipe", "")


async def test_an_unknown_tool_and_what_may_be_meant(open_api: OpenApi) -> None:
    """A10: 404, with names in the spelling that the form has."""
    async with open_api("one") as api:
        answer = await api.call("weather.gett", BEIJING)
        assert (answer.status, answer.body["error"]["nearest"][0]) == (404, "weather.get")
        answer = await api.calls(("weather__gett", BEIJING))
        assert (answer.status, answer.body["results"][0]["error"]["nearest"][0]) == (404, "weather__get")


async def test_a_service_that_is_down(open_api: OpenApi) -> None:
    """A7: 200 and a friendly word, and the conversation goes on."""
    async with open_api("one") as api:
        answer = await api.call("down.anything")
        assert (answer.status, answer.body["is_error"], answer.body["role"]) == (200, True, "tool")
        assert answer.body["error"]["code"] == "upstream_unavailable"
        assert answer.body["error"]["retryable"] is True
        assert "try again once it is back" in answer.body["content"]


async def test_a_call_that_takes_too_long(open_harness: OpenHarness) -> None:
    """A8: ended upstream, and the limit is named."""
    toolbox = RecordingToolbox([tool("hold", {"key": {"type": "string"}}), tool("get")])
    harness = open_harness({"slow": toolbox.config_entry(timeout=0.2)}, {"agents": {"one": {"allow": ["*"]}}}, ["one"])
    async with api_client(harness, "one") as api:
        answer = await api.call("slow.hold", {"key": "k"})
        assert (answer.status, answer.body["error"]["code"]) == (200, "upstream_timeout")
        assert "0.2" in answer.body["content"]
        await harness.background.elsewhere(toolbox.event_log.until("cancelled k"))


async def test_who_leaves_takes_the_calls_along(shared: SecuredHarness, open_harness: OpenHarness) -> None:
    """A8: a closed connection cancels what it asked for."""
    toolbox = RecordingToolbox([tool("hold", {"key": {"type": "string"}})])
    harness = open_harness({"slow": toolbox.config_entry()}, {"agents": {"one": {"allow": ["*"]}}}, ["one"])
    body = {"tool_calls": [{"name": "slow.hold", "arguments": {"key": key}} for key in "ab"]}
    async with harness.client("one") as client, asyncio.timeout(10), asyncio.TaskGroup() as group:
        asking = group.create_task(client.post("/v1/tool_calls", json=body))
        for key in "ab":
            await harness.background.elsewhere(toolbox.event_log.until(f"started {key}"))
        asking.cancel()
    for key in "ab":
        await harness.background.elsewhere(toolbox.event_log.until(f"cancelled {key}"))


async def test_the_same_answers_as_at_the_mcp_frontend(shared: SecuredHarness, open_api: OpenApi) -> None:
    """F3: one pipeline: the texts of results and refusals, word for word."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("weather.get", BEIJING), ("weather.get", {}), ("weather.refuse", {}), (f"shop.{SECRET}wipe", {}),
        ("shop.put", {"amount": 99}), ("down.x", {}),
    ]  # fmt: skip
    async with open_api("one") as api, shared.connect_as(("http", MODERN), "one") as host:
        for name, arguments in asked:
            result = await host.call(name, arguments).result()
            answer = await api.call(name, arguments)
            assert answer.body["content"] == result["content"][0]["text"], name
            assert answer.body.get("is_error", False) == result.get("isError", False)
            assert answer.body.get("error") == result.get("_meta", {}).get("aggregator/error"), name


async def test_every_call_leaves_one_record(open_harness: OpenHarness) -> None:
    """D9: good or bad, also those that this frontend refuses itself; with the conversation and the person it is for."""
    policies = {"agents": {"one": {"allow": ["*"], "deny": ["shop.wipe"]}}}
    toolbox = RecordingToolbox([tool("get"), tool("wipe")])
    harness = open_harness({"shop": toolbox.config_entry()}, policies, ["one"], v1={"max_calls_per_conversation": 1})
    kept: list[CallRecord] = []
    harness.app.telemetry.observers.sinks = (kept.append,)
    async with api_client(harness, "one") as api:
        named: dict[str, Any] = {"conversation_id": "talk"}
        await api.call("shop.wipe", **named)
        await api.call("shop.nothing", **named)
        await api.post("tool_calls", {"tool_call": {"name": "shop.get", "arguments": "{"}, **named})
        await api.post("tool_calls", {"tool_call": {"name": "shop.get"}, **named}, x_user_id="ann")
        await api.call("shop.get", **named)
    assert [(record.asked_name, record.outcome.status, record.outcome.error_code) for record in kept] == [
        ("shop.wipe", "denied", "tool_not_allowed"),
        ("shop.nothing", "invalid", "unknown_tool"),
        ("shop.get", "invalid", "invalid_arguments"),
        ("shop.get", "ok", None),
        ("shop.get", "denied", "limit_reached"),
    ]
    assert {(record.caller.frontend, record.caller.agent_id, record.caller.conversation_id) for record in kept} == {
        ("v1", "one", "talk")
    }
    assert kept[3].caller.user_id == "ann"
    assert kept[4].decision.rule == "v1.max_calls_per_conversation"


async def test_an_empty_header_names_no_conversation(open_harness: OpenHarness) -> None:
    """B6: as without the header, also for a call that is like the one before."""
    harness = open_harness(
        {"shop": RecordingToolbox([tool("get")]).config_entry()},
        {"agents": {"one": {"allow": ["*"]}}},
        ["one"],
        v1={"max_calls_per_conversation": 1},
    )
    kept: list[CallRecord] = []
    harness.app.telemetry.observers.sinks = (kept.append,)
    async with api_client(harness, "one") as api:
        for _ in range(3):
            await api.post("tool_calls", {"tool_call": {"name": "shop.get"}}, x_conversation_id="")
    assert [(one.outcome.status, one.caller.conversation_id) for one in kept] == [("ok", None)] * 3


async def test_deep_arguments_have_an_answer(open_api: OpenApi) -> None:
    """A7: however deep, a call ends in an answer."""
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    async with open_api("one") as api:
        answer = await api.call("weather.get", {"city": deep})
        assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_arguments")
        text = '{"tool_call":{"name":"weather.get","arguments":{"city":' + "[" * 100_000 + "]" * 100_000 + "}}}"
        answer = await api.raw("tool_calls", content=text, headers=POSTED)
        assert (answer.status, answer.body["error"]["code"]) == (400, "bad_request")
        lone = json.dumps({"tool_call": {"name": "weather.\ud800", "arguments": {"city": "\ud800"}}})
        assert (await api.raw("tool_calls", content=lone, headers=POSTED)).status == 404
