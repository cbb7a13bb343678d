"""The aggregator as users run it: a separate process with pipes for stdin, stdout and stderr."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests import with_folders_of_windows
from tests.end_to_end.forked_program import Program, start_program
from tests.end_to_end.scripted_host import BOUND
from tests.end_to_end.server_harness import ROOT
from tests.peers.processes import is_alive


class ProgramResult(NamedTuple):
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Return our environment without variables that change the configuration."""
    kept = {key: value for key, value in os.environ.items() if "_MCP_" not in key and key != "COLUMNS"}
    return with_folders_of_windows({**kept, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **more})


async def start(*args: str, cwd: Path = ROOT, **more: str) -> Program:
    """`aggregator ARGS`, running."""
    return await start_program(args, cwd, environment(**more))


async def run(*args: str, cwd: Path = ROOT, stdin: bytes = b"", **more: str) -> ProgramResult:
    """Start the program, write its stdin, and wait for the end."""
    process = await start(*args, cwd=cwd, **more)
    try:
        async with asyncio.timeout(BOUND):
            out, err = await process.communicate(stdin)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return ProgramResult(process.returncode, out.decode(), err.decode())


async def converse(*args: str, stdin: bytes, until: set[str]) -> ProgramResult:
    """Start, feed, and close stdin once the requests with these ids are answered; `out` is all that was printed."""
    process = await start(*args)
    log: list[str] = []
    reading = asyncio.create_task(_read(process.stderr, log))
    out, left = b"", set(until)
    process.stdin.write(stdin)
    try:
        async with asyncio.timeout(BOUND):
            while left and (line := await process.stdout.readline()):
                out += line
                left -= {message_id(line)}
            process.stdin.close()
            out += await process.stdout.read()
            code = await process.wait()
            await reading
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return ProgramResult(code, out.decode(), "".join(log))


def message_id(line: bytes) -> str:
    """The id in a line, or nothing where it is no message with an id."""
    try:
        message = json.loads(line)
    except ValueError:
        return ""
    return str(message.get("id", "")) if isinstance(message, dict) else ""


class ServingProgram(NamedTuple):
    process: Program
    url: str
    log: list[str]


@asynccontextmanager
async def serving(config: Path, *args: str) -> AsyncIterator[ServingProgram]:
    """Run `aggregator serve` on a free port, which its log names."""
    process = await start("serve", "--config", str(config), "--port", "0", *args)
    log: list[str] = []
    try:
        found = None
        async with asyncio.timeout(BOUND):
            while found is None:
                line = (await process.stderr.readline()).decode()
                assert line, log
                log.append(line)
                found = re.search(r"Streamable HTTP at (https?://\S+)/mcp", line)
        reading = asyncio.create_task(_read(process.stderr, log))
        yield ServingProgram(process, found[1], log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    async with asyncio.timeout(BOUND):
        await reading


async def _read(stream: asyncio.StreamReader, log: list[str]) -> None:
    while line := await stream.readline():
        log.append(line.decode())


async def until_ended(*pids: int) -> None:
    """Wait until none of the processes runs."""
    async with asyncio.timeout(BOUND):
        # Nothing tells of the end of a process that is not our child.
        while any(is_alive(pid) for pid in pids):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
