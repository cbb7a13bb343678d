"""What is refused and how: said openly, or answered as if there were no such thing."""

import json
from typing import Any, Final, cast

import httpx2
import pytest

from aggregator.frontends.server import WebServer
from tests.access.conftest import Configured
from tests.access.desk import LEGACY, MODERN, Desk, of_kind, tool
from tests.access.played import Box
from tests.access.rooms import WAYS, WEB, OpenRoom
from tests.journeys.hosts import ACCEPT, CLIENT_INFO, ENVELOPE, META
from tests.peers.toolbox import Json

# No letter of the second is in any other name: what is near a name does not depend on it.
TOOLS: Final = [tool("get"), tool("xqzv")]
HIDDEN: Final = {"agents": {"one": {"allow": ["shop.get"], "denials": "hidden"}, "two": {"allow": ["shop.*"]}}}
NORTH_AND_SOUTH: Final = {
    "tenants": {"north": {"servers": ["north"]}, "south": {"servers": ["south"]}},
    "agents": {"one": {"tenant": "north", "allow": ["*"]}, "two": {"tenant": "south", "allow": ["*"]}},
}


def told(answer: Json, name: str) -> str:
    """An answer without the name that was asked for and the id."""
    return json.dumps({key: value for key, value in answer.items() if key != "id"}).replace(name, "NAME")


@pytest.mark.parametrize("way", WAYS)
async def test_a_denial_is_a_result_with_a_code(open_room: OpenRoom, way: tuple[str, str]) -> None:
    """D5, F3: 403 and `tool_not_allowed`; nothing is called, and the other agent goes on."""
    box = Box(TOOLS)
    room = open_room(
        {"shop": box.upstream()}, {"agents": {"one": {"allow": ["shop.get"]}, "two": {"allow": ["shop.*"]}}}
    )
    async with room.guest(way, "one") as one, room.guest(way, "two") as two:
        result = await one.call("shop.xqzv").result()
        assert result["isError"] is True
        error = result["_meta"]["aggregator/error"]
        assert (error["code"], error["status"], error["tool"]) == ("tool_not_allowed", 403, "shop.xqzv")
        assert error["message"] in result["content"][0]["text"]
        assert not box.calls
        assert "isError" not in await two.call("shop.xqzv").result()
        assert "isError" not in await one.call("shop.get").result()
    assert [call["name"] for call in box.calls] == ["xqzv", "get"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_hidden_denial_is_an_unknown_tool(open_room: OpenRoom, way: tuple[str, str]) -> None:
    """D5: the same JSON but for the name, in every spelling, also as what was perhaps meant."""
    box = Box(TOOLS)
    room = open_room({"shop": box.upstream()}, HIDDEN)
    async with room.guest(way, "one") as host:
        for by in (".", "__", "/", ":"):
            hidden, unknown = [await host.call(f"shop{by}{own}").message() for own in ("xqzv", "vzqx")]
            assert told(hidden, f"shop{by}xqzv") == told(unknown, f"shop{by}vzqx")
        nearly = await host.call("shop.xqzvv").error()
        assert "shop.xqzv'" not in json.dumps(nearly)
        assert "xqzv" not in (await host.call("xqzv").error())["data"]["nearest"]
        assert "shop" not in "".join((await host.call("xqzv").error())["data"]["nearest"])
    assert not box.calls


@pytest.mark.parametrize("state", ["ready", "reconnecting", "unavailable", "disabled", "starting"])
async def test_hidden_is_hidden_while_the_server_is_away(config: Configured, state: str) -> None:
    """D5: whether its server is up, down or on its way tells nothing."""
    bare = set()
    for tools in (TOOLS, TOOLS[:1]):
        desk = Desk(config("shop", timeout=0.05), {"shop": tools}, HIDDEN, down={"shop": state})
        for version in (LEGACY, MODERN):
            for name in ("shop.xqzv", "shop.vzqx", "shop__xqzv", "shop/xqzv", "xqzv"):
                answer = told(await desk.call(desk.host("one", version), name), name)
                bare.add(answer.replace("shop.get", "").replace("shop__get", ""))
    assert len({answer.partition("Did you mean")[0].partition('",')[0] for answer in bare}) == 1, bare


async def test_hidden_is_hidden_before_headers_are_compared(open_room: OpenRoom) -> None:
    """D5: an argument that a header should repeat is compared for visible tools only."""
    mirrored = {"city": {"type": "string", "x-mcp-header": "City"}}
    box = Box([tool("get", mirrored), tool("xqzv", mirrored)])
    room = open_room({"shop": box.upstream()}, HIDDEN)

    async def post(name: str) -> Json:
        body = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": {"city": "Rome"}, "_meta": ENVELOPE},
        }  # fmt: skip
        headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name}
        async with room.client("one") as client:
            answer: Json = (await client.post("/mcp", json=body, headers=headers)).json()
        return answer

    assert (await post("shop.get"))["error"]["code"] == -32020
    assert told(await post("shop.xqzv"), "shop.xqzv") == told(await post("shop.vzqx"), "shop.vzqx")


async def test_headers_are_compared_for_bound_names_too(open_room: OpenRoom) -> None:
    """D12: a plain name means the bound server's tool for the check of headers as it does for the call."""
    box = Box([tool("get", {"city": {"type": "string", "x-mcp-header": "City"}})])
    policies = {"agents": {"one": {"allow": ["shop.*"], "bindings": {"get": "shop"}}}}
    room = open_room({"shop": box.upstream()}, policies)
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get", "arguments": {"city": "Rome"}, "_meta": ENVELOPE},
    }  # fmt: skip
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "get"}
    async with room.client("one") as client:
        answer = await client.post("/mcp", json=body, headers={**headers, "mcp-param-city": "Oslo"})
        assert answer.json()["error"]["code"] == -32020
        answer = await client.post("/mcp", json=body, headers={**headers, "mcp-param-city": "Rome"})
        assert "result" in answer.json()
    assert len(box.calls) == 1


async def test_a_hidden_tool_does_not_stand_in_the_way_of_a_visible_one(config: Configured) -> None:
    """D4, D5: one tenant's tool must not take a spelling from another tenant's."""
    policies = {
        "tenants": {"north": {"servers": ["a__b"]}, "south": {"servers": ["a"]}},
        "agents": {"one": {"tenant": "north", "allow": ["*"]}},
    }
    for others in ([], [tool("b/get")]):
        desk = Desk(config("a", "a__b"), {"a": others, "a__b": [tool("get")]}, policies)
        assert "result" in await desk.call(desk.host("one"), "a__b/get"), others


@pytest.mark.parametrize("way", WAYS)
async def test_a_greeting_names_no_server_of_another_tenant(open_room: OpenRoom, way: tuple[str, str]) -> None:
    """D4: nothing leaks across tenants, the words at the start included."""
    servers = {name: Box(TOOLS).upstream(description=f"All of {name}.") for name in ("north", "south")}
    room = open_room(servers, NORTH_AND_SOUTH)
    async with room.guest(way, "one") as host:
        greeting = {key: value for key, value in host.greeting.items() if key != "_meta"}
        assert "north" in json.dumps(greeting)
        assert "south" not in json.dumps(greeting)
        assert {one["name"] for one in await host.list()} <= {"north.get", "north.xqzv", "north__get", "north__xqzv"}


async def test_pages_tell_strangers_of_no_server(config: Configured) -> None:
    """D4: what anyone may read from elsewhere and without a key names no server."""
    made = config("north", "south")
    desk = Desk(made, {}, NORTH_AND_SOUTH)
    web = WebServer(desk.app.gateway, made, desk.app.access, desk.app.report)
    stranger = httpx2.ASGITransport(cast(Any, web.app), client=("203.0.113.5", 4242))
    async with httpx2.AsyncClient(transport=stranger, base_url="http://127.0.0.1") as client:
        for path in ("/", "/healthz", "/readyz"):
            assert "south" not in (await client.get(path)).text, path


async def test_a_denial_while_the_server_is_away(config: Configured) -> None:
    """D5: an agent that may call it hears that it is away, one that may not hears nothing of it."""
    policies = {"agents": {"one": {"allow": ["shop.get"]}, "two": {"allow": ["shop.*"]}}}
    desk = Desk(config("shop", timeout=0.05), {"shop": TOOLS}, policies, down={"shop": "unavailable"})
    assert of_kind(await desk.call(desk.host("two"), "shop.xqzv"))["code"] == "upstream_unavailable"
    assert of_kind(await desk.call(desk.host("one"), "shop.get"))["code"] == "upstream_unavailable"
    answer = await desk.call(desk.host("one"), "shop.xqzv")
    assert "unavailable" not in json.dumps(answer)


async def test_a_binding_decides_and_never_falls_back(config: Configured) -> None:
    """D12: the bound server's tool, also while that is away; the other's failure does not matter."""
    tools = {"mall_a": [tool("find.it")], "mall_b": [tool("find.it")]}
    policies = {"agents": {"one": {"allow": ["*"], "bindings": {"find.it": "mall_a"}}, "two": {"allow": ["*"]}}}
    for down in ({}, {"mall_b": "unavailable"}):
        desk = Desk(config("mall_a", "mall_b"), tools, policies, down=down)
        assert "isError" not in (await desk.call(desk.host("one"), "find.it"))["result"]
        assert desk.sent == [("mall_a", "find.it")]
        assert [one["name"] for one in await desk.listed(desk.host("one"))] == ["mall_a.find.it"]
    desk = Desk(config("mall_a", "mall_b", timeout=0.05), tools, policies, down={"mall_a": "unavailable"})
    assert of_kind(await desk.call(desk.host("one"), "find.it"))["server"] == "mall_a"
    assert of_kind(await desk.call(desk.host("one"), "mall_b.find.it"))["code"] == "tool_not_allowed"
    assert "error" in await desk.call(desk.host("two"), "find.it")
    assert desk.sent == []


@pytest.mark.parametrize("way", WEB)
async def test_client_info_has_no_influence(open_room: OpenRoom, way: tuple[str, str]) -> None:
    """D4: a host that calls itself by another agent's name, or says so in `_meta`, stays who its key says."""
    box = Box(TOOLS)
    room = open_room({"shop": box.upstream()}, HIDDEN)
    lies = {f"{META}clientInfo": {"name": "two", "version": "0"}, "agent_id": "two", "aggregator/agent_id": "two"}
    async with room.guest(way, "one") as host:
        assert "error" in await host.ask("tools/call", {"name": "shop.xqzv"}, lies).message()
        if not host.modern:
            params = {"protocolVersion": way[1], "capabilities": {}, "clientInfo": {"name": "two", "version": "0"}}
            await host.ask("initialize", params).message()
            assert "error" in await host.call("shop.xqzv").message()
    assert not box.calls


@pytest.mark.parametrize("way", WEB)
async def test_an_agents_own_spelling_counts_most(
    open_room: OpenRoom, way: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: more than the door's, and than what the host says of itself."""
    monkeypatch.setitem(CLIENT_INFO, "name", "cursor-vscode")
    agents = {"one": {"allow": ["*"], "names": "canonical"}, "two": {"allow": ["*"]}}
    room = open_room({"shop": Box(TOOLS).upstream()}, {"agents": agents})
    for agent, names in (("one", ["shop.get", "shop.xqzv"]), ("two", ["shop__get", "shop__xqzv"])):
        async with room.guest(way, agent) as host:
            assert [one["name"] for one in await host.list()] == names


@pytest.mark.parametrize("header", ["shop.get", "two", "=?base64?c2hvcC5nZXQ=?="])
async def test_a_header_decides_nothing(open_room: OpenRoom, header: str) -> None:
    """F3: a name in a header that is not the name in the body is -32020, whatever either may be called."""
    box = Box(TOOLS)
    room = open_room({"shop": box.upstream()}, HIDDEN)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "shop.xqzv", "_meta": ENVELOPE}}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call"}
    async with room.client("one") as client:
        mismatch = await client.post("/mcp", json=body, headers={**headers, "mcp-name": header})
        assert mismatch.json()["error"]["code"] == -32020
        spoofed = {**headers, "mcp-name": "shop.xqzv", "x-agent-id": "two", "x-forwarded-user": "two"}
        answer = await client.post("/mcp", json=body, headers=spoofed)
        assert answer.json()["error"]["code"] == -32602
    assert not box.calls


async def test_an_agent_that_no_file_knows_may_nothing(open_room: OpenRoom) -> None:
    """D4: not even what the defaults allow."""
    box = Box(TOOLS)
    room = open_room({"shop": box.upstream()}, {"agents": {"one": {}}, "defaults": {"allow": ["*"]}})
    async with room.host("stdio", LEGACY, "stranger") as host:
        assert await host.list() == []
        assert "error" in await host.call("shop.get").message()
    assert not box.calls


@pytest.mark.parametrize("policies", [HIDDEN, None], ids=["policies", "open"])
async def test_how_much_others_call_is_not_told(config: Configured, policies: Json | None) -> None:
    """D4: a server that two agents share tells neither what the other one does; where there is one, it helps it."""
    desk = Desk(config("shop"), {"shop": TOOLS}, policies)
    one, two = desk.host("one"), desk.host("two")
    said = []
    for _ in range(2):
        answer = await desk.call(one, "list_servers", {"server": "shop"})
        said.append(answer["result"]["content"][0]["text"])
        await desk.call(two, "shop.xqzv")
    assert len(desk.sent) == 2
    assert (said[0] == said[1]) is (policies is not None)
    assert ("calls of the last 5 minutes: 1," in said[1]) is (policies is None)
