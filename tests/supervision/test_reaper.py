"""The small process that ends what a killed aggregator left: which groups it ends, and that signals do not end it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from aggregator.upstream.process import process
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper
from tests.faults.app_harness import BOUND
from tests.peers.processes import is_alive
from tests.polling import until

SLEEPER: Final = "import time; print('up', flush=True); time.sleep(600)"
PROGRAM: Final = Path(process.__file__).with_name("reaper.py")


@asynccontextmanager
async def sleeper() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in a group of its own."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", SLEEPER, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ignores_all(pid: int) -> bool:
    """Return whether a process ignores all of the signals; one or two it may have been started with."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return all(int(mask, 16) >> (number - 1) & 1 for number in SIGNALS)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_signal_to_everything_does_not_end_it_before_its_work_is_done(number: signal.Signals) -> None:
    """Proves: C3. A service manager signals every process of a unit; the servers must still be ended afterwards."""
    reaper = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(PROGRAM), "none.", stdin=asyncio.subprocess.PIPE
    )
    assert reaper.stdin is not None
    async with sleeper() as group:
        reaper.stdin.write(f"+{group.pid}\n".encode())
        await until(lambda: ignores_all(reaper.pid), "it has begun")
        reaper.send_signal(number)
        reaper.stdin.close()
        async with asyncio.timeout(BOUND):
            assert await reaper.wait() == 0
            assert await group.wait() == -signal.SIGTERM


async def test_a_group_that_has_ended_is_signalled_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C3. Its number may be another program's by then."""
    listed: set[int] = set()
    reaper = Reaper()
    said = reaper._send

    def follow(line: str) -> None:
        (listed.add if line[0] == "+" else listed.discard)(int(line[1:]))
        said(line)

    monkeypatch.setattr(reaper, "_send", follow)
    try:
        async with asyncio.timeout(BOUND):
            async with run_child("x", sys.executable, ("-c", SLEEPER), {}, None, None, reaper, 0.0) as child:
                assert listed == {os.getpgid(child.pid)}
            assert listed == set()
            assert not is_alive(child.pid)
    finally:
        await reaper.close()
