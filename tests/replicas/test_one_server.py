"""A server that must run once, as docs/scaling.md shows it: behind an aggregator of its own."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import start
from tests.end_to_end.scripted_host import BOUND
from tests.end_to_end.server_harness import ROOT
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.replicas.group import Group, GroupMember, group
from tests.replicas.travelling import travelling

SERVER: Final = Path(__file__).with_name("one_only_server.py")
HANDSHAKE: Final = "2025-11-25"
MODERN: Final = "2026-07-28"


def shown() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configurations on the page: of the aggregator that runs the server, and of the replicas."""
    page = (ROOT / "docs" / "scaling.md").read_text()
    (section,) = re.findall(r"^## A server that must run once\n(.*?)(?=^## )", page, re.DOTALL | re.MULTILINE)
    own, replicas = (json.loads(one) for one in re.findall(r"^```json\n(.*?)^```", section, re.DOTALL | re.MULTILINE))
    return own, replicas


class Lone:
    """Two replicas, and the aggregator that runs their server; `servers` is how they reach it."""

    def __init__(self, own: Group, replicas: Group, servers: dict[str, Any], folder: Path) -> None:
        self.own = own
        self.replicas = replicas.members
        self.servers = servers
        self._folder = folder

    def lines(self) -> list[list[str]]:
        """Return what the server's processes wrote: process id, and what it did."""
        file = self._folder / "log"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def starts(self) -> list[int]:
        """Return the process ids of the server, in the order of their starts; it never ran twice."""
        lines = self.lines()
        assert not [line for line in lines if line[1] == "TWICE"]
        return [int(line[0]) for line in lines if line[1] == "starts"]


async def call(member: GroupMember, say: str, tool: str = "do") -> str:
    """Call a tool at a replica; return the text of its result."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=BOUND)) as http:
        body = {"name": f"notes.{tool}", "arguments": {"say": say}}
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**body, "_meta": meta}}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": f"notes.{tool}",
        }
        async with http.post(f"{member.url}/mcp", json=message, headers=headers) as answer:
            text = await answer.text()
            if answer.content_type == "text/event-stream":
                text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
            result = json.loads(text)["result"]
            said: str = result["content"][0]["text"]
            return said


@asynccontextmanager
async def lone(folder: Path, shared: str) -> AsyncIterator[Lone]:
    """Give what the page shows; the command of the server and the port are those of the test."""
    own, replicas = shown()
    program = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), str(folder)]}
    # It adds a tool while it runs.
    one = {name: {**entry, **program, "on_new": "show"} for name, entry in own.pop("mcpServers").items()}
    storage = f"sqlite:///{folder / 'own.db'}"
    async with group(folder / "own", storage, one, 1, balanced=False, **own) as running:
        found = json.dumps(replicas["mcpServers"])
        (address,) = {urlsplit(url).netloc for url in re.findall(r'"url": "(.*?)"', found)}
        servers = json.loads(found.replace(address, urlsplit(running.members[0].url).netloc))
        servers = {name: {**entry, "on_new": "show"} for name, entry in servers.items()}
        async with group(folder / "replicas", shared, servers, 2, balanced=False) as two:
            yield Lone(running, two, servers, folder)


@pytest.fixture
async def two(tmp_path: Path, postgres_cluster: Cluster) -> AsyncIterator[Lone]:
    async with lone(tmp_path, postgres_cluster.url(postgres_cluster.new_database())) as found:
        yield found


async def test_everything_of_a_call_comes_through(two: Lone) -> None:
    able: dict[str, Any] = {"elicitation": {"form": {}}, "roots": {}}
    async with travelling([two.replicas[1].url], HANDSHAKE, capabilities=able) as host:
        (tool,) = [one for one in await host.list() if one["name"] == "notes.do"]
        assert tool["x-unknown"] == 1
        result = await host.call("notes.progress", {"say": "x"}, progressToken="p").result()
        assert result["x-unknown"] == {"kept": True}
        assert len(host.inbox.progress("p")) == 2
        (said,) = await host.inbox.named("notifications/message")
        assert said["params"]["data"] == "said"
        asking = host.call("notes.ask", {"say": "your name"})
        (question,) = await host.inbox.named("elicitation/create")
        assert question["params"]["message"].endswith("your name")
        answer = {"action": "accept", "content": {"name": "Ada"}}
        await host.wire.notify({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert json.loads((await asking.result())["content"][0]["text"]) == answer
        host.http.stand()
        await host.ask("resources/subscribe", {"uri": "file:///thing"}).result()
        await host.call("notes.more", {"say": "x"}).result()
        await host.inbox.named("notifications/tools/list_changed")
        await host.inbox.named("notifications/resources/updated")
        await until(lambda: any(line[1] == "more" for line in two.lines()))
        assert "notes.extra" in {one["name"] for one in await host.list()}
        hanging = host.call("notes.hang", {"say": "x"})
        await until(lambda: any(line[1] == "hang" for line in two.lines()))
        await host.wire.cancel(hanging)
        await until(lambda: any(line[1] == "cancelled" for line in two.lines()))
    assert len(two.starts()) == 1


async def test_a_call_under_way_when_its_aggregator_dies_is_in_doubt_and_never_made_again(two: Lone) -> None:
    hanging = asyncio.create_task(call(two.replicas[1], "x", "hang"))
    await until(lambda: any(line[1] == "hang" for line in two.lines()))
    (own,) = two.own.members
    own.send(signal.SIGKILL)
    assert "whether it took effect is unknown" in await hanging
    await own.ended()
    assert len([line for line in two.lines() if line[1] == "hang"]) == 1


async def test_replicas_and_stdio_processes_of_several_hosts_share_it(two: Lone, tmp_path: Path) -> None:
    said = [await call(member, "x") for member in two.replicas]
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": two.servers, "storage": f"sqlite:///{tmp_path / 'hosts.db'}"}))
    config.chmod(0o600)
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
    (only,) = two.starts()
    assert said == [f"{only} x"] * 4


_HELLO: Final = (
    b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", '
    b'"capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}}\n'
)
_CALL: Final = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "notes__do", "arguments": {"say": "x"}}}\n'
)


async def _answer(process: Program, number: int) -> Any:
    """Return the answer to a request."""
    while True:
        message = json.loads(await process.stdout.readline())
        if message.get("id") == number and "method" not in message:
            return message
