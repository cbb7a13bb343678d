"""A limit of 60 calls a minute at three processes of `aggregator serve` on one PostgreSQL."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp

from tests.end_to_end.programs import run
from tests.peers.serving import serving
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.replicas.group import group
from tests.replicas.travelling import travelling
from tests.server_requests.asking_server_web import AskingWebServer

LIMIT: Final = 60
COUNT: Final = 3
# docs/limits.md: the largest part of a limit that one replica is ahead of the database.
SLICE: Final = LIMIT // (4 * COUNT)
POLICY: Final = f"agents: {{one: {{allow: [server:web], limits: {{web.note: {{per_minute: {LIMIT}}}}}}}}}"


async def _lets_in(url: str, key: str) -> bool:
    headers = {"authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{url}/v1/tools") as answer:
        return answer.status == 200


async def _let_through(url: str, key: str, calls: int) -> int:
    """Make calls at one replica, all at once; return how many were let through."""
    async with travelling([url], "2025-11-25", key) as host:
        asked = [host.call("web.note", {"entry": f"{number}"}) for number in range(calls)]
        results = [await one.result() for one in asked]
    refused = [result["_meta"]["aggregator/error"] for result in results if result.get("isError")]
    assert {error["code"] for error in refused} <= {"limit_reached"}
    assert all(1 <= error["retry_after"] <= LIMIT for error in refused)
    return calls - len(refused)


async def test_sixty_a_minute_are_sixty_over_three_processes_one_of_them_killed(
    tmp_path: Path, postgres_cluster: Cluster
) -> None:
    """B6: all at once at each; what a killed process let through counts on."""
    storage = postgres_cluster.url(postgres_cluster.new_database())
    async with serving(AskingWebServer("legacy")) as url:
        servers = {"web": {"type": "http", "url": f"{url}/mcp"}}
        async with group(tmp_path, storage, servers, COUNT, balanced=False, policies={"all.yaml": POLICY}) as replicas:
            made = await run("keys", "new", "one", "--config", str(replicas.config))
            key = made.out.strip()
            first = replicas.members[0]
            for member in replicas.members:
                await until(partial(_lets_in, member.url, key), "the key is known")
            many = await asyncio.gather(*(_let_through(member.url, key, LIMIT) for member in replicas.members))
            # They have just started: one may have been there a moment before the others.
            assert LIMIT <= sum(many) <= LIMIT + LIMIT // 4 + COUNT - 1
            first.send(signal.SIGKILL)
            await replicas.remove(first)
            new = await replicas.add()
            await until(partial(_lets_in, new.url, key), "the key is known")
            assert await _let_through(new.url, key, LIMIT) <= SLICE
