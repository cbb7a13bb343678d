"""The meta tools while servers start: their list waits for none, and what they find waits for those of the list."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.domain.principal import Principal
from tests.faults.app_harness import AppHarness, text_of
from tests.faults.test_cached_catalog import GatedServer
from tests.polling import until


@asynccontextmanager
async def starting(gated: GatedServer, **settings: Any) -> AsyncIterator[AppHarness]:
    """A gateway whose one server does not answer before its gate is opened; a list may wait for minutes."""
    app = build_app(Config(servers=(gated.config(),), startup_wait=600, straggler_wait=600, **settings))
    async with app.running():
        yield AppHarness(app)


async def names(harness: AppHarness) -> list[str]:
    return [tool["name"] for tool in json.loads(bytes((await harness.ask("tools/list", {}))["tools"]))]


async def test_the_list_of_meta_tools_waits_for_no_server(tmp_path: Path) -> None:
    """Proves: F5, D2. Hosts such as Codex begin without tools that are not listed within a second."""
    gated = GatedServer(tmp_path)
    async with starting(gated, expose="search") as harness:
        assert "search_tools" in await names(harness)
        searching = asyncio.ensure_future(harness.call("search_tools", query="echo"))
        upstream = harness.upstream("shop")
        await until(lambda: upstream.holds_first("tool"), "the server is starting")
        assert not searching.done()
        gated.open()
        assert "shop.echo" in text_of(await searching)


@pytest.mark.parametrize("settings", [{"expose": "all"}, {"expose": "search", "pinned": ("shop.*",)}])
async def test_a_list_with_tools_of_servers_waits_for_them(tmp_path: Path, settings: dict[str, Any]) -> None:
    gated = GatedServer(tmp_path)
    async with starting(gated, **settings) as harness:
        listing = asyncio.ensure_future(names(harness))
        await until(lambda: harness.upstream("shop").holds_first("tool"), "the server is starting")
        assert not listing.done()
        gated.open()
        assert "shop.echo" in await listing


async def test_queries_of_v1_wait_as_the_meta_tools_do(tmp_path: Path) -> None:
    """Proves: F5. The list, a search of it, and the tools that a message asks for."""
    gated = GatedServer(tmp_path)
    async with starting(gated, expose="search") as harness:
        gateway, principal = harness.app.gateway, Principal("local")
        lists = [asyncio.ensure_future(gateway.tools(principal, query=query)) for query in (None, "echo")]
        matching = asyncio.ensure_future(gateway.match_intent(principal, "shop.echo"))
        upstream = harness.upstream("shop")
        await until(lambda: upstream.holds_first("tool"), "the server is starting")
        assert not any(one.done() for one in (*lists, matching))
        gated.open()
        for found in (*await asyncio.gather(*lists), (await matching).tools):
            assert "shop.echo" in [tool.name for tool in found]
