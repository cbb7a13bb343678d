"""The processes of a run: the fixture on every transport, and one aggregator for each upstream."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from tests.end_to_end.programs import environment, serving
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.end_to_end.server_harness import ROOT
from tests.peers.toolbox import Json
from tests.postgres.cluster import running_cluster
from tests.postgres.programs import NOT_RUN, find_programs
from tests.replicas.group import group

DIRECT: Final = "direct"
# How the aggregator reaches the fixture; where it is not said, the fixture speaks both eras.
UPSTREAMS: Final = ("stdio", "stdio-legacy", "sse", "http", "http-legacy", "replicas")
# Those of which the fixture knows nothing of 2026-07-28.
HANDSHAKE: Final = frozenset({"stdio-legacy", "sse", "http-legacy"})
# Three processes on one PostgreSQL behind nginx, each request at the next of them; the fixture is reached as by `http`.
REPLICAS: Final = "replicas"
NAME: Final = "fx"

_BOUND: Final = 30.0
_FIXTURE: Final = ("-m", "tests.conformance.fixture")


@asynccontextmanager
async def fixture(folder: Path) -> AsyncIterator[Mapping[str, str]]:
    """The addresses of the fixture's web servers; what these say lies in `folder`."""
    pipe = asyncio.subprocess.PIPE
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with (folder / "fixture.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *_FIXTURE, "web", cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, stderr=log
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_BOUND):
            addresses: dict[str, str] = json.loads(await process.stdout.readline())
        yield addresses
        process.stdin.close()
        async with asyncio.timeout(_BOUND):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def entry(upstream: str, addresses: Mapping[str, str]) -> Json:
    """The upstream as an entry of `mcpServers`."""
    match upstream:
        case "stdio" | "stdio-legacy":
            legacy = upstream == "stdio-legacy"
            only = ["--handshake-only"] if legacy else []
            # The suite leaves calls unanswered that wait for it: over pipes nothing tells their questions from others'.
            apart = {"isolation": "per_session"} if legacy else {}
            return {"command": sys.executable, "args": [*_FIXTURE, "stdio", *only], "cwd": str(ROOT), **apart}
        case "sse":
            return {"type": "sse", "url": addresses["sse"]}
        case "replicas":
            return {"type": "http", "url": addresses["http"]}
        case _:
            return {"type": "http", "url": addresses[upstream]}


def _as_it_grows(server: Json) -> Json:
    """The entry of an upstream that adds tools and prompts while it runs and expects hosts to be told."""
    return {**server, "prefix": "", "on_new": "show"}


@asynccontextmanager
async def aggregator(folder: Path, server: Json) -> AsyncIterator[str]:
    """The address where the suite finds one upstream behind the aggregator, under the fixture's own names."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    path = folder / "aggregator.json"
    settings = {"expose": "all", "storage": f"sqlite:///{folder / 'data.db'}"}
    path.write_text(json.dumps({"mcpServers": {NAME: _as_it_grows(server)}, **settings}))
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(serving(path))
        stack.callback(lambda: (folder / "aggregator.log").write_text("".join(running.log)))
        if server.get("isolation") == "per_session":
            await _one_call(running.url)
        yield f"{running.url}/mcp"


@asynccontextmanager
async def replicas(folder: Path, server: Json) -> AsyncIterator[str]:
    """The address where the suite finds one upstream behind three replicas, under the fixture's own names."""
    programs = find_programs()
    assert programs is not None, NOT_RUN
    with running_cluster(programs) as cluster:
        url = cluster.url(cluster.new_database())
        async with group(folder, url, {NAME: _as_it_grows(server)}) as running:
            try:
                yield f"{running.front}/mcp"
            finally:
                for number, member in enumerate(running.members):
                    (folder / f"aggregator-{number}.log").write_text("".join(member.log))


async def _one_call(url: str) -> None:
    """Make one call, so that a process for hosts with capabilities runs: the suite waits 600 ms, as long as a start."""
    async with over_http(url, MODERN, capabilities={"elicitation": {}}) as host:
        await host.named("test_simple_text")
        await host.call("test_simple_text").result()


@asynccontextmanager
async def targets(wanted: Mapping[str, Path]) -> AsyncIterator[Mapping[str, str]]:
    """The address of each target; `wanted` says where the files of each may lie."""
    async with AsyncExitStack() as stack:
        addresses = await stack.enter_async_context(fixture(wanted[DIRECT]))

        async def address(target: str, folder: Path) -> str:
            if target == DIRECT:
                return addresses[DIRECT]
            start = replicas if target == REPLICAS else aggregator
            return await stack.enter_async_context(start(folder, entry(target, addresses)))

        async with asyncio.TaskGroup() as tasks:
            starting = {target: tasks.create_task(address(target, folder)) for target, folder in wanted.items()}
        yield {target: task.result() for target, task in starting.items()}
