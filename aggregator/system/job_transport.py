"""The transport of asyncio for a program in a job: it takes a command line as written, and a thread sees the exit.

asyncio's own takes words alone, and writes them as programs in C read them, which `cmd.exe` does not.
"""

import asyncio
import subprocess
import sys
import threading
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from aggregator.system.job import FLAGS, Job
from aggregator.system.program_words import windows_words

if sys.platform == "win32":
    from asyncio.windows_utils import Popen  # its pipes are overlapped
else:
    from subprocess import Popen

P = TypeVar("P", bound=asyncio.SubprocessProtocol)


class JobTransport(BaseSubprocessTransport):
    """A program in a job, with pipes. `ended` is done when it has exited."""

    tree: Job

    def _start(
        self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **options: Any
    ) -> None:
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._proc = child = Popen(  # noqa: S603
            args, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=bufsize, creationflags=FLAGS, **options
        )
        try:
            self.tree = Job(child.pid)
        except OSError:
            child.kill()
            child.wait()
            raise
        threading.Thread(target=self._watch, args=(child,), daemon=True, name=f"end of {child.pid}").start()

    def _watch(self, child: "subprocess.Popen[bytes]") -> None:
        code = child.wait()
        try:
            self._loop.call_soon_threadsafe(self._on_exit, code)
        except RuntimeError:
            return  # the loop has ended

    def _on_exit(self, code: int) -> None:
        self.ended.set_result(None)
        self._process_exited(code)


async def spawn_in_job(
    make_protocol: Callable[[], P], command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> tuple[JobTransport, P]:
    """Start a program in a job, with pipes for stdin, stdout and stderr; return its transport and protocol.

    Raises:
        OSError, ValueError: as of `subprocess.Popen`; an argument cannot be passed to a batch file.
    """
    words = await asyncio.to_thread(windows_words, command, args, env, cwd)
    loop = asyncio.get_running_loop()
    protocol, connected = make_protocol(), loop.create_future()
    pipe = subprocess.PIPE
    transport = JobTransport(loop, protocol, words, False, pipe, pipe, pipe, 0, connected, env=dict(env), cwd=cwd)
    try:
        await connected
    except BaseException:
        # As asyncio does: the program would be left running.
        transport.close()
        await transport.ended
        raise
    return transport, protocol
