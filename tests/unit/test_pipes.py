"""Pipes on both event loops: each descriptor is closed once, so that no file of another thread is."""

import asyncio
import os
from collections.abc import Callable

import pytest

from aggregator.frontends.stdio import _chunks
from aggregator.frontends.stdout import open_stdout
from aggregator.wire.pipes import pipe_for
from tests.peers.watched_pipe import WatchedPipe

uvloop = pytest.importorskip("uvloop")
NewLoop = Callable[[], asyncio.AbstractEventLoop]
both_loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@both_loops
def test_stdout(new_loop: NewLoop) -> None:
    """D11: the end of a host's session closes no file that was opened meanwhile."""
    end, given = os.pipe()
    stdout = WatchedPipe(given, "wb")

    async def write() -> None:
        out = open_stdout(stdout, 1000)
        async with out.on(stdout):
            out.write(b"one\n")

    with asyncio.Runner(loop_factory=new_loop) as runner, open(end, "rb") as read:
        runner.run(write())
        assert stdout.closed
        assert not stdout.lost
        assert read.read() == b"one\n"


@both_loops
def test_stdin(new_loop: NewLoop) -> None:
    """D11: as stdout."""
    given, end = os.pipe()
    stdin = WatchedPipe(given, "rb")

    async def read() -> bytes:
        return b"".join([data async for data in _chunks(stdin)])

    with asyncio.Runner(loop_factory=new_loop) as runner:
        with open(end, "wb") as written:
            written.write(b"one\n")
        assert runner.run(read()) == b"one\n"
        runner.run(asyncio.sleep(0))
        assert stdin.closed
        assert not stdin.lost


def test_a_pipe_that_is_not_connected_is_closed_with_its_file() -> None:
    given, end = os.pipe()
    os.close(end)
    loop, file = uvloop.new_event_loop(), WatchedPipe(given, "rb")
    pipe_for(loop, file).close()
    loop.close()
    assert file.closed
    assert not file.lost
