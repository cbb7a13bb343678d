"""Programs are started the same way on both event loops, whichever of the two starts them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from aggregator.upstream.process.process import ChildProcess
from aggregator.upstream.process.spawn import spawn
from tests.peers.watched_pipe import WatchedPipe
from tests.polling import until

ECHO = "import sys; sys.stderr.write('begun\\n'); [print(line, end='', flush=True) for line in sys.stdin]"


def loops() -> list[Callable[[], asyncio.AbstractEventLoop]]:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return [asyncio.new_event_loop]
    return [asyncio.new_event_loop, new_event_loop]


async def start(*command: str, said: list[bytes] | None = None) -> ChildProcess:
    lines: list[bytes] = [] if said is None else said
    return await spawn(lambda: ChildProcess("s", lines.append), *command, start_new_session=True)


@pytest.mark.parametrize("new_loop", loops())
def test_pipes_and_exit(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """E4: what is written comes back, and the end is told with its code and the last words."""

    async def talk() -> None:
        said: list[bytes] = []
        child = await start(sys.executable, "-c", ECHO, said=said)
        assert os.getsid(child.pid) == child.pid
        child.write(b"one\n")
        child.write(b"two\n")
        async with asyncio.timeout(20):
            await until(lambda: b"".join(said) == b"one\ntwo\n", "both lines came back")
            await child.stop(10, asyncio.Event())
        assert await child.exited == 0
        assert list(child.stderr.tail) == ["begun"]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(talk())


@pytest.mark.parametrize("new_loop", loops())
def test_each_pipe_has_one_owner(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E4: the end of a program closes no file that another thread opened under the number of one of its pipes."""
    pipes: list[WatchedPipe] = []

    def watched(descriptor: int, mode: str, size: int) -> WatchedPipe:
        pipes.append(WatchedPipe(descriptor, mode))
        return pipes[-1]

    async def end() -> None:
        child = await start(sys.executable, "-c", ECHO)
        async with asyncio.timeout(20):
            await child.stop(10, asyncio.Event())
            await until(lambda: all(pipe.closed for pipe in pipes), "the pipes are closed")

    monkeypatch.setattr(subprocess, "io", SimpleNamespace(open=watched))
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(end())
    assert pipes
    assert not any(pipe.lost for pipe in pipes)


@pytest.mark.parametrize("new_loop", loops())
def test_a_signal_is_told_as_one(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def end() -> None:
        child = await start(sys.executable, "-c", ECHO)
        os.kill(child.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            assert await child.exited == -signal.SIGKILL
            await child.stop(0, asyncio.Event())

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(end())


@pytest.mark.parametrize("new_loop", loops())
def test_what_cannot_be_started(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def fail() -> None:
        with pytest.raises(FileNotFoundError):
            await start("/nowhere/to/be/found")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(fail())


@pytest.mark.parametrize("new_loop", loops())
def test_given_up_while_it_starts(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """E4: the program is not left running."""

    async def give_up() -> None:
        made: list[ChildProcess] = []

        def make() -> ChildProcess:
            made.append(ChildProcess("s", None))
            return made[0]

        starting = asyncio.ensure_future(spawn(make, sys.executable, "-c", ECHO, start_new_session=True))
        for _ in range(100):
            if not made:
                await asyncio.sleep(0)
        starting.cancel()
        async with asyncio.timeout(20):
            with pytest.raises(asyncio.CancelledError):
                await starting
        if made[0].exited.done():
            assert made[0].exited.result() != 0

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(give_up())
