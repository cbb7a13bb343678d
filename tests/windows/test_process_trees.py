"""Both kinds of process trees keep one contract: what a program started ends with it."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.system import job
from aggregator.system.job import Job
from aggregator.system.process_group import ProcessGroup
from tests import ON_WINDOWS
from tests.peers.processes import is_alive
from tests.polling import until
from tests.windows import fake_kernel
from tests.windows.likeness import PopenInJob

# Starts another program that ignores SIGTERM, tells its number, and waits.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); "
                          "print(1, flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""

Start = Callable[[], tuple["subprocess.Popen[Any]", Any]]


@pytest.fixture
def _jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(job, "job_kernel", fake_kernel)
    before = len(fake_kernel.jobs)
    yield
    assert len(fake_kernel.jobs) == before, "a job was left open"
    assert not fake_kernel.suspended


def in_group() -> tuple["subprocess.Popen[Any]", Any]:
    child = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    return child, ProcessGroup(child.pid)


def in_job() -> tuple["subprocess.Popen[Any]", Any]:
    child = PopenInJob(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, creationflags=job.FLAGS
    )
    return child, Job(child.pid)


@pytest.mark.usefixtures("_jobs")
@pytest.mark.parametrize("start", [in_job] if ON_WINDOWS else [in_group, in_job])
async def test_what_a_program_started_ends_with_it(start: Start) -> None:
    """Also after the program itself has ended."""
    child, tree = start()
    assert child.stdout is not None
    assert child.stdin is not None
    grandchild = int(await asyncio.to_thread(child.stdout.readline))
    assert is_alive(grandchild)
    child.stdin.close()
    await asyncio.to_thread(child.wait)
    assert is_alive(grandchild)
    tree.kill()
    await until(lambda: not is_alive(grandchild), "what it left has ended")
    tree.close()
    child.stdout.close()


@pytest.mark.usefixtures("_jobs")
async def test_the_close_of_a_job_ends_it() -> None:
    """As the system does once the gateway has ended, however it did; a second close does nothing."""
    child, tree = in_job()
    assert child.stdin is not None
    assert child.stdout is not None
    tree.close()
    assert await asyncio.to_thread(child.wait) == -9
    tree.close()
    tree.kill()
    child.stdin.close()
    child.stdout.close()


@pytest.mark.usefixtures("_jobs")
async def test_a_program_that_gets_no_job_never_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the protection there is no program: the job is closed, and the error is raised."""

    def refuse(handle: int, pid: int) -> None:
        raise OSError(5, "Access is denied")

    monkeypatch.setattr(fake_kernel, "assign", refuse)
    child = PopenInJob([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, creationflags=job.FLAGS)
    with child:
        try:
            with pytest.raises(OSError, match="denied"):
                Job(child.pid)
            assert child.pid in fake_kernel.suspended
        finally:
            fake_kernel.suspended.discard(child.pid)
            child.kill()
