"""Lists that are too long for one message, and lists that change."""

import json

import pytest

from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.scripted_host import MODERN, VERSIONS, HttpWire
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness, local_entry, raw_stdio_entry, write_config
from tests.peers.raw import big_tools
from tests.peers.sdk import http_app
from tests.peers.serving import BackgroundLoop, serving

MANY = 3_000
CHANGED = "notifications/tools/list_changed"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, background: BackgroundLoop) -> ServerHarness:
    """One upstream with 3,000 tools, over 5 MB."""
    path = write_config(tmp_path_factory.mktemp("crowded"), {"crowd": raw_stdio_entry("--many", str(MANY))})
    return ServerHarness(background, path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_a_list_of_5_mb_comes_in_pages(crowded: ServerHarness, frontend: str, version: str) -> None:
    """F1, C5: 3,000 tools: each page under 1 MiB as a whole message, together everything, once, in order."""
    expected = big_tools(MANY)
    assert len(json.dumps(expected)) > 5_000_000
    separator = "__" if frontend == "stdio" else "."
    names: list[str] = []
    tools = []
    params: dict[str, str] = {}
    async with crowded.host(frontend, version) as host:
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


@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_a_cursor_that_is_not_ours(crowded: ServerHarness, frontend: str) -> None:
    """F1: an invalid cursor is -32602 (S/server/utilities/pagination)."""
    async with crowded.host(frontend, MODERN) as host:
        error = await host.ask("tools/list", {"cursor": "no-such-tool"}).error()
        wrong = await host.ask("tools/list", {"cursor": 7}).error()
    assert (error["code"], wrong["code"]) == (-32602, -32602)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize(
    "upstream",
    [
        pytest.param(local_entry(), id="local-modern"),
        pytest.param(raw_stdio_entry(), id="stdio-legacy"),
        pytest.param(raw_stdio_entry("--version", MODERN), id="stdio-modern"),
    ],
)
async def test_a_new_tool_is_told_and_listed(
    open_harness: OpenHarness, frontend: str, version: str, upstream: dict[str, object]
) -> None:
    """C5, F1: `list_changed` on the session's stream, on stdio, on SSE, and on a 2026-07-28 `subscriptions/listen`."""
    harness = open_harness({"box": upstream})
    name = "box__grown" if frontend == "stdio" else "box.grown"
    async with harness.host(frontend, version) as host:
        if host.modern:
            listen = host.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            (ack,) = await host.inbox.named("notifications/subscriptions/acknowledged")
            assert ack["params"]["notifications"] == {"toolsListChanged": True}
            assert ack["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen.id
        elif isinstance(host.wire, HttpWire):
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


async def test_a_new_tool_of_an_http_upstream_is_told(background: BackgroundLoop, open_harness: OpenHarness) -> None:
    """C5: over Streamable HTTP, a modern upstream tells on the stream the aggregator listens on."""
    address = background.open(serving(http_app()))
    harness = open_harness({"box": {"type": "http", "url": f"{address}/mcp"}})
    async with harness.host("sse", "2025-06-18") as host:
        host.inbox.messages.clear()
        await host.call("box.grow", {"name": "grown"}).result()
        await host.inbox.named(CHANGED)
        assert "box.grown" in [tool["name"] for tool in await host.list()]


async def test_who_does_not_listen_is_not_told(open_harness: OpenHarness) -> None:
    """F1: a 2026-07-28 host hears nothing it did not ask for, and an unknown kind is not acknowledged."""
    harness = open_harness({"box": local_entry()})
    async with harness.host("sse", MODERN) as silent, harness.host("sse", MODERN) as other:
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
