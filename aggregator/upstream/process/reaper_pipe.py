"""The aggregator's end of the pipe to the reaper process, and the end of processes that outlived their server.

Such processes are found by the mark in their environment. Rule: one reading of `/proc` serves all that waited before it
began, so that many servers end side by side.
"""

import asyncio
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Final

from aggregator.upstream.process.container_starts import container_start
from aggregator.upstream.process.containers import ContainerRun, Containers
from aggregator.upstream.process.memory import MemoryReader
from aggregator.upstream.process.reaper import VARIABLE, carriers, signal_each
from aggregator.upstream.stderr_tail import SpokenByServer

# Seconds that a server may take to end after its stdin closed, and after SIGTERM (S/basic/transports/stdio, Shutdown).
CLOSE_GRACE: Final = 2.0
TERM_GRACE: Final = 2.0
# When the aggregator ends: seconds from the close of stdin to SIGTERM, and seconds until all that is left is killed.
END_CLOSE_GRACE: Final = 1.0
END_WITHIN: Final = 1.75

_POLL: Final = 0.05

# Several rounds, since a process may start another one just before it is killed.
_ROUNDS: Final = 3


class Orphans:
    """The processes with a mark of ours. Once `hurry` is set, none gets time to end by itself."""

    def __init__(self, hurry: asyncio.Event) -> None:
        self._hurry = hurry
        self._reading = asyncio.Lock()
        self._began = float("-inf")
        self._by_mark: dict[str, list[int]] = {}

    async def end(self, mark: str, grace: float) -> int:
        """Terminate every process that carries `mark`, kill it `grace` seconds later; return how many there were."""
        if sys.platform == "win32":
            raise NotImplementedError
        found = await self._carrying(mark)
        signal_each(found, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while found and not self._hurry.is_set() and await self._carrying(mark):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_POLL)
        for _ in range(_ROUNDS if found else 0):
            signal_each(await self._carrying(mark), signal.SIGKILL)
        return len(found)

    async def _carrying(self, mark: str) -> list[int]:
        asked = monotonic()
        async with self._reading:
            if self._began <= asked:
                began = monotonic()
                self._by_mark = await asyncio.to_thread(carriers)
                self._began = began
        return self._by_mark.get(mark, [])


class Reaper:
    """The aggregator's end of the pipe to `reaper.py`, which is started with the first child; POSIX only.

    In a `hurry` nothing is waited for that is to end. `words`: what the children wrote last, by server.
    """

    def __init__(self) -> None:
        self.hurry = asyncio.Event()
        self.orphans = Orphans(self.hurry)
        self.containers = Containers()
        self._noting = asyncio.Lock()
        self._noted = False
        self.words = SpokenByServer()
        self._ending: asyncio.TimerHandle | None = None
        self._mark = secrets.token_hex(8)
        self._marks = count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self.spawning = asyncio.Lock()
        self.memory = MemoryReader()

    async def mark(self) -> dict[str, str]:
        """Return the environment variable that marks one more child and all that it starts.

        Every process that carries it ends with the aggregator.
        """
        await self._start()
        return {VARIABLE: f"{self._mark}.{next(self._marks)}."}

    async def container(
        self, command: str, args: tuple[str, ...], env: Mapping[str, str], cwd: str | None
    ) -> ContainerRun | None:
        """Return the start of a container with a file for its id, noted for the reaper; None for any other program."""
        if container_start(command, args) is None:
            return None
        async with self._noting:
            if not self._noted:
                self._noted = True
                await self.containers.remove_left()
        run = await asyncio.to_thread(self.containers.placed, command, args, env, cwd)
        if run is not None:
            self._send(f"@{run.record.parent}\n")
        return run

    def watch(self, group: int) -> None:
        """Have a process group ended with the aggregator."""
        self._send(f"+{group}\n")

    async def _start(self) -> None:
        if sys.platform == "win32":
            # The job of each child ends with this process.
            return
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(__file__).with_name("reaper.py")),
                    f"{self._mark}.",
                    stdin=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    # Without our own variables, which may hold a mark of an aggregator above us.
                    env={},
                )

    def release(self, group: int) -> None:
        """Take back `watch`: the group has ended."""
        self._send(f"-{group}\n")

    def end(self) -> None:
        """Begin the end of the aggregator: from now on all children have less time to end, until one common moment."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(END_WITHIN, self.hurry.set)

    def close_grace(self, close_grace: float) -> float:
        """Return the seconds that a child may take to end after its stdin closed: `close_grace`, or less at the end."""
        return close_grace if self._ending is None else min(close_grace, END_CLOSE_GRACE)

    async def close(self) -> None:
        """End the reaper process, which has nothing left to do."""
        if self._ending is not None:
            self._ending.cancel()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(TERM_GRACE + CLOSE_GRACE):
                    await self._process.wait()
        self.containers.close()

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(line.encode())
