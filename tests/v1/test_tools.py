"""`GET /v1/tools`, `/v1/servers` and `POST /v1/intent`: what an agent may see, in every form."""

import itertools
import json
from typing import Any, Final

import pytest

from aggregator.domain.text.tokens import estimate
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import MODERN
from tests.v1.conftest import SECRET, OpenApi

FORMATS: Final = ("mcp", "openai", "anthropic", "seed")
LEVELS: Final = (1, 2, 3)
FORMS: Final[list[dict[str, Any]]] = [
    {},
    *({"format": form} for form in FORMATS),
    *({"level": level} for level in LEVELS),
    *({"format": "seed", "level": level} for level in (1, 3)),
]


def names(tools: list[Any]) -> list[str]:
    return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]


@pytest.mark.parametrize("agent", ["one", "two", "hidden"])
async def test_the_same_as_at_the_mcp_frontend(shared: SecuredHarness, open_api: OpenApi, agent: str) -> None:
    """A1, C7, F3: `format=mcp` is `tools/list`, with the schemas as the policy tightened them."""
    async with shared.connect_as(("http", MODERN), agent) as host, open_api(agent) as api:
        answer = await api.get("tools", format="mcp")
        assert answer.body["tools"] == await host.list()
        assert answer.body["left_out"] == 0
        assert len(answer.body["tools"]) == {"one": 9, "two": 10, "hidden": 8}[agent]


@pytest.mark.parametrize("agent", ["one", "hidden"])
async def test_nothing_of_what_may_not_be_called_is_seen(open_api: OpenApi, agent: str) -> None:
    """D4, F3: in no format, at no level, whatever is searched for."""
    asked = [{}, {"query": f"{SECRET}wipe {SECRET}words"}, {"message": f"use shop.{SECRET}wipe"}, {"server": "shop"}]
    async with open_api(agent) as api, open_api("two") as other:
        for host_kind, question in itertools.product(FORMS, asked):
            answer = await api.get("tools", **host_kind, **question)
            assert answer.status == 200
            told = json.dumps(answer.body["tools"])
            assert SECRET not in told
            assert "shop" in told or not question or "query" in question or "message" in question
        assert SECRET in json.dumps((await other.get("tools", query=f"{SECRET}words")).body)
        intent = await api.post("intent", {"message": f"调用 shop.{SECRET}wipe"})
        assert SECRET not in json.dumps([intent.body["tools"], intent.body["snippet"]])


async def test_only_tools_of_servers_that_are_up(open_api: OpenApi) -> None:
    """A1, A9: one that is not there has none, and the servers say why; each has a description."""
    async with open_api("one") as api:
        assert (await api.get("tools", server="down")).body["tools"] == []
        unknown = await api.get("tools", server="nope")
        assert (unknown.status, unknown.body["error"]["field"]) == (400, "server")
        assert "there are: " in unknown.body["error"]["message"]
        assert "weather" in unknown.body["error"]["message"]
        assert (await api.get("tools", message="what is in the basement?")).body["tools"] == []
        servers = {server["name"]: server for server in (await api.get("servers")).body["servers"]}
        assert (servers["weather"]["state"], servers["weather"]["tools"]) == ("ready", 7)
        assert servers["weather"]["description"] == "天气服务"
        assert servers["shop"]["description"] == "shop"
        assert servers["down"]["state"] == "unavailable"
        assert servers["down"]["reason"]
    async with open_api("hidden") as api:
        assert {server["name"] for server in (await api.get("servers")).body["servers"]} == {"weather", "shop"}


async def test_texts_by_level(open_api: OpenApi) -> None:
    """B2: a line; compact JSON with the main parameters; the whole schema."""
    async with open_api("one") as api:
        texts = [(await api.get("tools", query="天气", limit=1, level=level)).body["tools"][0] for level in LEVELS]
        assert {text["name"] for text in texts} == {"weather.get"}
        assert texts[0]["text"] == "weather.get: 查询指定城市的天气信息"
        assert json.loads(texts[1]["text"])["parameters"] == {"city": "string* 城市名"}
        assert json.loads(texts[2]["text"])["inputSchema"]["required"] == ["city"]


@pytest.mark.parametrize("form", FORMS)
async def test_a_search_that_nothing_fits_says_so(open_api: OpenApi, form: dict[str, Any]) -> None:
    """3 of issue 31: the line of `search_tools`, in every form; a search that a tool fits has none."""
    async with open_api("one") as api:
        weak = await api.get("tools", query="天气 of my pizza", limit=1, **form)
        assert weak.body["weak"].startswith('weak matches: no tool has "pizza"')
        assert len(weak.body["tools"]) == 1, "what was found is there all the same"
        for question in ({"query": "天气"}, {"query": "zxqvjk"}, {"server": "weather"}, {"message": "天气"}):
            assert "weak" not in (await api.get("tools", **question, **form)).body


async def test_the_short_form(open_api: OpenApi) -> None:
    """B2: `[工具] name: words` at level 1, `city: 城市名` at level 2, the schema at level 3."""
    async with open_api("one") as api:
        first, second, third = [
            (await api.get("tools", query="天气", limit=1, format="seed", level=level)).body["tools"][0]
            for level in LEVELS
        ]
        assert first["text"] == "[工具] weather.get: 查询指定城市的天气信息"
        assert second == {"name": "weather.get", "description": "查询指定城市的天气信息", "params": ["city: 城市名"]}
        assert third["parameters"]["required"] == ["city"]


@pytest.mark.parametrize("form", FORMATS)
async def test_every_listed_name_can_be_called(open_api: OpenApi, form: str) -> None:
    """B3, A10: in the spelling of each format."""
    async with open_api("one") as api:
        listed = names((await api.get("tools", query="天气", limit=1, format=form)).body["tools"])
        assert listed == ["weather.get" if form in ("mcp", "seed") else "weather__get"]
        assert (await api.call(listed[0], {"city": "北京"})).body["content"] == "北京今天晴，温度 25°C"


async def test_what_a_policy_adds_is_shown_to_model_apis(open_api: OpenApi) -> None:
    """D4, B3: as a narrower property, not as an `allOf`, which they refuse."""
    async with open_api("one") as api:
        tools = (await api.get("tools", server="shop", format="openai")).body["tools"]
        parameters = next(one["function"] for one in tools if one["function"]["name"] == "shop__put")["parameters"]
        assert parameters["properties"]["amount"] == {"type": "integer", "maximum": 50}
        assert parameters["required"] == ["amount"]


async def test_no_more_than_fits(open_api: OpenApi) -> None:
    """A5, B2: whole tools, in order, within a number of tokens; what is left out is counted."""
    async with open_api("one") as api:
        whole = (await api.get("tools", level=1)).body
        part = (await api.get("tools", level=1, max_tokens=whole["tokens"] // 2)).body
        assert part["tools"] == whole["tools"][: len(part["tools"])]
        assert 0 < len(part["tools"]) < len(whole["tools"])
        assert part["left_out"] == len(whole["tools"]) - len(part["tools"])
        assert part["tokens"] <= whole["tokens"] // 2
        assert abs(whole["tokens"] - estimate("\n".join(tool["text"] for tool in whole["tools"]))) <= len(
            whole["tools"]
        )
        assert (await api.get("tools", format="openai", max_tokens=1)).body["left_out"] == 9


async def test_a_message_that_asks_for_nothing(open_api: OpenApi) -> None:
    """A4, A5: no tools, nothing to inject."""
    async with open_api("one") as api:
        answer = (await api.get("tools", message="你好，今天心情怎么样？")).body
        assert (answer["intent"], answer["tools"], answer["tokens"]) == ("none", [], 0)
        intent = (await api.post("intent", {"message": "Tell me a joke."})).body
        assert intent == {
            "intent": "none", "rule": None, "matched": None, "server": None, "tools": [], "snippet": "", "tokens": 0,
        }  # fmt: skip


async def test_a_message_with_a_servers_keyword(open_api: OpenApi) -> None:
    """A3, A5: tied to that server; Level 1 of its tools is ready to be injected, and no schema."""
    async with open_api("one") as api:
        intent = (await api.post("intent", {"message": "北京明天天气如何", "limit": 3})).body
        assert (intent["intent"], intent["rule"], intent["matched"], intent["server"]) == (
            "mcp", "keyword", "天气", "weather",
        )  # fmt: skip
        assert len(intent["tools"]) == 3
        assert "weather.get" in intent["tools"]
        assert "[工具] weather.get: 查询指定城市的天气信息" in intent["snippet"].splitlines()
        assert "city" not in intent["snippet"]
        assert intent["tokens"] == estimate(intent["snippet"])
        tools = (await api.get("tools", message="北京明天天气如何", limit=3, format="openai")).body
        assert names(tools["tools"]) == [name.replace(".", "__") for name in intent["tools"]]
        assert (tools["intent"], tools["server"]) == ("mcp", "weather")


@pytest.mark.parametrize("message", ["用 weather.get 工具查一下", "调用 weather.get", "call weather.get for Rome"])
async def test_a_message_that_names_a_tool(open_api: OpenApi, message: str) -> None:
    """A2: an explicit call, in Chinese and in English."""
    async with open_api("one") as api:
        intent = (await api.post("intent", {"message": message})).body
        assert (intent["intent"], intent["tools"]) == ("mcp", ["weather.get"])
