"""The bounds of a program's process that the kernel holds, should the interpreter not hold its own."""

import os
import sys
from contextlib import suppress
from math import ceil
from typing import Final

from aggregator.code.sandbox.bounds import ProgramLimits

if sys.platform == "linux":
    from resource import RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE, prlimit

# Programs give way to the gateway where both want the processor.
_NICENESS: Final = 10
# The address space of an idle process, several times over, and extra seconds beside the program's own.
_OWN_SPACE: Final = 512 * 2**20
_OWN_SECONDS: Final = 5


def bound_process(process: int, limits: ProgramLimits) -> None:
    """Lower a process's priority, and on Linux forbid it to open files, connections and programs.

    Its pipes stay open. If the system refuses a bound, the bounds of the interpreter remain.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, _NICENESS)
    if sys.platform == "linux":
        for kind, most in (
            # Its stdin, stdout and stderr.
            (RLIMIT_NOFILE, 3),
            (RLIMIT_FSIZE, 0),
            (RLIMIT_CORE, 0),
            (RLIMIT_AS, 2 * limits.memory + _OWN_SPACE),
            (RLIMIT_CPU, 2 * ceil(limits.seconds) + _OWN_SECONDS),
        ):
            with suppress(OSError, ValueError):
                prlimit(process, kind, (most, most))
