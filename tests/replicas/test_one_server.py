"""A server with `replicas: one` has one process in the whole group, whichever replica is asked, and whatever ends."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import start
from tests.end_to_end.scripted_host import BOUND
from tests.peers.processes import is_alive
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.replicas.group import Group, GroupMember, group
from tests.replicas.travelling import travelling

SERVER: Final = Path(__file__).with_name("one_only_server.py")
HANDSHAKE: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
# Longer than a busy machine keeps a process waiting, so that no test sees a change of owners that it did not cause.
LEASE: Final = "4s"


class Lone:
    """A group with one server that may run once."""

    def __init__(self, replicas: Group, folder: Path) -> None:
        self.group = replicas
        self.folder = folder

    @property
    def urls(self) -> list[str]:
        """Return the addresses of the replicas."""
        return [member.url for member in self.group.members]

    def lines(self) -> list[list[str]]:
        """Return what the server's processes wrote: process id, and what it did."""
        file = self.folder / "log"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def starts(self) -> list[int]:
        """Return the process ids of the server, in the order of their starts; it never ran twice."""
        lines = self.lines()
        assert not [line for line in lines if line[1] == "TWICE"]
        return [int(line[0]) for line in lines if line[1] == "starts"]

    def made(self) -> Counter[str]:
        """Return how often each call was made."""
        return Counter(line[2] for line in self.lines() if line[1] == "do")

    async def owner(self) -> GroupMember:
        """Return the process that runs the server."""
        found: list[GroupMember] = []

        async def known() -> bool:
            for member in self.group.members:
                if not member.runs:
                    continue
                server = (await readiness(member))["servers"]["lone"]
                if server["state"] == "ready" and server.get("runs") == "here":
                    found.append(member)
            return bool(found)

        await until(known, "a replica runs it")
        return found[0]

    async def others(self) -> list[GroupMember]:
        """Return the processes that do not run the server."""
        owner = await self.owner()
        return [member for member in self.group.members if member is not owner]


async def readiness(member: GroupMember) -> Any:
    """Return what a replica says of itself."""
    async with aiohttp.ClientSession() as http, http.get(f"{member.url}/readyz") as answer:
        return await answer.json()


async def call(member: GroupMember, say: str, tool: str = "do") -> str:
    """Call a tool at a replica; return the text of its result."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=BOUND)) as http:
        body = {"name": f"lone.{tool}", "arguments": {"say": say}}
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**body, "_meta": meta}}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": f"lone.{tool}",
        }
        async with http.post(f"{member.url}/mcp", json=message, headers=headers) as answer:
            text = await answer.text()
            if answer.content_type == "text/event-stream":
                text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
            result = json.loads(text)["result"]
            said: str = result["content"][0]["text"]
            return said


@asynccontextmanager
async def lone(folder: Path, storage: str | None = None, count: int = 2, **settings: Any) -> AsyncIterator[Lone]:
    """Give a group that runs, with one server that may run once."""
    content = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), str(folder)], "replicas": "one"}
    servers = {"lone": {**content, **settings}}
    storage = storage or f"sqlite:///{folder / 'shared.db'}"
    async with group(folder, storage, servers, count, balanced=False, replicas={"lease": LEASE}) as replicas:
        yield Lone(replicas, folder)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Lone]:
    async with lone(tmp_path) as found:
        yield found


async def test_both_replicas_answer_and_one_process_runs(two: Lone) -> None:
    owner = await two.owner()
    said = [await call(member, f"hello-{number}") for number, member in enumerate(two.group.members)]
    assert [text.split()[1] for text in said] == ["hello-0", "hello-1"]
    assert {int(text.split()[0]) for text in said} <= set(two.starts())
    (other,) = await two.others()
    assert (await readiness(other))["servers"]["lone"]["runs"] not in ("here", None)
    assert owner is not other


async def test_another_takes_over_when_the_owner_is_killed(two: Lone) -> None:
    owner, (other,) = await two.owner(), await two.others()
    assert await call(other, "before")
    owner.send(signal.SIGKILL)
    await owner.ended()
    assert (await call(other, "after")).endswith("after")
    assert len(two.starts()) == 2
    assert two.made() == {"before": 1, "after": 1}


async def test_the_lease_is_handed_over_at_once_when_the_owner_ends(two: Lone) -> None:
    owner, (other,) = await two.owner(), await two.others()
    waiting = asyncio.create_task(call(other, "during"))
    owner.send(signal.SIGTERM)
    assert (await waiting).endswith("during")
    assert await owner.ended() == 0
    assert (await call(other, "after")).endswith("after")
    assert two.made() == {"during": 1, "after": 1}
    assert not [line for line in other.log if "not renewed in time" in line]


async def test_an_owner_that_is_stopped_loses_its_program_before_another_starts_one(
    tmp_path: Path, postgres_cluster: Cluster
) -> None:
    # On SQLite a process that is stopped in the middle of a write keeps the file locked for all (docs/scaling.md).
    async with lone(tmp_path, postgres_cluster.url(postgres_cluster.new_database())) as two:
        owner, (other,) = await two.owner(), await two.others()
        (first,) = two.starts()
        owner.send(signal.SIGSTOP)

        async def taken_over() -> bool:
            return bool((await readiness(other))["servers"]["lone"]["runs"] == "here")

        # Calls that the stopped process has taken are in doubt; those made after that are not.
        await until(taken_over, "the other replica runs it")
        assert (await call(other, "after")).endswith("after")
        assert len(two.starts()) == 2
        assert not is_alive(first)
        owner.send(signal.SIGCONT)
        assert (await call(owner, "late")).endswith("late")
        assert len(two.starts()) == 2
        assert two.made() == {"after": 1, "late": 1}


async def test_everything_of_a_call_comes_through_at_a_replica_that_does_not_run_it(two: Lone) -> None:
    (other,) = await two.others()
    able: dict[str, Any] = {"elicitation": {"form": {}}, "roots": {}}
    async with travelling([other.url], HANDSHAKE, capabilities=able) as host:
        (tool,) = [one for one in await host.list() if one["name"] == "lone.do"]
        assert tool["x-unknown"] == 1
        result = await host.call("lone.progress", {"say": "x"}, progressToken="p").result()
        assert result["x-unknown"] == {"kept": True}
        assert len(host.inbox.progress("p")) == 2
        (said,) = await host.inbox.named("notifications/message")
        assert said["params"]["data"] == "said"
        asking = host.call("lone.ask", {"say": "your name"})
        (question,) = await host.inbox.named("elicitation/create")
        assert question["params"]["message"].endswith("your name")
        answer = {"action": "accept", "content": {"name": "Ada"}}
        await host.wire.notify({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert json.loads((await asking.result())["content"][0]["text"]) == answer
        host.http.stand()
        await host.ask("resources/subscribe", {"uri": "file:///thing"}).result()
        await host.call("lone.more", {"say": "x"}).result()
        await host.inbox.named("notifications/tools/list_changed")
        await host.inbox.named("notifications/resources/updated")
        await until(lambda: any(line[1] == "more" for line in two.lines()))
        assert "lone.extra" in {one["name"] for one in await host.list()}
        hanging = host.call("lone.hang", {"say": "x"})
        await until(lambda: any(line[1] == "hang" for line in two.lines()))
        await host.wire.cancel(hanging)
        await until(lambda: any(line[1] == "cancelled" for line in two.lines()))
    assert two.starts()


async def test_a_call_under_way_when_the_owner_dies_is_in_doubt_and_never_made_again(two: Lone) -> None:
    owner, (other,) = await two.owner(), await two.others()
    hanging = asyncio.create_task(call(other, "x", "hang"))
    await until(lambda: any(line[1] == "hang" for line in two.lines()))
    owner.send(signal.SIGKILL)
    assert "whether it took effect is unknown" in await hanging
    assert await call(other, "after")
    assert len([line for line in two.lines() if line[1] == "hang"]) == 1


async def test_a_single_process_runs_it_itself_and_starts_again_at_once(tmp_path: Path) -> None:
    async with lone(tmp_path, count=1) as found:
        (member,) = found.group.members
        assert (await call(member, "first")).endswith("first")
        member.send(signal.SIGTERM)
        await member.ended()
        found.group.members.clear()
        again = await found.group.add()
        assert (await call(again, "second")).endswith("second")
        assert len(found.starts()) == 2


async def test_stdio_processes_of_several_hosts_share_it(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), str(tmp_path)], "replicas": "one"}
    content = {
        "mcpServers": {"lone": server},
        "storage": f"sqlite:///{tmp_path / 'shared.db'}",
        "expose": "all",
        "replicas": {"lease": LEASE},
    }
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps(content))
    config.chmod(0o600)
    said = []
    async with asyncio.timeout(BOUND):
        first, second = [await start("stdio", "--config", str(config)) for _ in range(2)]
        for process in (first, second):
            process.stdin.write(_HELLO)
            await _answer(process, 0)
        for process in (first, second):
            process.stdin.write(_CALL)
            said.append((await _answer(process, 1))["result"]["content"][0]["text"])
        for process in (first, second):
            process.stdin.close()
            await process.communicate()
    file = tmp_path / "log"
    lines = [line.split() for line in file.read_text().splitlines()]
    assert not [line for line in lines if line[1] == "TWICE"]
    assert {text.split()[0] for text in said} <= {line[0] for line in lines if line[1] == "starts"}


_HELLO: Final = (
    b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", '
    b'"capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}}\n'
)
_CALL: Final = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lone.do", "arguments": {"say": "x"}}}\n'
)


async def _answer(process: Program, number: int) -> Any:
    """Return the answer to a request."""
    while True:
        message = json.loads(await process.stdout.readline())
        if message.get("id") == number and "method" not in message:
            return message


async def test_over_postgresql_it_survives_its_owner_and_a_restart_of_the_database(
    tmp_path: Path, postgres_cluster: Cluster
) -> None:
    async with lone(tmp_path, postgres_cluster.url(postgres_cluster.new_database())) as found:
        owner, (other,) = await found.owner(), await found.others()
        assert (await call(other, "before")).endswith("before")
        owner.send(signal.SIGKILL)
        await owner.ended()
        assert (await call(other, "killed")).endswith("killed")
        await asyncio.to_thread(postgres_cluster.restart)
        assert (await call(other, "restarted")).endswith("restarted")
        assert found.made() == {"before": 1, "killed": 1, "restarted": 1}
        assert found.starts()
