"""A program started by the fork server (`fork_server.py`), with the interface of `asyncio.subprocess.Process`."""

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from tests.end_to_end.server_harness import ROOT

_READ_LIMIT: Final = 2**26
_LAST_BYTES: Final = 0.5


class ForkServer:
    """The process that forks programs; one for a run of the tests."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.end_to_end.fork_server"],
                cwd=ROOT,
                stdin=theirs.fileno(),
            )
        atexit.register(self.close)

    def start(self, args: tuple[str, ...], cwd: Path, env: Mapping[str, str], descriptors: list[int]) -> None:
        """Have a program started with these as its stdin, stdout and stderr; the last hears of its start and end."""
        message = json.dumps({"args": args, "cwd": str(cwd), "env": dict(env)}).encode()
        socket.send_fds(self._orders, [message], descriptors)

    def close(self) -> None:
        """Close the order socket, which ends the process."""
        self._orders.close()
        self._process.wait()


class Program:
    """A running aggregator: `stdin`, `stdout`, `stderr`, `pid`, `returncode` and the verbs of asyncio's processes."""

    def __init__(self, pid: int, stdin: asyncio.StreamWriter, stdout: "Output", stderr: "Output") -> None:
        self.pid, self.stdin = pid, stdin
        self.stdout, self.stderr = stdout.reader, stderr.reader
        self._outputs = (stdout, stderr)
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    async def wait(self) -> int:
        """The exit code, once it has one; negative for a signal."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Write all of its stdin, and read the rest until it has ended."""
        self.stdin.write(data)
        self.stdin.close()
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    def watch(self, life: asyncio.StreamReader, talk: asyncio.StreamWriter) -> None:
        """Watch for the exit code that the fork server sends."""
        self._following = asyncio.create_task(self._follow(life, talk))

    async def _follow(self, life: asyncio.StreamReader, talk: asyncio.StreamWriter) -> None:
        self.returncode = int(await life.readline())
        talk.close()
        self.stdin.close()
        for output in self._outputs:
            await output.close()
        self._ended.set()


class Output(asyncio.StreamReaderProtocol):
    """An output pipe of a program; `close` reads the rest."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=_READ_LIMIT)
        self._read_whole = asyncio.Event()
        self._pipe: asyncio.BaseTransport | None = None
        super().__init__(self.reader)

    @classmethod
    async def of(cls, descriptor: int) -> "Output":
        """Connect to the reading end of a pipe."""
        loop = asyncio.get_running_loop()
        _, output = await loop.connect_read_pipe(cls, os.fdopen(descriptor, "rb", 0))
        return output

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._read_whole.set()

    async def close(self) -> None:
        """Read what is left, though a child of the program may hold the pipe for as long as it likes."""
        assert self._pipe is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BYTES):
                await self._read_whole.wait()
        self._pipe.close()


_fork_servers: list[ForkServer] = []


async def start_program(args: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> Program:
    """Start `aggregator ARGS` in a process of its own, which has all to import if the system does not fork."""
    if not hasattr(os, "fork"):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aggregator", *args),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=_READ_LIMIT,
            cwd=cwd,
            env=env,
        )
        return cast("Program", process)
    if not _fork_servers:
        _fork_servers.append(ForkServer())
    given, stdin = os.pipe()
    stdout, out = os.pipe()
    stderr, err = os.pipe()
    news, told = socket.socketpair()
    _fork_servers[0].start(args, cwd, env, [given, out, err, told.fileno()])
    for descriptor in (given, out, err):
        os.close(descriptor)
    told.close()
    life, talk = await asyncio.open_connection(sock=news)
    pid = int(await life.readline())
    program = Program(pid, await _writer(stdin), await Output.of(stdout), await Output.of(stderr))
    program.watch(life, talk)
    return program


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
