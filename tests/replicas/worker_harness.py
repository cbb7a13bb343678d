"""`aggregator serve --workers`, as a program of its own, with the view of an operator and of hosts."""

import asyncio
import json
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from aggregator.domain.versions import LATEST_LEGACY
from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import serving, until_ended
from tests.end_to_end.scripted_host import BOUND, MODERN, NO_TLS, ScriptedHost, over_http
from tests.operating.program_harness import server, words
from tests.peers.toolbox import Json
from tests.polling import until

HANDSHAKE: Final = LATEST_LEGACY
ERAS: Final = (MODERN, HANDSHAKE)
# A worker loads all of the program, on a machine that runs other tests beside.
_STARTS: Final = 4
_LOOK_AGAIN: Final = 0.05
_SERVES: Final = re.compile(r"worker (\d+) serves, with process id (\d+)")
_COUNTED: Final = re.compile(r'^aggregator_calls_total\{.*status="ok"\} (\d+)$', re.MULTILINE)


class Workers:
    """The running workers."""

    def __init__(self, process: Program, url: str, log: list[str]) -> None:
        self.process = process
        self.url = url
        self.lines = log

    def __repr__(self) -> str:
        return f"<Workers at {self.url}>"

    @property
    def log(self) -> str:
        """Return what was logged so far."""
        return "".join(self.lines)

    def begun(self) -> list[tuple[int, int]]:
        """Return number and process id of each worker that has served, in the order in which they began to."""
        return [(int(number), int(pid)) for number, pid in _SERVES.findall(self.log)]

    def pids(self) -> dict[int, int]:
        """Return the process ids of the workers by their numbers, of each the latest."""
        return dict(self.begun())

    async def wait_begun(self, count: int) -> None:
        """Wait until so many workers have begun to serve since the start."""
        await self._until(lambda: len(self.begun()) >= count, f"{count} workers")

    async def logged(self, text: str) -> None:
        """Wait until a line of the log has this text."""
        await self._until(lambda: text in self.log, text)

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition that several starts of workers may come before."""
        try:
            async with asyncio.timeout(_STARTS * BOUND):
                # The log is read by another task.
                while not condition():  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            raise AssertionError(f"in vain: {what!r}, in the log:\n{self.log}") from None

    async def report(self) -> Json:
        """Return what `/readyz` says over a connection of its own."""
        async with httpx2.AsyncClient(verify=NO_TLS, timeout=BOUND) as client:
            found: Json = (await client.get(f"{self.url}/readyz")).json()
        return found

    async def settle(self, count: int = 2) -> None:
        """Wait until so many workers serve and know each other, with their servers connected."""
        await self.wait_begun(count)

        async def settled() -> bool:
            found = await self.report()
            well = [one for one in found["replicas"] if one.get("ready")]
            return len(well) == len(found["replicas"]) == count and found["ready"]

        await until(settled, "the workers know each other")

    async def counted(self) -> int:
        """Return how many calls the metrics have, whichever worker is asked."""
        async with httpx2.AsyncClient(verify=NO_TLS, timeout=BOUND) as client:
            page = (await client.get(f"{self.url}/metrics")).text
        assert page.count("# TYPE aggregator_calls_total ") <= 1
        return sum(map(int, _COUNTED.findall(page)))

    async def has_counted(self, calls: int) -> None:
        """Wait until the metrics have so many calls: a worker that is busy may be left out of one page."""

        async def counted() -> bool:
            return await self.counted() == calls

        await until(counted, f"{calls} calls are counted")

    async def asked(self, connections: int) -> Counter[int]:
        """Return how many of so many connections, kept open side by side, went to each worker."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(httpx2.AsyncClient(verify=NO_TLS, timeout=BOUND))
                for _ in range(connections)
            ]
            found = [(await client.get(f"{self.url}/readyz")).json()["replicas"] for client in clients]
        return Counter(one["worker"] for replicas in found for one in replicas if one["asked"])

    async def ended(self) -> int:
        """Return the exit code, once the program has ended."""
        async with asyncio.timeout(BOUND):
            return await self.process.wait()


def write_config(folder: Path, **settings: Any) -> Path:
    """Write a configuration with one stdio server, `one`."""
    config = folder / "aggregator.json"
    content = {"mcpServers": {"one": server()}, "storage": f"sqlite:///{folder / 'a.db'}", "expose": "all", **settings}
    config.write_text(json.dumps(content))
    return config


@asynccontextmanager
async def workers(folder: Path, count: int = 2, **settings: Any) -> AsyncIterator[Workers]:
    """Run workers that know each other; none is left afterwards."""
    async with serving(write_config(folder, **settings), "--workers", str(count)) as served:
        found = Workers(served.process, served.url, served.log)
        try:
            await found.settle(count)
            yield found
        finally:
            if found.process.returncode is None:
                found.process.send_signal(signal.SIGTERM)
                await found.ended()
            await until_ended(*(pid for _, pid in found.begun()))


class BusyHost:
    """A host that calls one tool after another over one client, and counts the answers."""

    def __init__(self, host: ScriptedHost) -> None:
        self.answers = 0
        self.servers: set[int] = set()
        self._host = host

    async def call(self) -> None:
        """Call once."""
        said = json.loads(words(await self._host.call("one.who").result()))
        self.servers.add(said["pid"])
        self.answers += 1

    async def run(self, enough: asyncio.Event) -> None:
        """Call until it is enough."""
        while not enough.is_set():
            await self.call()


@asynccontextmanager
async def busy_hosts(url: str, each: int) -> AsyncIterator[list[BusyHost]]:
    """Connect so many hosts of each era."""
    async with AsyncExitStack() as stack:
        yield [BusyHost(await stack.enter_async_context(over_http(url, era))) for era in ERAS for _ in range(each)]
