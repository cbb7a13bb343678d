"""A gateway with a few tools, called through its meta tools."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.gateway.host import Host
from tests.access.gateway_harness import GatewayHarness, make_config, tool
from tests.peers.toolbox import Json

TOOLS: dict[str, list[Json]] = {
    "maps": [
        tool(
            "get_weather",
            {"city": {"type": "string", "description": "Name of the city"}, "days": {"type": "integer"}},
            description="Weather forecast of a city for the next days.",
            annotations={"readOnlyHint": True},
        ),
        tool("drive", {"from": {"type": "string"}, "to": {"type": "string"}}, description="Plan a route by car."),
    ],
    "git": [
        tool("create_issue", {"title": {"type": "string"}}, description="Open an issue in a repository."),
        tool("delete_repo", {"name": {"type": "string"}}, description="Delete a repository for ever."),
    ],
}
SERVERS: dict[str, Json] = {
    "maps": {"command": "never", "description": "Maps and weather"},
    "git": {"command": "never", "description": "Code hosting"},
}


class MetaHarness(GatewayHarness):
    """A `GatewayHarness` with a running search index."""

    async def text(self, host: Host, name: str, **arguments: Any) -> str:
        """Call a meta tool and return its one block of text."""
        result = (await self.call(host, name, arguments))["result"]
        assert result.get("isError") is not True, result
        (block,) = result["content"]
        assert "structuredContent" not in result
        said: str = block["text"]
        return said

    async def read(self, host: Host, name: str, **arguments: Any) -> Json:
        """Call a meta tool and return its text as JSON."""
        read: Json = json.loads(await self.text(host, name, **arguments))
        return read


OpenHarness = Callable[..., Any]


@pytest.fixture
def open_harness(tmp_path: Path) -> OpenHarness:
    """Open a harness: `async with open_harness(policies=..., tools=..., servers=..., **settings) as harness`."""

    @asynccontextmanager
    async def opening(
        policies: object | None = None,
        tools: Mapping[str, list[Json]] = TOOLS,
        servers: Mapping[str, Json] = SERVERS,
        down: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> AsyncIterator[MetaHarness]:
        harness = MetaHarness(make_config(tmp_path, servers, **settings), tools, policies, down=down)
        async with Tasks("the gateway of a test") as tasks:
            tasks.start(harness.app.gateway.run())
            tasks.start(harness.app.updates.run())
            yield harness
            await tasks.cancel()

    return opening
