"""`call_tool` and `read_tool`: the whole road of a call, in whatever form models send it."""

from typing import Any

import pytest

from tests.access.gateway_harness import FORMS, MODERN, error_data, tool
from tests.meta.conftest import SERVERS, TOOLS, OpenHarness
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json, text_result

CITY = {"city": "Oslo"}


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        ({"name": "maps.get_weather", "arguments": CITY}, CITY),
        ({"name": "maps__get_weather", "arguments": CITY}, CITY),
        ({"name": "maps.get_weather", "arguments": '{"city": "Oslo"}'}, CITY),
        ({"name": "maps.get_weather", **CITY}, CITY),
        ({"name": "maps.get_weather", "arguments": {}, **CITY}, CITY),
        ({"name": "maps.get_weather"}, {}),
        ({"name": "maps.get_weather", "arguments": None}, {}),
        ({"name": "maps.get_weather", "arguments": ""}, {}),
        ({"name": "call_tool", "arguments": {"name": "maps.get_weather", "arguments": CITY}}, CITY),
    ],
)
async def test_every_form_that_models_send(open_harness: OpenHarness, sent: Json, arrives: Json) -> None:
    """Proves: F5. Arguments as an object, as a JSON text, beside `name`, nested once more, or none."""
    async with open_harness() as harness:
        for version in ("2025-11-25", MODERN):
            answer = await harness.call(harness.host("local", version), "call_tool", sent)
            assert answer["result"]["content"] == text_result("did get_weather")["content"]
        for call in harness.fake_upstreams["maps"].calls:
            assert call["name"] == "get_weather"
            assert call.get("arguments", {}) == arrives


@pytest.mark.parametrize(
    ("sent", "said_of_it"),
    [
        ({}, "needs `name`"),
        ({"name": 5}, "needs `name`"),
        ({"tool_id": "maps.drive", "a": 1}, "You sent 'tool_id', 'a'."),
        ({"arguments": {"city": "Oslo"}}, "You sent 'city'."),
        ({"name": "maps.drive", "arguments": "{not json"}, "no JSON object"),
        ({"name": "maps.drive", "arguments": [1]}, "must be a JSON object"),
        ({"name": "maps.drive", "arguments": {"a": 1}, "b": 2}, "'b' beside `arguments`"),
        ({"name": "call_tool", "arguments": {"name": "call_tool", "arguments": {"name": "call_tool"}}}, "call"),
    ],
)
async def test_what_makes_no_call_says_so(open_harness: OpenHarness, sent: Json, said_of_it: str) -> None:
    """Proves: F5, D6. A refusal that a model can act on; nothing reaches a server."""
    async with open_harness() as harness:
        answer = await harness.call(harness.host("local"), "call_tool", sent)
        assert error_data(answer)["code"] == "invalid_arguments"
        assert said_of_it in answer["result"]["content"][0]["text"]
        assert harness.sent == []


async def test_the_answer_is_the_servers_own(open_harness: OpenHarness) -> None:
    """Proves: F5, C12. Images, links, structured content, vendor fields and `isError` come through untouched."""
    result: Json = {
        "content": [
            {"type": "image", "data": "aGk=", "mimeType": "image/png", "x-vendor": {"a": [1, None]}},
            {"type": "resource_link", "uri": "https://example.com/a", "name": "a"},
        ],
        "structuredContent": {"n": 1.5},
        "isError": True,
        "vendor": "kept",
    }

    async def answering(params: Json) -> Json:
        return result

    async with open_harness() as harness:
        harness.fake_upstreams["maps"].answer = answering
        host = harness.host("local")
        direct = (await harness.call(host, "maps.drive"))["result"]
        through = (await harness.call(host, "call_tool", {"name": "maps.drive"}))["result"]
        for answer in (direct, through):
            assert {key: answer[key] for key in result} == result
        assert direct.keys() == through.keys()


async def test_policies_hold_for_the_tool_that_is_called(open_harness: OpenHarness) -> None:
    """Proves: F3, D4, D5, D6. Denied, hidden, unfit, over its limit: as by a direct call, under the inner name."""
    policies: Any = {
        "agents": {
            "a": {
                "allow": ["maps.*"],
                "arguments": {"maps.get_weather": {"required": ["city"]}},
                "limits": {"maps.drive": {"per_minute": 1}},
            },
            "h": {"allow": ["maps.*"], "denials": "hidden"},
        }
    }
    async with open_harness(policies) as harness:
        host = harness.host("a")
        denied = error_data(await harness.call(host, "call_tool", {"name": "git.delete_repo"}))
        assert (denied["code"], denied["status"], denied["tool"]) == ("tool_not_allowed", 403, "git.delete_repo")
        unfit = error_data(await harness.call(host, "call_tool", {"name": "maps.get_weather"}))
        assert (unfit["code"], unfit["missing"]) == ("invalid_arguments", ["city"])
        assert (await harness.call(host, "call_tool", {"name": "maps.drive"}))["result"]["content"]
        over = error_data(await harness.call(host, "call_tool", {"name": "maps.drive"}))
        assert over["code"] == "limit_reached"
        hidden = error_data(await harness.call(harness.host("h"), "call_tool", {"name": "git.delete_repo"}))
        nowhere = error_data(await harness.call(harness.host("h"), "call_tool", {"name": "git.never_there"}))
        assert hidden["code"] == nowhere["code"] == "unknown_tool"
        assert hidden.keys() == nowhere.keys()
        assert harness.sent == [("maps", "drive")]


async def test_an_unknown_name_is_something_to_correct(open_harness: OpenHarness) -> None:
    """Proves: F5, C9. The nearest names come with it, as a result and not as a protocol error."""
    async with open_harness() as harness:
        answer = await harness.call(harness.host("local"), "call_tool", {"name": "maps.get_wether"})
        error = error_data(answer)
        assert (error["code"], error["nearest"]) == ("unknown_tool", ["maps.get_weather"])


async def test_a_person_is_asked_about_the_inner_call(open_harness: OpenHarness) -> None:
    """Proves: B6, F5. Confirmation works through `call_tool` in both eras, and the call is made once."""

    async def agrees(params: Json) -> Json:
        return {"action": "accept", "content": {"allow": True}}

    policies = {"agents": {"a": {"allow": ["git.*"], "confirm": ["git.delete_repo"]}}}
    sent = {"name": "git.delete_repo", "arguments": {"name": "x"}}
    async with open_harness(policies) as harness:
        channel = AnsweringBackChannel(agrees)
        called = await harness.call(harness.host("a", capabilities=FORMS), "call_tool", sent, channel)
        assert called["result"]["content"]
        assert "delete_repo" in channel.asked[0]["message"]
        host = harness.host("a", MODERN)
        host.capabilities = FORMS
        first = (await harness.call(host, "call_tool", sent))["result"]
        assert first["resultType"] == "input_required"
        answers = {key: {"action": "accept", "content": {"allow": True}} for key in first["inputRequests"]}
        again = await harness.call(host, "call_tool", sent, inputResponses=answers, requestState=first["requestState"])
        assert again["result"]["content"] == text_result("did delete_repo")["content"]
        assert len(harness.sent) == 2


async def test_read_tool_only_reads(open_harness: OpenHarness) -> None:
    """Proves: F5. It calls what an admin or a trusted server declares to change nothing, and refuses the rest."""
    servers = {**SERVERS, "maps": {**SERVERS["maps"], "trusted": True}}
    policies = {"agents": {"a": {"allow": ["*"], "read_only": ["git.create_issue"]}}}
    async with open_harness(policies, servers=servers, read_tool=True, expose="search") as harness:
        host = harness.host("a")
        listed = {one["name"]: one for one in await harness.listed(host)}
        assert listed["read_tool"]["annotations"] == {"readOnlyHint": True}
        for name in ("maps.get_weather", "git.create_issue"):
            assert (await harness.call(host, "read_tool", {"name": name}))["result"]["content"]
        for name in ("maps.drive", "git.delete_repo"):
            assert error_data(await harness.call(host, "read_tool", {"name": name}))["code"] == "not_read_only"
        assert harness.sent == [("maps", "get_weather"), ("git", "create_issue")]
    async with open_harness(policies, servers=servers) as harness:
        assert "Unknown tool" in (await harness.call(harness.host("a"), "read_tool", {}))["error"]["message"]


async def test_a_servers_own_tool_of_that_name_is_another(open_harness: OpenHarness) -> None:
    """Proves: F2, F5. `maps.call_tool` is the server's, `call_tool` is ours."""
    tools = {**TOOLS, "maps": [tool("call_tool")]}
    async with open_harness(tools=tools) as harness:
        assert (await harness.call(harness.host("local"), "maps.call_tool"))["result"]["content"]
        assert (await harness.call(harness.host("local"), "call_tool", {"name": "maps.call_tool"}))["result"]["content"]
        assert harness.sent == [("maps", "call_tool")] * 2
