"""A server as a child process: in a process group of its own, within limits, ended with all that it started."""

import asyncio
import errno
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.errors import UpstreamRefused, UpstreamUnavailable
from aggregator.domain.reasons import Reason
from aggregator.domain.text.error_text import error_text
from aggregator.system.batch_line import UnquotableArgument
from aggregator.system.process_tree import TREE_OPTIONS, ProcessTree
from aggregator.upstream.process.containers import ContainerRun
from aggregator.upstream.process.environment import as_named, environment
from aggregator.upstream.process.memory import MemoryReader, can_measure
from aggregator.upstream.process.reaper import VARIABLE
from aggregator.upstream.process.reaper_pipe import CLOSE_GRACE, TERM_GRACE, Reaper
from aggregator.upstream.process.spawn import spawn, tree_of
from aggregator.upstream.process.stderr import StderrLog
from aggregator.upstream.stderr_tail import StderrTail

log = logging.getLogger(__name__)

# Seconds that the last output of a child may take after its exit, and that it may run on without a stdout.
_LAST_BYTES: Final = 0.25
_SILENCE: Final = 0.5

# Bytes a second of a stdout that carries no messages.
_UNREAD_RATE: Final = 2**20
_MIB: Final = 2**20


# A function that takes the next bytes of a child's stdout.
TakeOutput = Callable[[bytes], None]


class ChildProcess(asyncio.SubprocessProtocol):
    """One running child process. Without `on_stdout` its stdout is read and dropped.

    exited: done with its exit code, once its last output has been read.
    silent: done when its stdout has ended and the child has not.
    stderr: its text on stderr.
    """

    def __init__(self, server: str, on_stdout: TakeOutput | None, words: StderrTail | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.silent: asyncio.Future[None] = self._loop.create_future()
        self.stderr = StderrLog(server, words)
        self._on_stdout = on_stdout
        self._unread_output = TokenBucket(_UNREAD_RATE, _UNREAD_RATE)
        self._killed_for: str | None = None
        self._unsent: list[bytes] = []
        self._unsent_size = 0
        self._pipe_in: asyncio.WriteTransport | None = None
        self._readable = {1, 2}
        self._code: int | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._tree: ProcessTree | None = None

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    def write(self, data: bytes) -> None:
        """Queue bytes for stdin; a failure to deliver them shows as the end of the child."""
        if not self._unsent:
            # One system call for all bytes that are written in one turn of the loop.
            self._loop.call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_size += len(data)

    def _flush(self) -> None:
        stdin = self._pipe_in = self._pipe_in or self._stdin()
        if stdin is not None and not stdin.is_closing():
            stdin.write(b"".join(self._unsent))
        self._unsent.clear()
        self._unsent_size = 0

    def close_stdin(self) -> None:
        """End stdin once everything written has been sent."""
        self._flush()
        stdin = self._stdin()
        if stdin is not None:
            stdin.close()

    def unread(self) -> int:
        """Return the number of bytes that the child has not read from its stdin yet."""
        stdin = self._pipe_in = self._pipe_in or self._stdin()
        return self._unsent_size + (stdin.get_write_buffer_size() if stdin is not None else 0)

    def pause(self, seconds: float, fd: int = 1) -> None:
        """Stop reading the stdout of the child, or the pipe `fd`, for a while."""
        pipe = cast(asyncio.ReadTransport | None, self._pipe(fd))
        if pipe is not None and not pipe.is_closing() and pipe.is_reading():
            pipe.pause_reading()
            self._loop.call_later(seconds, self._resume, pipe)

    def end(self, why: str) -> None:
        """Kill the child and all that it started at once; `why` becomes the reason for its end."""
        self._killed_for = why
        assert self._tree is not None
        self._tree.kill()

    def end_reason(self) -> str:
        """Return why a child that has exited ended; the words of the server are its last lines on stderr."""
        if self._killed_for is not None:
            return self._killed_for
        code = self.exited.result()
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        words = " | ".join(list(self.stderr.tail)[-3:])
        return Reason(f"its process ended with {how}", words)

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._tree = tree_of(self._transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1 and self._on_stdout is not None:
            self._on_stdout(data)
            return
        pause = self.stderr.take(data) if fd == 2 else self._unread_output.charge(len(data), self._loop.time())
        if pause:
            self.pause(pause, fd)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._readable.discard(fd)
        if self._code is not None and not self._readable:
            self._end()
        elif fd == 1:
            self._loop.call_later(_SILENCE, self._on_stdout_ended)

    def process_exited(self) -> None:
        assert self._transport is not None
        self._code = self._transport.get_returncode() or 0
        if self._readable:
            # A grandchild may hold the pipes open for any time.
            self._loop.call_later(_LAST_BYTES, self._end)
        else:
            self._end()

    def _end(self) -> None:
        if self.exited.done():
            return
        self.stderr.end()
        self.exited.set_result(self._code or 0)

    def _on_stdout_ended(self) -> None:
        if self._code is None and not self.silent.done():
            self.silent.set_result(None)

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast(asyncio.WriteTransport | None, self._pipe(0))

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return self._transport.get_pipe_transport(fd) if self._transport is not None else None

    @staticmethod
    def _resume(pipe: asyncio.ReadTransport) -> None:
        if not pipe.is_closing():
            pipe.resume_reading()

    async def stop(self, close_grace: float, hurry: asyncio.Event) -> None:
        """Close stdin, wait, terminate the tree, wait, kill it. Each wait is bounded, and ends when `hurry` is set."""
        assert self._transport is not None
        assert self._tree is not None
        self.close_stdin()
        hurried = asyncio.ensure_future(hurry.wait())
        ends: set[asyncio.Future[Any]] = {self.exited, hurried}
        for grace, end in ((close_grace, self._tree.ask_to_end), (TERM_GRACE, self._tree.kill)):
            await asyncio.wait(ends, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            # Also after the child has ended by itself: processes that it started may be left.
            end()
        hurried.cancel()
        await asyncio.wait([self.exited], timeout=TERM_GRACE)
        self._tree.close()
        self._transport.close()


@asynccontextmanager
async def run_child(
    server: str,
    command: str,
    args: tuple[str, ...],
    env: Mapping[str, str],
    cwd: str | None,
    on_stdout: TakeOutput | None,
    reaper: Reaper,
    close_grace: float = CLOSE_GRACE,
    memory_limit: int | None = None,
) -> AsyncIterator[ChildProcess]:
    """Start a program and end it, with all it started, on the way out.

    close_grace: seconds between the end of stdin and SIGTERM, for programs that end when their stdin does.
    memory_limit: bytes that it and all it started may hold; None for any amount.

    Raises:
        UpstreamRefused: the command is not there or may not be run.
        UpstreamUnavailable: the system could not start it now.
    """
    try:
        mark = await reaper.mark()
        env = environment() | as_named(env) | mark
        container = await reaper.container(command, args, env, cwd)
    except OSError as error:
        why = f"what ends {command!r} with the aggregator could not be started: {error_text(error)}"
        raise UpstreamUnavailable(server, f"{server}: {why}.") from error
    args = container.args if container is not None else args
    try:
        if not await asyncio.to_thread(_may_exist, command, env["PATH"]):
            # A look costs a hundredth of an attempt to start it, and does not block the loop.
            raise FileNotFoundError(command)
        # Starting a program blocks the loop for some milliseconds: between two of them, other work gets its turn.
        async with reaper.spawning:
            # Before the start: a cancellation after it would leave the process running.
            await asyncio.sleep(0)
            child = await spawn(
                lambda: ChildProcess(server, on_stdout, reaper.words.of(server)),
                command,
                *args,
                env=env,
                cwd=cwd,
                **TREE_OPTIONS,
            )
    except (FileNotFoundError, NotADirectoryError) as error:
        if cwd is not None and not await asyncio.to_thread(os.path.isdir, cwd):
            raise UpstreamRefused(server, f"{server}: the working folder {cwd!r} does not exist.") from error
        if await asyncio.to_thread(shutil.which, command, path=environment()["PATH"]):
            why = f"{command!r} cannot be run: the interpreter its first line names is not there"
            raise UpstreamRefused(server, f"{server}: {why}.") from error
        raise UpstreamRefused(server, f"{server}: the command {command!r} was not found; {_hint(command)}.") from error
    except PermissionError as error:
        raise UpstreamRefused(server, f"{server}: the command {command!r} may not be run: {error.strerror}.") from error
    except UnquotableArgument as error:
        raise UpstreamRefused(server, f"{server}: {command!r} is a batch file, and {error}.") from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
            raise UpstreamRefused(server, f"{server}: the file {command!r} is not a program.") from error
        raise UpstreamUnavailable(
            server, f"{server}: {command!r} could not be started: {error_text(error)}."
        ) from error
    group = child.pid
    try:
        reaper.watch(group)
        async with Tasks(f"the process of {server}") as tasks:
            if memory_limit is not None:
                tasks.start(_limit_memory(server, child, memory_limit, reaper.memory))
            yield child
    finally:
        await _finish(child, group, reaper, close_grace, mark, container)


async def _limit_memory(server: str, child: ChildProcess, limit: int, memory: MemoryReader) -> None:
    """End a child that takes more memory than its limit."""
    if not can_measure():
        log.warning(
            "%s: this platform does not say what memory processes hold: `limits.memory_limit` has no effect", server
        )
        return
    held = await memory.wait_exceeded(child.pid, limit)
    child.end(
        f"it held {held // _MIB} MiB of memory, more than `limits.memory_limit` in its config allows "
        f"({limit // _MIB} MiB)"
    )


async def _finish(
    child: ChildProcess,
    group: int,
    reaper: Reaper,
    close_grace: float,
    mark: Mapping[str, str],
    container: ContainerRun | None,
) -> None:
    async def stop() -> None:
        await child.stop(reaper.close_grace(close_grace), reaper.hurry)
        if container is not None:
            await reaper.containers.remove(container, reaper.hurry)
        if sys.platform != "win32":
            left = await reaper.orphans.end(mark[VARIABLE], TERM_GRACE)
            if left:
                log.info("%d processes that outlived the server that had started them were ended", left)

    # Any number of cancellations leaves no child running: the stop runs in a task of its own, each wait of which is
    # bounded.
    stopping = asyncio.ensure_future(stop())
    cancelled: asyncio.CancelledError | None = None
    while not stopping.done():
        try:
            await asyncio.wait([stopping])
        except asyncio.CancelledError as error:
            cancelled = error
    reaper.release(group)
    stopping.result()
    if cancelled is not None:
        raise cancelled


def _may_exist(command: str, path: str) -> bool:
    """Return False if a command that is searched in `path` is not there; for other commands only a start can tell."""
    looked_up = not os.path.dirname(command) and "\0" not in command
    return not looked_up or shutil.which(command, path=path or os.defpath) is not None


def _hint(command: str) -> str:
    if " " in command.strip():
        return "it holds spaces: put the words after the first into `args`"
    return "install it or give its full path"
