"""Large results at every frontend, as the SDK's own client and callers of `/v1` get them from a process."""

import asyncio
from pathlib import Path
from typing import Final

import httpx2
import mcp_types as types
import pytest

from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import BOUND, VERSIONS
from tests.end_to_end.server_harness import FRONTENDS, local_entry, write_config
from tests.end_to_end.test_sdk_hosts import connected
from tests.kept_results.conftest import HANDLE
from tests.kept_results.structured_peer import ROWS
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

SERVERS: Final[Json] = {"here": local_entry(), "rows": {"target": "tests.kept_results.structured_peer:build"}}
LONG: Final = "\n".join(f"line {number} of a long report, with words" for number in range(5_000))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    return write_config(folder, SERVERS, storage=f"sqlite:///{folder}/kept.db", results={"direct": True})


@pytest.fixture(scope="module")
def url(background: BackgroundLoop, config: Path) -> str:
    """A process that serves all tests of the module."""
    return background.open(serving(config)).url


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_an_sdk_host_reads_on(config: Path, url: str, frontend: str, version: str) -> None:
    """It is shown the beginning, reads a page by the meta tool, and the whole as a resource."""
    name = "here__echo" if frontend == "stdio" else "here.echo"
    async with asyncio.timeout(BOUND), connected(frontend, version, config, url) as session:
        assert "read_result" in [tool.name for tool in (await session.list_tools()).tools]
        # A call that was made before is sent without a task.
        for _ in range(2):
            await session.call_tool(name, {"text": "small"})
        result = await session.call_tool(name, {"text": LONG})
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        (link,) = [block for block in result.content if isinstance(block, types.ResourceLink)]
        assert sum(map(len, texts)) < len(LONG) / 10
        found = HANDLE.search(texts[-1])
        assert found is not None
        page = await session.call_tool("read_result", {"handle": found[0], "grep": "line 4321 of"})
        assert "line 4321 of a long report" in str(page.content)
        whole = (await session.read_resource(str(link.uri))).contents[0]
        assert isinstance(whole, types.TextResourceContents)
        assert len(whole.text) > len(LONG)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_an_sdk_host_has_the_result_that_a_schema_promised(
    config: Path, url: str, frontend: str, version: str
) -> None:
    """The client checks it against the schema that was listed, and raises where it does not fit."""
    name = "rows__rows" if frontend == "stdio" else "rows.rows"
    async with asyncio.timeout(BOUND), connected(frontend, version, config, url) as session:
        listed = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert listed[name].output_schema is not None
        for _ in range(2):
            result = await session.call_tool(name, {})
            assert result.structured_content == {"rows": ROWS}
            text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
            assert len(text) < 10_000
            assert HANDLE.search(text) is not None


async def test_a_caller_of_v1_reads_on(url: str) -> None:
    """The text of the message has the beginning and the handle; `read_result` is called like other meta tools."""

    async def said(name: str, **arguments: object) -> str:
        body = {"tool_call": {"name": name, "arguments": arguments}}
        answer = (await client.post(f"{url}/v1/tool_calls", json=body)).json()
        text: str = answer["content"]
        return text

    async with asyncio.timeout(BOUND), httpx2.AsyncClient(verify=False) as client:
        beginning = await said("here.echo", text=LONG)
        assert len(beginning) < len(LONG) / 10
        assert "aggregator://" not in beginning
        found = HANDLE.search(beginning)
        assert found is not None
        assert "line 4321 of a long report" in await said("read_result", handle=found[0], grep="line 4321 of")
