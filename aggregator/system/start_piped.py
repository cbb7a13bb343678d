"""Start a program whose three streams are read and written as streams of asyncio."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence

from aggregator.system.process_tree import TREE_OPTIONS, ProcessTree

if sys.platform == "win32":
    from aggregator.system.job_transport import spawn_in_job


async def start_piped(
    command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None, limit: int
) -> tuple[Process, ProcessTree]:
    """Return a running program and its tree; `limit` is the longest line that is read.

    Raises:
        OSError, ValueError: the program cannot be started.
    """
    if sys.platform == "win32":
        loop = asyncio.get_running_loop()
        transport, protocol = await spawn_in_job(
            lambda: SubprocessStreamProtocol(limit=limit, loop=loop), command, args, env, cwd
        )
        return Process(transport, protocol, loop), transport.tree
    process = await asyncio.create_subprocess_exec(
        command, *args, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(env), cwd=cwd, limit=limit, **TREE_OPTIONS
    )
    return process, ProcessTree(process.pid)
