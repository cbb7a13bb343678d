"""A session over stdio: the program that a host would start, in the environment that it would have.

Rule: it is ended with all that it started.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from aggregator.doctor.gather.one_session import (
    INITIALIZED,
    LINE_KEPT,
    MOST_PAGES,
    SessionTools,
    ToldStates,
    initialize,
    list_tools,
    session_with,
)
from aggregator.domain.bounds.tasks import Tasks
from aggregator.system.process_tree import ProcessTree
from aggregator.system.start_piped import start_piped

_LONGEST_LINE: Final = 64 * 2**20
_LINES_KEPT: Final = 20
# Seconds from the end of stdin to SIGTERM, and from that to SIGKILL.
_GRACE: Final = 3.0


class _Ended(Exception):
    """The program has closed its stdout."""


class _NotMcp(Exception):
    """A line of stdout is no message."""


async def stdio_session(
    command: str,
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    client: str | None,
    patience: float,
    awaited: Collection[str] = (),
) -> SessionTools:
    """Return the tools that a host gets from the program; it says of itself that it is `client`.

    After the list, it is kept until its log has told of the servers in `awaited`, as long as there is time.
    """
    began = time.monotonic()
    try:
        process, tree = await start_piped(command, args, env, cwd, _LONGEST_LINE)
    except (OSError, ValueError) as error:
        return SessionTools(fault="not_started", words=(getattr(error, "strerror", None) or "it is no program",))
    words: deque[str] = deque(maxlen=_LINES_KEPT)
    told = ToldStates()
    news = asyncio.Event()
    listed = 0.0
    async with Tasks("the session of the doctor") as tasks:
        reading = tasks.start(_read_words(process, words, told, news))
        try:
            async with asyncio.timeout(patience):
                found = await _talk(process, client)
            listed = time.monotonic() - began
            with suppress(TimeoutError):
                async with asyncio.timeout(patience - listed):
                    await _heard_of(awaited, told, news, reading)
        except TimeoutError:
            found = SessionTools(fault="hangs")
        except (_Ended, BrokenPipeError, ConnectionResetError):
            found = SessionTools(fault="ended")
        except _NotMcp:
            found = SessionTools(fault="not_mcp")
        finally:
            told.ending = True
            await _end(process, tree)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.wait([reading])
    seconds = time.monotonic() - began
    return replace(found, seconds=listed or seconds, waited=seconds, words=tuple(words), told=told.servers)


async def _heard_of(
    awaited: Collection[str], told: ToldStates, news: asyncio.Event, reading: asyncio.Task[None]
) -> None:
    """Return once each of the servers has come up or failed, or the program has closed its stderr."""
    while not told.settled(awaited) and not reading.done():
        news.clear()
        await news.wait()


async def _talk(process: asyncio.subprocess.Process, client: str | None) -> SessionTools:
    begun = await _ask(process, initialize(client))
    _write(process, INITIALIZED)
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    for page in range(MOST_PAGES):
        result = await _ask(process, list_tools(page + 2, cursor))
        tools += [tool for tool in result.get("tools", ()) if isinstance(tool, dict)]
        cursor = result.get("nextCursor")
        if cursor is None:
            break
    return session_with(begun, tools)


async def _ask(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> dict[str, Any]:
    _write(process, message)
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.drain()
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            raise _NotMcp from None  # longer than any message of ours
        if not line:
            raise _Ended
        if not line.strip():
            continue
        try:
            answer = json.loads(line)
        except ValueError:
            raise _NotMcp from None
        if isinstance(answer, dict) and answer.get("id") == message["id"] and "method" not in answer:
            result = answer.get("result")
            return result if isinstance(result, dict) else {}


def _write(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    except RuntimeError:  # of uvloop, once the program has closed its end
        raise _Ended from None


async def _read_words(
    process: asyncio.subprocess.Process, words: deque[str], told: ToldStates, news: asyncio.Event
) -> None:
    assert process.stderr is not None
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:
            continue
        if not line:
            news.set()
            return
        text = "".join(c if c.isprintable() else " " for c in line.decode("utf-8", "replace")).strip()
        if text:
            words.append(text[:LINE_KEPT])
            told.take(text)
            news.set()


async def _end(process: asyncio.subprocess.Process, tree: ProcessTree) -> None:
    if process.stdin is not None:
        process.stdin.close()
    for end in (tree.ask_to_end, tree.kill):
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
                break
        end()
    # Also what it left running.
    tree.kill()
    tree.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await process.wait()
