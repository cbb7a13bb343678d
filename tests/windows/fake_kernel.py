"""A stand-in for the kernel's job objects: the functions of `aggregator.system.job_kernel`, over process groups.

What it cannot act out: that the system ends a job when its last handle is closed by the end of a killed process, and
that no process can leave a job.
"""

import os
import signal
from contextlib import suppress
from itertools import count
from typing import Final

CREATE_SUSPENDED: Final = 0x0000_0004

# Programs that were started and not let go on; and the processes of each open job.
suspended: Final[set[int]] = set()
jobs: Final[dict[int, set[int]]] = {}
_handles: Final = count(4, 4)


def create_job() -> int:
    handle = next(_handles)
    jobs[handle] = set()
    return handle


def assign(job: int, pid: int) -> None:
    assert pid in suspended, "a program must not run before it is in its job"
    jobs[job].add(pid)


def resume(pid: int) -> None:
    assert any(pid in processes for processes in jobs.values()), "a program must not run before it is in its job"
    suspended.remove(pid)


def terminate(job: int) -> None:
    for pid in jobs[job]:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def close(handle: int) -> None:
    terminate(handle)
    del jobs[handle]
