"""The example servers as subprocesses: one legal client and one amap server for all the tests of a module."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parents[2]
KEY = "key-for-tests-7f3a"
BOUND = 10.0


def stdio_server(module: str, *args: str) -> StdioServerParameters:
    """Return the parameters to start an example over stdio, with warnings as errors."""
    return StdioServerParameters(
        command=sys.executable, args=["-W", "error", "-m", module, *args], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    )


class AmapProcess:
    """An amap example over HTTP; reads its standard error as it comes, so that the pipe never fills."""

    def __init__(self, key: str | None, *args: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "AMAP_EXAMPLE_KEY"}
        if key is not None:
            environment["AMAP_EXAMPLE_KEY"] = key
        self._process = subprocess.Popen(
            [sys.executable, "-m", "examples.amap", "--port", "0", *args],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: list[str] = []
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        ready = self._known.wait(BOUND)
        found = re.fullmatch(r"amap example listening on (http://127\.0\.0\.1:\d+/sse)\n", "".join(self._lines))
        if not ready or found is None:
            self.stop()
            raise AssertionError(f"no readiness line: {self.stderr!r}")
        self.url = found[1]

    @property
    def stderr(self) -> str:
        """All the process has written to standard error so far; everything once it has ended."""
        return "".join(self._lines)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the process and give its exit status; kills it if it has not left in time."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(BOUND)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join(BOUND)
            if self._process.stderr is not None:
                self._process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self) -> None:
        if self._process.stderr is not None:
            for line in self._process.stderr:
                self._lines.append(line)
                self._known.set()
        self._known.set()


@pytest.fixture(scope="module")
def amap() -> Iterator[AmapProcess]:
    """An amap server expecting KEY."""
    with AmapProcess(KEY) as process:
        yield process


@pytest.fixture
def start_amap() -> Iterator[Callable[..., AmapProcess]]:
    """Start amap servers that end with the test."""
    started: list[AmapProcess] = []

    def start(key: str | None, *args: str) -> AmapProcess:
        started.append(AmapProcess(key, *args))
        return started[-1]

    yield start
    for process in started:
        process.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def legal() -> AsyncIterator[Client]:
    """A client of a legal server; one task enters and leaves it, as its cancel scopes demand."""
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with Client(stdio_server("examples.legal")) as client:
            connected.set_result(client)
            await done.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        async with asyncio.timeout(BOUND):
            client = await connected
        yield client
        done.set()
