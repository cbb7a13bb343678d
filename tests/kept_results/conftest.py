"""A gateway with a database, and a server whose tools answer with as much as a test wants."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.gateway.host import Host
from tests.access.gateway_harness import GatewayHarness, make_config, tool
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

SCHEMA: Final = {"type": "object", "properties": {"items": {"type": "array"}}}
TOOLS: Final = {"shop": [tool("orders"), tool("stock", outputSchema=SCHEMA)]}
HANDLE: Final = re.compile(r"agr_[A-Za-z0-9_-]{24}")
CANARY: Final = "canary-7f3a91"
# Some 40,000 tokens.
ITEMS: Final = [{"id": number, "name": f"{CANARY} order {number}"} for number in range(3_000)]
LONG: Final = json.dumps(ITEMS, indent=1)


class LargeHarness(GatewayHarness):
    """A `GatewayHarness` whose server answers with `answered`."""

    answered: Json

    def answer_with(self, **result: Any) -> None:
        """Have every tool answer with a result."""

        async def answer(params: Json) -> Json:
            return result

        self.fake_upstreams["shop"].answer = answer

    async def result(self, host: Host, name: str, arguments: Json | None = None) -> Json:
        """Call a tool and return its result."""
        found: Json = (await self.call(host, name, arguments))["result"]
        return found

    async def page(self, host: Host, handle: str, **more: Any) -> str:
        """Read a page of a kept result."""
        result = await self.result(host, "read_result", {"handle": handle, **more})
        assert result.get("isError") is not True, result
        text: str = result["content"][0]["text"]
        return text


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def handle_of(result: Json) -> str:
    """Return the one handle that a result names."""
    found = set(HANDLE.findall(json.dumps(result)))
    assert len(found) == 1, found
    return str(found.pop())


OpenLarge = Callable[..., AbstractAsyncContextManager[LargeHarness]]


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    """A background loop for the process of a module."""
    with BackgroundLoop() as running:
        yield running


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/kept.db"


@pytest.fixture
def open_large(tmp_path: Path, storage: str) -> OpenLarge:
    """Open a gateway over the database of the test; several are replicas of each other.

    Tools called by their own names are shown in part too: `test_roads.py` has what counts otherwise.
    """

    @asynccontextmanager
    async def opened(
        policies: object | None = None, storage: str | None = storage, **settings: Any
    ) -> AsyncIterator[LargeHarness]:
        settings["results"] = {"direct": True, **settings.get("results", {})}
        config = make_config(tmp_path, {"shop": {"command": "played"}}, startup_wait=0.1, **settings)
        async with LargeHarness(config, TOOLS, policies, storage) as harness, harness.app.database:
            harness.answer_with(content=[text_block(LONG)])
            yield harness

    return opened
