"""Start a module of this package in a Python process of its own, which can be killed while it works."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Final

# Environment variables by which an interpreter finds its own parts.
_INHERITED: Final = ("PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


async def start_module(module: str) -> Process:
    """Return a process that runs a module, with pipes for its stdin and stdout.

    Raises:
        OSError: it does not start.
    """
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        # The process imports the same modules as this one; it needs nothing else of the environment.
        env={
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
    )
