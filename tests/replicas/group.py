"""Several processes of `aggregator serve` on one database, with nginx in front of them."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import start
from tests.end_to_end.scripted_host import BOUND
from tests.end_to_end.server_harness import ROOT
from tests.polling import until
from tests.replicas.balancer import Balancer, balancer

_ADDRESS: Final = re.compile(r"Streamable HTTP at (http://\S+)/mcp")


class GroupMember:
    """One process of the group; `url` is its own address, past the balancer."""

    def __init__(self, process: Program, url: str, log: list[str], reading: asyncio.Task[None]) -> None:
        self.process = process
        self.url = url
        self.log = log
        self._reading = reading

    def __repr__(self) -> str:
        return f"<GroupMember {self.process.pid} at {self.url}>"

    @property
    def runs(self) -> bool:
        """Return whether the process has not ended."""
        return self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the end of the process; return its exit code."""
        async with asyncio.timeout(BOUND):
            code = await self.process.wait()
            await self._reading
        return code

    async def end(self) -> None:
        """End the process, be it frozen or ended already."""
        if self.runs:
            self.send(signal.SIGCONT)
            self.process.kill()
        await self.ended()


class Group:
    """The processes. `config` is the file that they share; `front` is the balancer's address."""

    def __init__(self, config: Path, front: Balancer | None) -> None:
        self.config = config
        self.members: list[GroupMember] = []
        self._front = front

    def __repr__(self) -> str:
        return f"<Group of {len(self.members)}>"

    @property
    def front(self) -> str:
        """Return the address of the balancer."""
        assert self._front is not None, "there is no balancer"
        return self._front.url

    async def add(self, environ: Mapping[str, str] | None = None, *, waits: bool = True) -> GroupMember:
        """Start one more process; it is behind the balancer once it answers."""
        process = await start("serve", "--config", str(self.config), "--port", "0", cwd=ROOT, **(environ or {}))
        log: list[str] = []
        found = None
        async with asyncio.timeout(BOUND):
            while found is None:
                line = (await process.stderr.readline()).decode()
                assert line, "".join(log)
                log.append(line)
                found = _ADDRESS.search(line)
        member = GroupMember(process, found[1], log, asyncio.create_task(_read(process.stderr, log)))
        if waits:
            await until(lambda: _is_ready(member.url), "it is ready")
        self.members.append(member)
        self.balance()
        return member

    async def remove(self, member: GroupMember) -> None:
        """Take a process out from behind the balancer, and end it."""
        self.members.remove(member)
        self.balance()
        await member.end()

    def balance(self) -> None:
        """Have the balancer know the processes that there are."""
        if self._front is not None and self.members:
            self._front.use([member.url for member in self.members])

    async def end(self) -> None:
        """End every process."""
        for member in self.members:
            await member.end()


async def _is_ready(url: str) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
        return answer.status == 200


async def _read(stream: asyncio.StreamReader, log: list[str]) -> None:
    while line := await stream.readline():
        log.append(line.decode())


def _write_files(folder: Path, content: Mapping[str, Any], policies: Mapping[str, str]) -> Path:
    """Write the configuration and the policy files; return the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "aggregator.json"
    config.write_text(json.dumps(content))
    config.chmod(0o600)
    for name, text in policies.items():
        (folder / "policies").mkdir(exist_ok=True)
        (folder / "policies" / name).write_text(text)
    return config


@asynccontextmanager
async def group(
    folder: Path,
    storage: str,
    servers: Mapping[str, Any],
    count: int = 3,
    *,
    balanced: bool = True,
    waits: bool = True,
    policies: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Group]:
    """Give a group that runs. `policies` are policy files by name; `settings` go into the configuration. It
    is ready, unless `waits` is False.
    """
    content = {"mcpServers": dict(servers), "storage": storage, "expose": "all", **settings}
    config = _write_files(folder, content, policies or {})
    async with AsyncExitStack() as stack:
        front = stack.enter_context(balancer(folder / "nginx")) if balanced else None
        found = Group(config, front)
        stack.push_async_callback(found.end)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(found.add(waits=waits))
        yield found
