"""A configuration that is edited while a separate program runs on it, with the operator's view of that program."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from tests import ON_WINDOWS
from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import ServingProgram, run, serving, start
from tests.end_to_end.scripted_host import BOUND, NO_TLS, Call, Inbox, ScriptedHost, StdioWire
from tests.end_to_end.server_harness import ROOT
from tests.peers.toolbox import Json
from tests.polling import until

LOOK_AGAIN: Final = 0.02


def server(*args: str, **fields: Any) -> Json:
    """An entry for `tests.operating.server`."""
    return {"command": sys.executable, "args": ["-m", "tests.operating.server", *args], "cwd": str(ROOT), **fields}


def words(result: Json) -> str:
    """The text of a good result."""
    assert not result.get("isError"), result
    text: str = result["content"][0]["text"]
    return text


@asynccontextmanager
async def stdio_program(
    config: Path, version: str, capabilities: Json | None = None, log: list[str] | None = None
) -> AsyncIterator[tuple[Program, ScriptedHost]]:
    """`aggregator stdio`, and the host that started it; `log` gets what it has logged, once it has ended."""
    process = await start("stdio", "--config", str(config))
    inbox = Inbox()
    wire = StdioWire(inbox, process.stdin)
    try:
        async with asyncio.TaskGroup() as tasks:
            logged = tasks.create_task(process.stderr.read())
            reading = [tasks.create_task(wire.read(process.stdout)), logged]
            host = ScriptedHost(wire, inbox, version, capabilities)
            try:
                await host.greet()
                yield process, host
            finally:
                if process.returncode is None and sys.exc_info()[0] is not None:
                    process.kill()
                async with asyncio.timeout(BOUND):
                    await asyncio.wait(reading)
                if log is not None:
                    log.append(logged.result().decode())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class ProgramHarness:
    """A folder with an `aggregator.json`, whose database stands beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "aggregator.json"
        self.served: ServingProgram | None = None

    def write(self, content: str) -> None:
        """Replace the file whole, as editors do."""
        new = self.folder / "new"
        new.write_text(content)
        new.replace(self.config)

    def write_config(self, servers: Json, **settings: Any) -> None:
        storage = f"sqlite+aiosqlite:///{self.folder / 'aggregator.db'}"
        self.write(json.dumps({"mcpServers": servers, "storage": storage, **settings}))

    @asynccontextmanager
    async def serving(self, *args: str) -> AsyncIterator[ServingProgram]:
        """`aggregator serve` on what was put, with every server tried."""
        async with serving(self.config, *args) as served:
            self.served = served
            await until(lambda: self._says("ready", True), "it is ready")
            yield served

    @property
    def log(self) -> str:
        assert self.served is not None
        return "".join(self.served.log)

    async def ready(self) -> Json:
        """Return the answer of `/readyz`."""
        assert self.served is not None
        async with httpx2.AsyncClient(verify=NO_TLS) as client:
            answer: Json = (await client.get(f"{self.served.url}/readyz")).json()
        return answer

    async def wait_for_problem(self, problem: str) -> Json:
        """Return the configuration part of `/readyz` once it lists this problem."""
        found: Json = {}

        async def is_told() -> bool:
            found.update((await self.ready())["config"])
            return any(problem in one for one in found["problems"])

        await until(is_told, "the health page tells of the file")
        return found

    async def _says(self, key: str, value: Any) -> bool:
        return bool((await self.ready())[key] == value)

    async def wait_for_log(self, text: str, times: int = 1) -> None:
        """Wait for a line of the log."""

        async def is_there() -> bool:
            return self.log.count(text) >= times

        await until(is_there, f"{text!r} in the log, which has:\n{self.log}")

    async def reload(self, servers: Json, expecting: str, **settings: Any) -> None:
        """Put another file there, have it read, and wait for the log to say what came of it."""
        times = self.log.count(expecting) + 1
        self.write_config(servers, **settings)
        self.read_again()
        await self.wait_for_log(expecting, times)

    def read_again(self) -> None:
        """Ask for the configuration to be read; Windows has no such signal, and the program looks a little later."""
        if not ON_WINDOWS:
            self.signal(signal.SIGHUP)

    def signal(self, number: signal.Signals) -> None:
        assert self.served is not None
        self.served.process.send_signal(number)

    async def ended(self) -> int:
        assert self.served is not None
        async with asyncio.timeout(BOUND):
            return await self.served.process.wait()

    def wait(self, host: ScriptedHost, tool: str, name: str = "go") -> "HeldCall":
        """Start a call that runs until it is released."""
        return HeldCall(host.call(tool, {"file": str(self.folder / name)}), self.folder / name)

    async def audit(self, *args: str) -> list[Json]:
        """The log of calls and events, oldest first."""
        ended = await run("audit", "export", "--config", str(self.config), *args)
        return [json.loads(line) for line in ended.out.splitlines()]


class HeldCall:
    """One call of `wait`."""

    def __init__(self, call: Call, file: Path) -> None:
        self.call = call
        self._file = file

    async def wait_begun(self) -> None:
        """Wait until the server has begun the call."""

        async def noted() -> bool:
            return await asyncio.to_thread(self._file.with_suffix(".begun").exists)

        await until(noted, "the call has begun")

    def release(self) -> None:
        self._file.touch()
