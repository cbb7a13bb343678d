"""Everything at once, by a seed: upstreams die, hang, flap and come back while eight hosts call."""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import RpcError

from .raw_http import RawHttp, raw_http, raw_sse
from .stage import BOUND, Stage, Way, alive, lines_of, server, staged, stdio

CALLS = 40
HOSTS = 8
# What a call may come to, besides its result: each says what happened.
ENDS = {"upstream_timeout", "upstream_unavailable", "outcome_unknown", "upstream_bad_answer", "upstream_http_error"}


def upstreams(log: Path, web: RawHttp, events: RawHttp) -> tuple[ServerConfig, ...]:
    return (
        stdio("steady", log=log),
        stdio("frail", log=log, timeout=1),
        stdio("crashes", "leaves_after_list", log=log, protocol="legacy", timeout=1),
        stdio("mute", "mute", log=log, connect_timeout=0.3),
        server("web", type="http", url=web.url, timeout=1, connect_timeout=1),
        server("events", type="sse", url=events.url, timeout=1, connect_timeout=1, heartbeat=0.3),
    )


async def one_call(stage: Stage, chance: random.Random, ends: Counter[str]) -> None:
    name = chance.choice(["steady.echo", "frail.echo", "frail.leave", "frail.hang", "crashes.echo", "mute.echo"])
    name = chance.choice([name, "web.echo", "events.echo"])
    call = asyncio.create_task(stage.call(name, Way(), say=name))
    if chance.random() < 0.1:
        await asyncio.sleep(0)
        call.cancel()
    try:
        result = await call
    except asyncio.CancelledError:
        ends["cancelled"] += 1
    except RpcError as error:
        ends["unknown tool" if error.code == -32602 else f"error {error.code}"] += 1
    else:
        refusal = (result.get("_meta") or {}).get("aggregator/error")
        assert refusal is not None or result["content"][0]["text"] == name
        ends["result" if refusal is None else refusal["code"]] += 1


async def host(stage: Stage, seed: int, ends: Counter[str]) -> None:
    chance = random.Random(seed)  # noqa: S311
    for _ in range(CALLS):
        await one_call(stage, chance, ends)


async def weather(web: RawHttp, events: RawHttp, seed: int) -> None:
    """The two servers over HTTP go down and come back, without end."""
    chance = random.Random(seed)  # noqa: S311
    while True:
        raw = chance.choice([web, events])
        await raw.stop()
        await asyncio.sleep(chance.random() / 50)
        await raw.start()
        await asyncio.sleep(chance.random() / 10)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def children() -> set[str]:
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return set(path.read_text().split()) if path.exists() else set()


@pytest.mark.parametrize("seed", [1, 20260728])
async def test_every_call_has_one_end_and_nothing_is_left(seed: int, tmp_path: Path) -> None:
    """A7, A8, C4, C11, D11: exactly one answer each; no task, process or descriptor outlives it."""
    log = tmp_path / "log"
    ends: Counter[str] = Counter()
    tasks, offspring, open_files = len(asyncio.all_tasks()), children(), descriptors()
    async with raw_http() as web, raw_sse() as events:
        async with staged(*upstreams(log, web, events)) as stage:
            storm = asyncio.create_task(weather(web, events, seed))
            async with asyncio.timeout(3 * BOUND):
                await asyncio.gather(*(host(stage, seed + number, ends) for number in range(HOSTS)))
            storm.cancel()
            await asyncio.gather(storm, return_exceptions=True)
            await stage.say("steady.echo")
            assert all(link.in_flight == 0 for link in stage.app.links.values())
        if not web._server or not web._server.is_serving():
            await web.start()
        if not events._server or not events._server.is_serving():
            await events.start()
    await asyncio.sleep(0)
    assert ends.total() == HOSTS * CALLS
    assert set(ends) <= ENDS | {"result", "cancelled", "unknown tool"}, ends
    assert ends["result"] > HOSTS
    assert not [line for line in lines_of(log) if line.startswith("start") and alive(int(line.split()[1]))]
    assert children() == offspring
    assert len(asyncio.all_tasks()) == tasks
    assert descriptors() <= open_files
