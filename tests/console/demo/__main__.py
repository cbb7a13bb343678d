"""Run the demo until Ctrl-C or SIGTERM: `python -m tests.console.demo [--port 8642] [--calls 60] [--pictures FOLDER]`.

Its files are in a folder for temporary files, and gone afterwards. `--calls` is how many a minute the agents make. With
`--pictures` it ends once pictures of every page are in that folder.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from aggregator.audit.capture import Capture
from aggregator.config.load import load
from aggregator.storage.approvals import ApprovalAnswer, give_answer
from aggregator.storage.database import open_database
from benchmarks import history
from benchmarks.systems import AGGREGATOR, started
from tests.console.demo import pictures
from tests.console.demo.requests import ANSWERED, ASKED, MERGE, AgentCall, now_and_then, past
from tests.console.demo.world import AGENTS, World, write_world
from tests.end_to_end.scripted_host import MODERN, ScriptedHost, over_http

# Seconds of calls before the first picture.
_BEFORE: Final = 9.0
# Seconds within which the servers start, and what they have is on record.
_PATIENCE: Final = 60.0


def main() -> None:
    """Write the world and three hours of its past, serve it, and have its agents call."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.demo", description=__doc__)
    parser.add_argument("--port", type=int, default=8642, help="the port of the gateway (default: 8642)")
    parser.add_argument("--calls", type=float, default=60.0, help="calls a minute (default: 60)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="take pictures of every page, and end")
    parser.add_argument("--only", nargs="*", default=(), metavar="PAGE", help="pictures of these pages only")
    given = parser.parse_args()
    # As Ctrl-C: its gateway and its folder go with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as folder:
        world = write_world(Path(folder) / "demo")
        redact = load(world.config, dict(os.environ)).redactor.value
        history.write(world.storage, past(time.time()), Capture("full", redact, 2**16))
        command = [*AGGREGATOR, "serve", "--config", str(world.config), "--port", str(given.port)]
        # Once before, so that there is a definition of old to compare with.
        for server in ("crm", "maps"):
            world.use_definitions(f"{server}-1", server)
        with started(command, given.port):
            asyncio.run(seen(world))
        for server in ("crm", "maps"):
            world.use_definitions(server, server)
        with started(command, given.port, world.folder / "log.txt"):
            address = f"http://127.0.0.1:{given.port}"
            asyncio.run(approved(world, "crm"))
            try:
                if given.pictures is None:
                    print(link(world, address), flush=True)
                    asyncio.run(traffic(world, address, given.calls))
                else:
                    asyncio.run(photographed(world, address, given.calls, given.pictures, given.only))
            except KeyboardInterrupt:
                print("ended", file=sys.stderr)


async def seen(world: World) -> None:
    """Wait until what the servers have is pinned.

    Raises:
        TimeoutError: they do not start.
    """
    async with asyncio.timeout(_PATIENCE), open_database(world.storage) as database:
        while not world.servers <= {row.server for row in await database.pins.all(texts=False)}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def approved(world: World, server: str) -> None:
    """Approve, as an operator does, what a server has changed; what others changed stays held.

    Raises:
        TimeoutError: nothing of it is held.
    """
    async with asyncio.timeout(_PATIENCE), open_database(world.storage) as database:
        while not (held := [row for row in await database.pins.all(server, texts=False) if row.held]):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for row in held:
            await database.pins.approve(server, row.kind, row.name, row.seen_digest, "maria", time.time())


def link(world: World, url: str) -> str:
    """Return a link to sign in with, as `aggregator console` makes it; how to make others is printed."""
    where = ("--config", str(world.config), "--url", url)
    command = [*AGGREGATOR, "console", *where, "--as", "maria", "--no-browser"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    print(f"Another link: aggregator console {' '.join(where)} --as NAME --role viewer", file=sys.stderr)
    return done.stdout.strip()


async def photographed(world: World, url: str, a_minute: float, folder: Path, only: Sequence[str]) -> None:
    """Take the pictures while the agents call; the crm changes its tools once before."""
    calling = asyncio.create_task(traffic(world, url, a_minute))
    await asyncio.sleep(_BEFORE)
    await pictures.take(await asyncio.to_thread(link, world, url), folder, only)
    calling.cancel()
    # What was under way ends in ways of its own.
    await asyncio.wait([calling])


async def traffic(world: World, url: str, a_minute: float) -> None:
    """Let the agents call, each over a connection of its own; two calls wait for a person from the beginning."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        hosts = {agent: await stack.enter_async_context(over_http(url, MODERN, world.keys[agent])) for agent in AGENTS}
        for one, answer in ANSWERED:
            await make(hosts, one, answered(world, answer))
        for one in (ASKED, MERGE):
            tasks.create_task(insist(hosts, one))
            await asyncio.sleep(1)
        for one in now_and_then():
            tasks.create_task(make(hosts, one))
            await asyncio.sleep(60 / a_minute)


async def make(hosts: dict[str, ScriptedHost], one: AgentCall, beside: Awaitable[None] | None = None) -> None:
    """Make one call, as of the conversation of these minutes; meanwhile wait for what is done `beside` it."""
    conversation = {"aggregator/conversation_id": f"c-{int(time.time() / 900) % 90 + 10}"}
    call = hosts[one.agent].call(one.tool, one.arguments, **conversation)
    try:
        if beside is not None:
            await beside
        while not call.done:  # noqa: ASYNC110 - a call may wait longer than tests let it
            await asyncio.sleep(0.2)
    finally:
        call.drop()


async def answered(world: World, answer: ApprovalAnswer) -> None:
    """Answer the one question that waits, once it does."""
    async with open_database(world.storage) as database:
        while not (waiting := await database.approvals.list("pending", now=time.time())):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.1)
        await give_answer(database.approvals, waiting[0].id, answer, time.time())


async def insist(hosts: dict[str, ScriptedHost], one: AgentCall) -> None:
    """Make one call again and again, as an agent does that is told to wait for a person."""
    while True:
        await make(hosts, one)
        await asyncio.sleep(2)


if __name__ == "__main__":
    main()
