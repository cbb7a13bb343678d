"""How many calls a conversation may make at `/v1`."""

import time
from typing import Any, Final

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import OpenHarness
from tests.v1.api import Api, ApiResponse, api_client
from tests.v1.conftest import OpenApi

OPEN: Final = {"agents": {"one": {"allow": ["*"]}, "two": {"allow": ["*"]}}}
STRICT: Final = tool("strict", {"n": {"type": "integer"}})


def code(answer: ApiResponse) -> str | None:
    error: dict[str, Any] = answer.body.get("error", {})
    return error.get("code")


async def several(api: Api, count: int, **more: Any) -> list[int]:
    answer = await api.calls(*[("shop.get", {})] * count, **more)
    return [record["status"] for record in answer.body["results"]]


async def test_three_in_a_conversation(open_harness: OpenHarness) -> None:
    """B6: by default three, over requests, by the id in the body or the header; another conversation has its own."""
    toolbox = RecordingToolbox([tool("get")])
    harness = open_harness({"shop": toolbox.config_entry()}, OPEN)
    async with api_client(harness, "one") as api, api_client(harness, "two") as other:
        assert await several(api, 2, conversation_id="a") == [200, 200]
        assert (await api.call("shop.get", conversation_id="a")).status == 200
        over = await api.call("shop.get", conversation_id="a")
        assert (over.status, code(over), over.body["error"]["most"]) == (429, "limit_reached", 3)
        assert over.body["role"] == "tool"
        assert "at most 3 calls" in over.body["content"]
        body = {"tool_call": {"name": "shop.get"}}
        assert (await api.post("tool_calls", body, x_conversation_id="a")).status == 429
        assert (await api.post("tool_calls", body, x_conversation_id="b")).status == 200
        assert (await other.call("shop.get", conversation_id="a")).status == 200
    assert len(toolbox.calls) == 5


async def test_without_an_id_it_is_the_request(open_harness: OpenHarness) -> None:
    """B6: three of a request are made, in order, and the rest is told; the next request starts anew."""
    toolbox = RecordingToolbox([tool("get")])
    harness = open_harness({"shop": toolbox.config_entry()}, OPEN)
    async with api_client(harness, "one") as api:
        assert await several(api, 5) == [200, 200, 200, 429, 429]
        assert await several(api, 2) == [200, 200]
    assert len(toolbox.calls) == 5


async def test_another_number(open_harness: OpenHarness) -> None:
    """B6: configurable."""
    harness = open_harness(
        {"shop": RecordingToolbox([tool("get")]).config_entry()}, OPEN, v1={"max_calls_per_conversation": 5}
    )
    async with api_client(harness, "one") as api:
        assert await several(api, 6, conversation_id="a") == [200] * 5 + [429]


async def test_what_was_not_sent_does_not_count(open_harness: OpenHarness, tmp_path: Any) -> None:
    """B6: a name, arguments, a denial, a service that is away, a look at the catalog: put right, the call is made."""
    toolbox = RecordingToolbox([tool("get"), tool("wipe"), STRICT])
    policies = {"agents": {"one": {"allow": ["*"], "deny": ["shop.wipe"]}}}
    servers = {"shop": toolbox.config_entry(), "down": {"command": str(tmp_path / "nothing")}}
    harness = open_harness(servers, policies, ["one"], v1={"max_calls_per_conversation": 1})
    async with api_client(harness, "one") as api:
        tried = [("shop.nothing", {}), ("shop.wipe", {}), ("shop.strict", {"n": "x"}), ("down.it", {})]
        tried += [("search_tools", {"query": "get"}), ("list_servers", {})]
        for name, arguments in tried:
            assert code(await api.call(name, arguments, conversation_id="a")) != "limit_reached", name
        assert (await api.call("call_tool", {"name": "shop.get"}, conversation_id="a")).status == 200
        assert code(await api.call("shop.get", conversation_id="a")) == "limit_reached"
        assert code(await api.call("call_tool", {"name": "shop.get"}, conversation_id="a")) == "limit_reached"
        assert (await api.call("search_tools", {"query": "get"}, conversation_id="a")).status == 200
    assert [call["name"] for call in toolbox.calls] == ["get"]


async def test_the_limits_of_the_policy_hold_here_too(open_api: OpenApi) -> None:
    """B6, F3: by the id that was given; a call that names no conversation is not made."""
    async with open_api("limited") as api:
        arguments = {"city": "北京"}
        assert (await api.call("weather.get", arguments, conversation_id="policy")).status == 200
        over = await api.call("weather.get", arguments, conversation_id="policy")
        assert (over.status, over.body["error"]["limit"]) == (429, "per_conversation")
        assert (await api.call("weather.get", arguments)).status == 429


async def test_when_to_come_back(open_harness: OpenHarness) -> None:
    """B6: `Retry-After`, where a limit of the policy knows it."""
    policies = {"agents": {"one": {"allow": ["*"], "limits": {"shop.*": {"per_minute": 1}}}}}
    harness = open_harness({"shop": RecordingToolbox([tool("get")]).config_entry()}, policies, ["one"])
    async with api_client(harness, "one") as api:
        assert "retry-after" not in (await api.call("shop.get")).headers
        over = await api.call("shop.get")
        assert (over.status, 1 <= int(over.headers["retry-after"]) <= 60) == (429, True)


async def test_a_call_that_waits_for_a_person(open_harness: OpenHarness, tmp_path: Any) -> None:
    """B6: 202 and the id of the question; once it is approved, the same call is made, and only that counts."""
    policies = {
        "agents": {"one": {"allow": ["*"], "confirm": ["shop.put"], "confirm_fallback": "queue", "confirm_wait": 0}}
    }
    toolbox = RecordingToolbox([tool("put")])
    storage = f"sqlite+aiosqlite:///{tmp_path}/kept.db"
    harness = open_harness(
        {"shop": toolbox.config_entry()}, policies, ["one"], storage=storage, v1={"max_calls_per_conversation": 1}
    )
    async with api_client(harness, "one") as api:
        waiting = await api.call("shop.put", conversation_id="a")
        assert (waiting.status, code(waiting)) == (202, "approval_pending")
        approvals = await harness.background.elsewhere(harness.app.database.approvals())
        assert approvals is not None
        yes = approvals.approve(waiting.body["error"]["approval"], "a test", now=time.time())
        await harness.background.elsewhere(yes)
        assert (await api.call("shop.put", conversation_id="a")).status == 200
        assert code(await api.call("shop.put", conversation_id="a")) == "limit_reached"
    assert len(toolbox.calls) == 1


async def test_a_call_that_nobody_can_agree_to(open_harness: OpenHarness) -> None:
    """B6: 403, since this frontend cannot ask a person."""
    policies = {"agents": {"one": {"allow": ["*"], "confirm": ["shop.*"]}}}
    harness = open_harness({"shop": RecordingToolbox([tool("put")]).config_entry()}, policies, ["one"])
    async with api_client(harness, "one") as api:
        answer = await api.call("shop.put")
        assert (answer.status, code(answer)) == (403, "not_confirmed")
