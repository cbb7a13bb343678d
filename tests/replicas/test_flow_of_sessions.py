"""Sessions under flow rules, whose requests go to any replica: what a session is, is said by what it did first."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.peers.serving import serving
from tests.replicas.chaos import CountingServer
from tests.replicas.sharing import Replica, TurningHost, sharing, turning_host

RULES: Final = {
    "labels": {"untrusted": ["reads.*"], "outward": ["sends.*"]},
    "flow": [{"after": "untrusted", "calls": "outward", "then": "deny"}],
    "agents": {"local": {"allow": ["reads.*", "sends.*"]}},
}


@asynccontextmanager
async def two_replicas(folder: Path) -> AsyncIterator[list[Replica]]:
    """Give two replicas whose key has read something untrusted."""
    async with serving(CountingServer()) as url, turning_host() as reader:
        servers = {name: {"type": "http", "url": f"{url}/mcp"} for name in ("reads", "sends")}
        async with sharing(folder, servers, 2, policies={"flow.yaml": json.dumps(RULES)}) as shared:
            one = shared.running[0].url
            await reader.greet(one)
            await reader.ask(one, "tools/list")
            assert not (await reader.call(one, "reads.do", {"say": "x"})).get("isError")
            assert await refused(reader, one)
            yield shared.running


async def refused(host: TurningHost, at: str) -> bool:
    result = await host.call(at, "sends.do", {"say": "x"})
    assert not result.get("isError") or result["_meta"]["aggregator/error"]["code"] == "flow_denied", result
    return bool(result.get("isError"))


@pytest.mark.parametrize("back", [False, True], ids=["opened-there", "opened-elsewhere"])
async def test_a_list_makes_a_session_a_conversation_of_its_own_everywhere(tmp_path: Path, back: bool) -> None:
    async with two_replicas(tmp_path) as (one, two), turning_host() as host:
        await host.greet((two if back else one).url)
        await host.ask(one.url, "tools/list")
        for at in (two, one, two):
            assert not await refused(host, at.url)


async def test_a_call_before_the_list_makes_it_one_with_its_key_everywhere(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (one, two), turning_host() as host:
        await host.greet(one.url)
        assert await refused(host, two.url)
        await host.ask(one.url, "tools/list")
        for at in (one, two, one):
            assert await refused(host, at.url)


async def test_other_lists_than_of_tools_do_not_count(tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (one, two), turning_host() as host:
        await host.greet(one.url)
        for method in ("prompts/list", "resources/list"):
            await host.ask(one.url, method)
        await host.ask(one.url, "tools/list", {"cursor": "no such cursor"})
        for at in (one, two):
            assert await refused(host, at.url)
