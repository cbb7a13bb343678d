"""Start a child process without a copy of the memory map of this one.

uvloop forks: that takes longer the more memory the aggregator holds, and the event loop stands still until the child
has had the processor. `subprocess`, and with it asyncio's own event loop, uses vfork.
"""

import asyncio
import os
import subprocess
import sys
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Callable
from typing import IO, Any, Final, TypeVar, cast

from aggregator.system.process_tree import ProcessTree
from aggregator.wire.pipes import pipe_for

if sys.platform == "win32":
    from aggregator.system.job_transport import JobTransport, spawn_in_job

P = TypeVar("P", bound=asyncio.SubprocessProtocol)


async def spawn(make_protocol: Callable[[], P], *command: str, **options: Any) -> P:
    """Start a program with pipes for stdin, stdout and stderr; `options` are those of `subprocess.Popen`.

    Windows takes `env` and `cwd` alone of the options: the program is in a job there.

    Raises:
        OSError, ValueError: as of `subprocess.Popen`; on Windows, an argument cannot be passed to a batch file.
    """
    if sys.platform == "win32":
        return (await spawn_in_job(make_protocol, command[0], command[1:], options["env"], options["cwd"]))[1]
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.BaseEventLoop) or not _WATCHABLE:
        return (await loop.subprocess_exec(make_protocol, *command, **options))[1]
    protocol, connected = make_protocol(), loop.create_future()
    pipe = subprocess.PIPE
    transport = _Transport(loop, protocol, command, False, pipe, pipe, pipe, 0, connected, **options)
    try:
        await connected
    except BaseException:
        # As asyncio does: the child would be left running.
        transport.close()
        await transport.ended
        raise
    return protocol


def tree_of(transport: asyncio.SubprocessTransport) -> ProcessTree:
    """Return the tree of a program that `spawn` started."""
    if sys.platform == "win32":
        assert isinstance(transport, JobTransport)
        return transport.tree
    return ProcessTree(transport.get_pid())


class _Transport(BaseSubprocessTransport):
    """A transport of a child on any event loop, on that of asyncio. `ended` completes when the child has exited."""

    def _start(self, args: Any, shell: bool, *pipes: Any, **options: Any) -> None:
        self.ended: asyncio.Future[None] = self._loop.create_future()
        if sys.platform != "linux":
            raise NotImplementedError
        self._proc = child = subprocess.Popen(args, **options)  # noqa: S603
        try:
            self._pidfd = os.pidfd_open(child.pid)
        except OSError:
            child.kill()
            child.wait()
            raise
        for name in ("stdin", "stdout", "stderr"):
            setattr(child, name, pipe_for(self._loop, cast(IO[bytes], getattr(child, name))))
        self._loop.add_reader(self._pidfd, self._on_exit)

    def _on_exit(self) -> None:
        if sys.platform != "linux":
            raise NotImplementedError
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        assert self._proc is not None
        self.ended.set_result(None)
        self._process_exited(self._proc.wait())


def _can_watch() -> bool:
    """Return whether the end of a child can be seen without a signal handler, which is the event loop's."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an old kernel, or a sandbox
        return False
    return True


_WATCHABLE: Final = _can_watch()
