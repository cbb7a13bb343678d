"""Lists that are too long for one message, and lists that change."""

import json

import pytest

from tests.journeys.conftest import OpenHouse
from tests.journeys.hosts import MODERN, VERSIONS, Posts
from tests.journeys.house import DOORS, House, local_peer, raw_peer, written
from tests.peers.raw import big_tools
from tests.peers.sdk import http_app
from tests.peers.serving import Background, serving

MANY = 3_000
CHANGED = "notifications/tools/list_changed"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, background: Background) -> House:
    """One upstream with 3,000 tools, over 5 MB."""
    path = written(tmp_path_factory.mktemp("crowded"), {"crowd": raw_peer("--many", str(MANY))})
    return House(background, path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("door", DOORS)
async def test_a_list_of_5_mb_comes_in_pages(crowded: House, door: str, version: str) -> None:
    """F1, C5: 3,000 tools: each page under 1 MiB as a whole message, together everything, once, in order."""
    expected = big_tools(MANY)
    assert len(json.dumps(expected)) > 5_000_000
    separator = "__" if door == "stdio" else "."
    names: list[str] = []
    tools = []
    params: dict[str, str] = {}
    async with crowded.host(door, version) as host:
        while True:
            message = await host.ask("tools/list", params).message()
            assert len(json.dumps(message, ensure_ascii=False).encode()) < 2**20
            page = message["result"]
            tools += page["tools"]
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
    assert names == [f"crowd{separator}{tool['name']}" for tool in expected]
    assert [{**tool, "name": ""} for tool in tools] == [{**tool, "name": ""} for tool in expected]


@pytest.mark.parametrize("door", DOORS)
async def test_a_cursor_that_is_not_ours(crowded: House, door: str) -> None:
    """F1: an invalid cursor is -32602 (S/server/utilities/pagination)."""
    async with crowded.host(door, MODERN) as host:
        error = await host.ask("tools/list", {"cursor": "no-such-tool"}).error()
        wrong = await host.ask("tools/list", {"cursor": 7}).error()
    assert (error["code"], wrong["code"]) == (-32602, -32602)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "upstream",
    [
        pytest.param(local_peer(), id="local-modern"),
        pytest.param(raw_peer(), id="stdio-legacy"),
        pytest.param(raw_peer("--version", MODERN), id="stdio-modern"),
    ],
)
async def test_a_new_tool_is_told_and_listed(
    open_house: OpenHouse, door: str, version: str, upstream: dict[str, object]
) -> None:
    """C5, F1: `list_changed` on the session's stream, on stdio, on SSE, and on a 2026-07-28 `subscriptions/listen`."""
    house = open_house({"box": upstream})
    name = "box__grown" if door == "stdio" else "box.grown"
    async with house.host(door, version) as host:
        if host.modern:
            listen = host.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            (ack,) = await host.inbox.named("notifications/subscriptions/acknowledged")
            assert ack["params"]["notifications"] == {"toolsListChanged": True}
            assert ack["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen.id
        elif isinstance(host.wire, Posts):
            host.wire.stand()
            await host.inbox.named("standing")
        host.inbox.messages.clear()
        await host.call("box.grow", {"name": "grown"}).result()
        (told,) = await host.inbox.named(CHANGED)
        if host.modern:
            assert told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen.id
        assert name in [tool["name"] for tool in await host.list()]
        assert (await host.call("box.grown", {"text": "x"}).result())["content"]
        if host.modern:
            await host.wire.cancel(listen)


async def test_a_new_tool_of_an_http_upstream_is_told(background: Background, open_house: OpenHouse) -> None:
    """C5: over Streamable HTTP, a modern upstream tells on the stream the aggregator listens on."""
    address = background.open(serving(http_app()))
    house = open_house({"box": {"type": "http", "url": f"{address}/mcp"}})
    async with house.host("sse", "2025-06-18") as host:
        host.inbox.messages.clear()
        await host.call("box.grow", {"name": "grown"}).result()
        await host.inbox.named(CHANGED)
        assert "box.grown" in [tool["name"] for tool in await host.list()]


async def test_who_does_not_listen_is_not_told(open_house: OpenHouse) -> None:
    """F1: a 2026-07-28 host hears nothing it did not ask for, and an unknown kind is not acknowledged."""
    house = open_house({"box": local_peer()})
    async with house.host("sse", MODERN) as silent, house.host("sse", MODERN) as other:
        listen = silent.ask("subscriptions/listen", {"notifications": {"nonsenseChanged": True}})
        (ack,) = await silent.inbox.named("notifications/subscriptions/acknowledged")
        assert ack["params"]["notifications"] == {}
        other_listen = other.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await other.inbox.named("notifications/subscriptions/acknowledged")
        await other.call("box.grow", {"name": "grown"}).result()
        await other.inbox.named(CHANGED)
        # What was to come on the silent one would have come before this answer.
        await silent.call("box.echo").result()
        assert not [m for m in silent.inbox.messages if m.get("method") == CHANGED]
        for host, call in ((silent, listen), (other, other_listen)):
            await host.wire.cancel(call)
