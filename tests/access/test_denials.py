"""What is refused and how: said openly, or answered as if there were no such thing."""

import json
from typing import Any, Final, cast

import httpx2
import pytest

from aggregator.frontends.server import WebServer
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, error_data, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS, WEB_HOST_KINDS, OpenHarness
from tests.end_to_end.scripted_host import ACCEPT, CLIENT_INFO, ENVELOPE, META
from tests.peers.toolbox import Json

# No letter of the second is in any other name: what is near a name does not depend on it.
TOOLS: Final = [tool("get"), tool("xqzv")]
HIDDEN: Final = {"agents": {"one": {"allow": ["shop.get"], "denials": "hidden"}, "two": {"allow": ["shop.*"]}}}
NORTH_AND_SOUTH: Final = {
    "tenants": {"north": {"servers": ["north"]}, "south": {"servers": ["south"]}},
    "agents": {"one": {"tenant": "north", "allow": ["*"]}, "two": {"tenant": "south", "allow": ["*"]}},
}


def answer_without(answer: Json, name: str) -> str:
    """An answer without the name that was asked for and the id."""
    return json.dumps({key: value for key, value in answer.items() if key != "id"}).replace(name, "NAME")


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_a_denial_is_a_result_with_a_code(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """D5, F3: 403 and `tool_not_allowed`; nothing is called, and the other agent goes on."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness(
        {"shop": toolbox.config_entry()}, {"agents": {"one": {"allow": ["shop.get"]}, "two": {"allow": ["shop.*"]}}}
    )
    async with harness.connect_as(host_kind, "one") as one, harness.connect_as(host_kind, "two") as two:
        result = await one.call("shop.xqzv").result()
        assert result["isError"] is True
        error = result["_meta"]["aggregator/error"]
        assert (error["code"], error["status"], error["tool"]) == ("tool_not_allowed", 403, "shop.xqzv")
        assert error["message"] in result["content"][0]["text"]
        assert not toolbox.calls
        assert "isError" not in await two.call("shop.xqzv").result()
        assert "isError" not in await one.call("shop.get").result()
    assert [call["name"] for call in toolbox.calls] == ["xqzv", "get"]


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_a_hidden_denial_is_an_unknown_tool(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """D5: the same JSON but for the name, in every spelling, also as what was perhaps meant."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"shop": toolbox.config_entry()}, HIDDEN)
    async with harness.connect_as(host_kind, "one") as host:
        for by in (".", "__", "/", ":"):
            hidden, unknown = [await host.call(f"shop{by}{own}").message() for own in ("xqzv", "vzqx")]
            assert answer_without(hidden, f"shop{by}xqzv") == answer_without(unknown, f"shop{by}vzqx")
        nearly = await host.call("shop.xqzvv").error()
        assert "shop.xqzv'" not in json.dumps(nearly)
        assert "xqzv" not in (await host.call("xqzv").error())["data"]["nearest"]
        assert "shop" not in "".join((await host.call("xqzv").error())["data"]["nearest"])
    assert not toolbox.calls


@pytest.mark.parametrize("state", ["ready", "reconnecting", "unavailable", "disabled", "starting"])
async def test_hidden_is_hidden_while_the_server_is_away(config: MakeConfig, state: str) -> None:
    """D5: whether its server is up, down or on its way tells nothing."""
    bare = set()
    for tools in (TOOLS, TOOLS[:1]):
        harness = GatewayHarness(config("shop", timeout=0.05), {"shop": tools}, HIDDEN, down={"shop": state})
        for version in (LEGACY, MODERN):
            for name in ("shop.xqzv", "shop.vzqx", "shop__xqzv", "shop/xqzv", "xqzv"):
                answer = answer_without(await harness.call(harness.host("one", version), name), name)
                bare.add(answer.replace("shop.get", "").replace("shop__get", ""))
    assert len({answer.partition("Did you mean")[0].partition('",')[0] for answer in bare}) == 1, bare


async def test_hidden_is_hidden_before_headers_are_compared(open_harness: OpenHarness) -> None:
    """D5: an argument that a header should repeat is compared for visible tools only."""
    mirrored = {"city": {"type": "string", "x-mcp-header": "City"}}
    toolbox = RecordingToolbox([tool("get", mirrored), tool("xqzv", mirrored)])
    harness = open_harness({"shop": toolbox.config_entry()}, HIDDEN)

    async def post(name: str) -> Json:
        body = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": {"city": "Rome"}, "_meta": ENVELOPE},
        }  # fmt: skip
        headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name}
        async with harness.client("one") as client:
            answer: Json = (await client.post("/mcp", json=body, headers=headers)).json()
        return answer

    assert (await post("shop.get"))["error"]["code"] == -32020
    assert answer_without(await post("shop.xqzv"), "shop.xqzv") == answer_without(await post("shop.vzqx"), "shop.vzqx")


async def test_headers_are_compared_for_bound_names_too(open_harness: OpenHarness) -> None:
    """D12: a plain name means the bound server's tool for the check of headers as it does for the call."""
    toolbox = RecordingToolbox([tool("get", {"city": {"type": "string", "x-mcp-header": "City"}})])
    policies = {"agents": {"one": {"allow": ["shop.*"], "bindings": {"get": "shop"}}}}
    harness = open_harness({"shop": toolbox.config_entry()}, policies)
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get", "arguments": {"city": "Rome"}, "_meta": ENVELOPE},
    }  # fmt: skip
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "get"}
    async with harness.client("one") as client:
        answer = await client.post("/mcp", json=body, headers={**headers, "mcp-param-city": "Oslo"})
        assert answer.json()["error"]["code"] == -32020
        answer = await client.post("/mcp", json=body, headers={**headers, "mcp-param-city": "Rome"})
        assert "result" in answer.json()
    assert len(toolbox.calls) == 1


async def test_a_hidden_tool_does_not_stand_in_the_way_of_a_visible_one(config: MakeConfig) -> None:
    """D4, D5: one tenant's tool must not take a spelling from another tenant's."""
    policies = {
        "tenants": {"north": {"servers": ["a__b"]}, "south": {"servers": ["a"]}},
        "agents": {"one": {"tenant": "north", "allow": ["*"]}},
    }
    for others in ([], [tool("b/get")]):
        harness = GatewayHarness(config("a", "a__b"), {"a": others, "a__b": [tool("get")]}, policies)
        assert "result" in await harness.call(harness.host("one"), "a__b/get"), others


@pytest.mark.parametrize("host_kind", HOST_KINDS)
async def test_a_greeting_names_no_server_of_another_tenant(
    open_harness: OpenHarness, host_kind: tuple[str, str]
) -> None:
    """D4: nothing leaks across tenants, the words at the start included."""
    servers = {name: RecordingToolbox(TOOLS).config_entry(description=f"All of {name}.") for name in ("north", "south")}
    harness = open_harness(servers, NORTH_AND_SOUTH)
    async with harness.connect_as(host_kind, "one") as host:
        greeting = {key: value for key, value in host.greeting.items() if key != "_meta"}
        assert "north" in json.dumps(greeting)
        assert "south" not in json.dumps(greeting)
        assert {one["name"] for one in await host.list()} <= {"north.get", "north.xqzv", "north__get", "north__xqzv"}


async def test_pages_tell_strangers_of_no_server(config: MakeConfig) -> None:
    """D4: what anyone may read from elsewhere and without a key names no server."""
    made = config("north", "south")
    harness = GatewayHarness(made, {}, NORTH_AND_SOUTH)
    web = WebServer(harness.app.gateway, made, harness.app.access, harness.app.report)
    stranger = httpx2.ASGITransport(cast(Any, web.app), client=("203.0.113.5", 4242))
    async with httpx2.AsyncClient(transport=stranger, base_url="http://127.0.0.1") as client:
        for path in ("/", "/healthz", "/readyz"):
            assert "south" not in (await client.get(path)).text, path


async def test_a_denial_while_the_server_is_away(config: MakeConfig) -> None:
    """D5: an agent that may call it hears that it is away, one that may not hears nothing of it."""
    policies = {"agents": {"one": {"allow": ["shop.get"]}, "two": {"allow": ["shop.*"]}}}
    harness = GatewayHarness(config("shop", timeout=0.05), {"shop": TOOLS}, policies, down={"shop": "unavailable"})
    assert error_data(await harness.call(harness.host("two"), "shop.xqzv"))["code"] == "upstream_unavailable"
    assert error_data(await harness.call(harness.host("one"), "shop.get"))["code"] == "upstream_unavailable"
    answer = await harness.call(harness.host("one"), "shop.xqzv")
    assert "unavailable" not in json.dumps(answer)


async def test_a_binding_decides_and_never_falls_back(config: MakeConfig) -> None:
    """D12: the bound server's tool, also while that is away; the other's failure does not matter."""
    tools = {"mall_a": [tool("find.it")], "mall_b": [tool("find.it")]}
    policies = {"agents": {"one": {"allow": ["*"], "bindings": {"find.it": "mall_a"}}, "two": {"allow": ["*"]}}}
    for down in ({}, {"mall_b": "unavailable"}):
        harness = GatewayHarness(config("mall_a", "mall_b"), tools, policies, down=down)
        assert "isError" not in (await harness.call(harness.host("one"), "find.it"))["result"]
        assert harness.sent == [("mall_a", "find.it")]
        assert [one["name"] for one in await harness.listed(harness.host("one"))] == ["mall_a.find.it"]
    harness = GatewayHarness(config("mall_a", "mall_b", timeout=0.05), tools, policies, down={"mall_a": "unavailable"})
    assert error_data(await harness.call(harness.host("one"), "find.it"))["server"] == "mall_a"
    assert error_data(await harness.call(harness.host("one"), "mall_b.find.it"))["code"] == "tool_not_allowed"
    assert "error" in await harness.call(harness.host("two"), "find.it")
    assert harness.sent == []


@pytest.mark.parametrize("host_kind", WEB_HOST_KINDS)
async def test_client_info_has_no_influence(open_harness: OpenHarness, host_kind: tuple[str, str]) -> None:
    """D4: a host that calls itself by another agent's name, or says so in `_meta`, stays who its key says."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"shop": toolbox.config_entry()}, HIDDEN)
    lies = {f"{META}clientInfo": {"name": "two", "version": "0"}, "agent_id": "two", "aggregator/agent_id": "two"}
    async with harness.connect_as(host_kind, "one") as host:
        assert "error" in await host.ask("tools/call", {"name": "shop.xqzv"}, lies).message()
        if not host.modern:
            params = {
                "protocolVersion": host_kind[1],
                "capabilities": {},
                "clientInfo": {"name": "two", "version": "0"},
            }
            await host.ask("initialize", params).message()
            assert "error" in await host.call("shop.xqzv").message()
    assert not toolbox.calls


@pytest.mark.parametrize("host_kind", WEB_HOST_KINDS)
async def test_an_agents_own_spelling_counts_most(
    open_harness: OpenHarness, host_kind: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: more than the frontend's, and than what the host says of itself."""
    monkeypatch.setitem(CLIENT_INFO, "name", "cursor-vscode")
    agents = {"one": {"allow": ["*"], "names": "canonical"}, "two": {"allow": ["*"]}}
    harness = open_harness({"shop": RecordingToolbox(TOOLS).config_entry()}, {"agents": agents})
    for agent, names in (("one", ["shop.get", "shop.xqzv"]), ("two", ["shop__get", "shop__xqzv"])):
        async with harness.connect_as(host_kind, agent) as host:
            assert [one["name"] for one in await host.list()] == names


@pytest.mark.parametrize("header", ["shop.get", "two", "=?base64?c2hvcC5nZXQ=?="])
async def test_a_header_decides_nothing(open_harness: OpenHarness, header: str) -> None:
    """F3: a name in a header that is not the name in the body is -32020, whatever either may be called."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"shop": toolbox.config_entry()}, HIDDEN)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "shop.xqzv", "_meta": ENVELOPE}}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call"}
    async with harness.client("one") as client:
        mismatch = await client.post("/mcp", json=body, headers={**headers, "mcp-name": header})
        assert mismatch.json()["error"]["code"] == -32020
        spoofed = {**headers, "mcp-name": "shop.xqzv", "x-agent-id": "two", "x-forwarded-user": "two"}
        answer = await client.post("/mcp", json=body, headers=spoofed)
        assert answer.json()["error"]["code"] == -32602
    assert not toolbox.calls


async def test_an_agent_that_no_file_knows_may_nothing(open_harness: OpenHarness) -> None:
    """D4: not even what the defaults allow."""
    toolbox = RecordingToolbox(TOOLS)
    harness = open_harness({"shop": toolbox.config_entry()}, {"agents": {"one": {}}, "defaults": {"allow": ["*"]}})
    async with harness.host("stdio", LEGACY, "stranger") as host:
        assert await host.list() == []
        assert "error" in await host.call("shop.get").message()
    assert not toolbox.calls


@pytest.mark.parametrize("policies", [HIDDEN, None], ids=["policies", "open"])
async def test_how_much_others_call_is_not_told(config: MakeConfig, policies: Json | None) -> None:
    """D4: a server that two agents share tells neither what the other one does; where there is one, it helps it."""
    harness = GatewayHarness(config("shop"), {"shop": TOOLS}, policies)
    one, two = harness.host("one"), harness.host("two")
    said = []
    for _ in range(2):
        answer = await harness.call(one, "list_servers", {"server": "shop"})
        said.append(answer["result"]["content"][0]["text"])
        await harness.call(two, "shop.xqzv")
    assert len(harness.sent) == 2
    assert (said[0] == said[1]) is (policies is not None)
    assert ("calls of the last 5 minutes: 1," in said[1]) is (policies is None)
