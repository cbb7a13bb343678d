"""Real hosts: the SDK's own client on every frontend, in every era, the aggregator a process of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ToolsListChanged

from tests.end_to_end.programs import environment, serving
from tests.end_to_end.scripted_host import BOUND, CLIENT_INFO, MODERN, VERSIONS
from tests.end_to_end.server_harness import FRONTENDS, ROOT, local_entry, raw_stdio_entry, write_config
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import PIXEL, REFUSAL_CODE, REFUSAL_DATA
from tests.tool_lists import of_servers

SERVERS: Final = {
    "raw": raw_stdio_entry("--version", "2024-11-05"),
    "modern": raw_stdio_entry("--version", MODERN),
    "here": {**local_entry(), "on_new": "show"},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # The first list has every server also where the machine is busy, and one of them comes seconds after the others.
    return write_config(tmp_path_factory.mktemp("hosts"), SERVERS, startup_wait="15s", straggler_wait="15s")


@pytest.fixture(scope="module")
def url(background: BackgroundLoop, config: Path) -> str:
    """A process that serves all tests of the module."""
    return background.open(serving(config)).url


@asynccontextmanager
async def connected(frontend: str, version: str, config: Path, url: str) -> AsyncIterator[ClientSession]:
    """A session at a frontend of a process, its revision pinned."""
    args = ["-m", "aggregator", "stdio", "--config", str(config)]
    program = StdioServerParameters(command=sys.executable, args=args, cwd=ROOT, env=environment())
    transports: dict[str, Callable[[], Any]] = {
        "stdio": lambda: stdio_client(program),
        "sse": lambda: sse_client(f"{url}/sse"),
        "http": lambda: streamable_http_client(f"{url}/mcp"),
    }
    async with transports[frontend]() as streams, ClientSession(*streams) as session:
        await greet(session, version)
        yield session


async def greet(session: ClientSession, version: str) -> None:
    """Send `initialize` with exactly this revision, or the modern opening; the client alone would take its latest."""
    if version == MODERN:
        await session.discover()
    else:
        info = types.Implementation.model_validate(CLIENT_INFO)
        params = types.InitializeRequestParams(
            protocol_version=version, capabilities=types.ClientCapabilities(), client_info=info
        )
        result = await session.send_request(types.InitializeRequest(params=params), types.InitializeResult)
        session.adopt(result)
        await session.send_notification(types.InitializedNotification())
    assert session.protocol_version == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_an_sdk_host_at_a_frontend_of_a_process(
    config: Path, url: str, key: str, frontend: str, version: str
) -> None:
    """F1, E1, E6: list, call, structured output, images, progress, errors, cancellation: by the SDK's own client."""
    separator = "__" if frontend == "stdio" else "."
    async with asyncio.timeout(BOUND), connected(frontend, version, config, url) as session:
        names = of_servers(tool.name for tool in (await session.list_tools()).tools)
        assert {name.partition(separator)[0] for name in names} == SERVERS.keys()
        for server in SERVERS:
            name = f"{server}{separator}"
            assert f"{name}echo" in names
            measured = await session.call_tool(f"{name}measure", {"length": 2})
            assert measured.structured_content == {"metres": 2.0, "unit": "m"}
            (image,) = (await session.call_tool(f"{name}picture")).content
            assert isinstance(image, types.ImageContent)
            assert image.data == PIXEL
            assert (await session.call_tool(f"{name}refuse")).is_error
            with pytest.raises(Exception, match="declines") as caught:
                await session.call_tool(f"{name}decline")
            assert (getattr(caught.value, "code", None), getattr(caught.value, "data", None)) == (
                REFUSAL_CODE,
                REFUSAL_DATA,
            )
            await progress(session, name, f"p-{key}")
            await cancellation(session, name, f"c-{key}")


async def progress(session: ClientSession, name: str, key: str) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        await heard.put(message)

    call = asyncio.create_task(session.call_tool(f"{name}steps", {"key": key, "count": 2}, progress_callback=hear))
    assert [await heard.get(), await heard.get()] == [f"{key} 1", f"{key} 2"]
    assert not call.done()
    await session.call_tool(f"{name}release", {"key": key})
    assert not (await call).is_error


async def cancellation(session: ClientSession, name: str, key: str) -> None:
    call = asyncio.create_task(session.call_tool(f"{name}hold", {"key": key}))
    await session.call_tool(f"{name}witness", {"entry": f"started {key}"})
    call.cancel()
    await asyncio.wait([call])
    await session.call_tool(f"{name}witness", {"entry": f"cancelled {key}"})


@pytest.mark.parametrize("mode", ["auto", "legacy", MODERN])
async def test_the_client_class_with_one_url(url: str, mode: str) -> None:
    """F1, E3: `mcp.Client(url)`, as its documentation has it, in every mode."""
    async with asyncio.timeout(BOUND), Client(f"{url}/mcp", mode=mode) as client:
        names = of_servers(tool.name for tool in (await client.list_tools()).tools)
        assert {name.partition(".")[0] for name in names} == SERVERS.keys()
        assert not (await client.call_tool("here.echo", {"n": 1})).is_error


async def test_the_client_listens_for_changes(url: str) -> None:
    """C5, F1: the SDK's own `subscriptions/listen` at a process."""
    names: list[str] = []
    async with (
        asyncio.timeout(BOUND),
        Client(f"{url}/mcp", mode=MODERN) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        await client.call_tool("here.grow", {"name": "grown"})
        async for event in events:
            # The first may still speak of a server that came up.
            assert isinstance(event, ToolsListChanged)
            names = [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]
            if "here.grown" in names:
                break
    assert "here.grown" in names
