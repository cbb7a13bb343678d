"""The whole program on a real server: a minute without it stops neither calls nor the process, and no row is lost."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.end_to_end.scripted_host import NO_TLS
from tests.operating.program_harness import server
from tests.peers.toolbox import Json
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.replicas.group import GroupMember, group
from tests.replicas.travelling import TravellingHost, travelling

SERVERS: Final = {"srv": server()}
VERSION: Final = "2026-07-28"


async def ready_page(member: GroupMember) -> Json:
    async with httpx2.AsyncClient(verify=NO_TLS) as client:
        page: Json = (await client.get(f"{member.url}/readyz")).json()
    return page


async def is_away(member: GroupMember) -> bool:
    """Return whether the health page says that the audit's database cannot be used."""
    said = str((await ready_page(member)).get("audit"))
    return any(words in said for words in ("cannot be used now", "Too much waits", "has not answered"))


async def call(host: TravellingHost) -> Any:
    return await host.call("srv__who", {}).result()


async def is_pinned(member: GroupMember) -> None:
    """Wait until what the server says is pinned: what cannot be pinned is held."""
    await until(lambda: "pinned as first seen" in "".join(member.log), "the tools are pinned")


def rows(cluster: Cluster, database: str) -> int:
    return int(cluster.sql("SELECT count(*) FROM mcp_tool_call_log", database))


def rows_beside() -> int:
    """Return the number of calls in files that a program keeps for its database."""
    files = Path(os.environ["XDG_DATA_HOME"]).rglob("*.growing")
    return sum(file.read_bytes().count(b'["call"') for file in files)


@pytest.mark.parametrize("how", ["stopped", "hanging"])
async def test_calls_go_on_without_the_database(
    tmp_path: Path, postgres_cluster: Cluster, postgres_database: str, how: str
) -> None:
    """Proves: D9. Each has its row afterwards, and the health page tells of it meanwhile."""
    url = postgres_cluster.url(postgres_database)
    async with group(tmp_path, url, SERVERS, 1, balanced=False) as running:
        (member,) = running.members
        async with travelling([member.url], VERSION) as host:
            made = 0

            async def called(count: int = 1) -> None:
                nonlocal made
                for _ in range(count):
                    await call(host)
                    made += 1

            async def back() -> bool:
                return not await is_away(member)

            await called(5)
            await is_pinned(member)
            await asyncio.to_thread(postgres_cluster.stop if how == "stopped" else postgres_cluster.freeze)
            try:
                await called(20)
                await until(lambda: is_away(member), "the health page has the database away")
                assert (await ready_page(member))["ready"] is True
                await called(5)
            finally:
                await asyncio.to_thread(postgres_cluster.start if how == "stopped" else postgres_cluster.thaw)
            await until(back, "the health page has the database back")
            await called()
            await until(lambda: rows(postgres_cluster, postgres_database) == made, "every call has its row")
        log = "".join(member.log)
        assert "Traceback" not in log, log


async def test_a_kill_in_an_outage_loses_no_row(
    tmp_path: Path, postgres_cluster: Cluster, postgres_database: str
) -> None:
    """Proves: D9. The rows of the outage are beside the database within a moment; the next process adds them."""
    url = postgres_cluster.url(postgres_database)
    async with group(tmp_path, url, SERVERS, 1, balanced=False) as running:
        (member,) = running.members
        async with travelling([member.url], VERSION) as host:
            for _ in range(5):
                await call(host)
            await until(lambda: rows(postgres_cluster, postgres_database) == 5, "they are written")
            await is_pinned(member)
            await asyncio.to_thread(postgres_cluster.stop)
            try:
                for _ in range(20):
                    await call(host)

                await until(lambda: rows_beside() == 20, "they are put aside")
                member.send(signal.SIGKILL)
                await member.ended()
                running.members.clear()
            finally:
                await asyncio.to_thread(postgres_cluster.start)
        await running.add()
        await until(lambda: rows(postgres_cluster, postgres_database) == 25, "every call has its row")


async def test_strict_refuses_what_it_cannot_record(
    tmp_path: Path, postgres_cluster: Cluster, postgres_database: str
) -> None:
    """Proves: D9. In words, and only while the database is away."""
    url = postgres_cluster.url(postgres_database)
    audit = {"durability": "strict"}
    async with group(tmp_path, url, SERVERS, 1, balanced=False, audit=audit) as running:
        (member,) = running.members
        async with travelling([member.url], VERSION) as host:
            assert not (await call(host)).get("isError")
            await is_pinned(member)
            await asyncio.to_thread(postgres_cluster.stop)
            refused = await call(host)
            assert refused["isError"]
            assert "the audit log cannot be written" in str(refused)
            await asyncio.to_thread(postgres_cluster.start)

            async def goes_again() -> bool:
                return not (await call(host)).get("isError")

            await until(goes_again)
        log = "".join(member.log)
        assert "Traceback" not in log, log


async def test_a_start_without_the_database_waits_for_it(
    tmp_path: Path, postgres_cluster: Cluster, postgres_database: str
) -> None:
    """The process is there, refuses what needs keys, and says why; it is ready once the database is."""
    url = postgres_cluster.url(postgres_database)
    await asyncio.to_thread(postgres_cluster.stop)
    async with group(tmp_path, url, SERVERS, 1, balanced=False, waits=False) as running:
        (member,) = running.members
        page = await ready_page(member)
        assert page["ready"] is False
        assert "cannot be used now" in page["keys"]
        await asyncio.to_thread(postgres_cluster.start)

        async def is_ready() -> bool:
            return bool((await ready_page(member))["ready"])

        await until(is_ready)
        async with travelling([member.url], VERSION) as host:
            assert not (await call(host)).get("isError")
