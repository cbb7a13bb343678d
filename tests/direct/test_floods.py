"""Many connections that come and go, and what they leave: nothing."""

import asyncio
import gc
import os
import weakref
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.request_cache import HEAD_KEPT, HEADS_KEPT
from tests.bounds.web_harness import RawConnection
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    DirectHarness,
    HttpHost,
    ask,
    child,
    direct_harness,
    request,
    text,
)
from tests.end_to_end.scripted_host import MODERN
from tests.polling import until

PLAIN: Final = {"name": "old.any", "arguments": {"n": 1}}


async def _comes_and_goes(it: DirectHarness, random: Random) -> None:
    """Connect, make a few calls that are answered at once, late or never, and leave at any moment."""
    async with RawConnection(it.port) as connection:
        host = HttpHost(connection, MODERN, {})
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            for _ in range(3):
                await ask(host, PLAIN)
            for number in range(random.randrange(4)):
                writes = random.choice([None, [], [text("x" * 100_000)], ["}"]])
                script = {} if writes is None else {"writes": writes}
                host.send(request(host, {"name": "old.any", "arguments": script}, number))
                for _ in range(random.randrange(20)):
                    await asyncio.sleep(0)
            whole = host.bytes_of(request(host, PLAIN))
            host.connection.send(whole[: random.randrange(len(whole))])
        if random.random() < 0.5:
            connection.writer.close()


async def test_connections_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: after any of it nothing is left: no task, descriptor, object or place, and calls are answered."""
    random = Random(5)  # noqa: S311 - the moments
    connections: list[weakref.ref[BoundedConnection]] = []
    made = BoundedConnection.connection_made

    def making(self: BoundedConnection, transport: asyncio.Transport) -> None:
        connections.append(weakref.ref(self))
        made(self, transport)

    monkeypatch.setattr(BoundedConnection, "connection_made", making)
    # A call that is never answered ends with its time.
    servers = {"old": child("legacy", timeout=2), "new": child("modern")}
    async with direct_harness(tmp_path, monkeypatch, servers) as it:
        async with it.host(*HOST_KINDS[3]) as host:
            for _ in range(2):
                await ask(host, PLAIN)
        tasks, files = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            await asyncio.gather(*(_comes_and_goes(it, random) for _ in range(16)))
        assert DIRECT in it.ways
        await until(lambda: len(it.app.gateway.drain) == 0, "all calls have ended")
        await until(lambda: len(asyncio.all_tasks()) <= tasks, "all tasks have ended")
        await until(lambda: len(os.listdir("/proc/self/fd")) <= files, "all connections are closed")
        it.nothing_is_left()
        assert len(it.records) == len(it.ways), "every call is on record"
        it.forget()
        gc.collect()
        left = [one for made in connections if (one := made()) is not None]
        assert not left
        async with it.host(*HOST_KINDS[3]) as host:
            assert (await ask(host, PLAIN)).answer["result"]


async def test_what_a_connection_remembers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: a few heads that are not long, of calls whose `_meta` is not large."""
    async with direct_harness(tmp_path, monkeypatch) as it, it.host(*HOST_KINDS[3]) as host:
        for number in range(HEADS_KEPT + 3):
            for _ in range(2):
                await ask(host, PLAIN, x_number=str(number))
                assert it.way in (PIPELINE, DIRECT)
            assert it.way == DIRECT
        await ask(host, PLAIN, x_number=str(HEADS_KEPT + 2))
        assert it.way == DIRECT
        await ask(host, PLAIN, x_number="0")
        assert it.way == PIPELINE
        for params, more in (
            ({**PLAIN, "_meta": {"com.example/a": "x" * 5000}}, {}),
            (PLAIN, {"x_long": "x" * HEAD_KEPT}),
        ):
            for _ in range(3):
                await ask(host, params, **more)
                assert it.way == PIPELINE
