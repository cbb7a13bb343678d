"""A server as a child process: its own process group, stderr into the log, ended with everything it started."""

import asyncio
import errno
import logging
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, cast

from aggregator.domain.errors import UpstreamRefused, UpstreamUnavailable

log = logging.getLogger(__name__)

# How long a server may take to leave after its stdin closed, and after SIGTERM (S/basic/transports/stdio, Shutdown).
CLOSE_GRACE: Final = 2.0
TERM_GRACE: Final = 2.0
# How long what it wrote may still be on its way after it left, and how long it may live on without its stdout.
_LAST_BYTES: Final = 0.25
_SILENCE: Final = 0.5

STDERR_KEPT: Final = 20
STDERR_LINE_LIMIT: Final = 8192

# What a server may see of our environment: never more, since the rest may hold other servers' secrets.
_INHERITED: Final = frozenset(
    {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
    | {"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR"}
)


class Child(asyncio.SubprocessProtocol):
    """One running child; `write` and `pause` speak to its pipes.

    `exited` is done with its exit code, once what it wrote before has been read; `silent` when its stdout has ended
    and it has not.
    """

    def __init__(self, server: str, on_stdout: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.silent: asyncio.Future[None] = self._loop.create_future()
        self.stderr_tail: deque[str] = deque(maxlen=STDERR_KEPT)
        self._server_log = logging.getLogger(f"aggregator.server.{server}")
        self._on_stdout = on_stdout
        self._stderr_rest = b""
        self._outbox: list[bytes] = []
        self._outbox_size = 0
        self._readable = {1, 2}
        self._code: int | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    def write(self, data: bytes) -> None:
        """Queue bytes for the child's stdin; what cannot be delivered shows as the child's end."""
        if not self._outbox:
            # One system call for all that is written in one turn of the loop.
            self._loop.call_soon(self._flush)
        self._outbox.append(data)
        self._outbox_size += len(data)

    def _flush(self) -> None:
        stdin = self._stdin()
        if stdin is not None and not stdin.is_closing():
            stdin.write(b"".join(self._outbox))
        self._outbox.clear()
        self._outbox_size = 0

    def unread(self) -> int:
        """Bytes the child has not read from its stdin yet."""
        stdin = self._stdin()
        return self._outbox_size + (stdin.get_write_buffer_size() if stdin is not None else 0)

    def pause(self, seconds: float) -> None:
        """Leave the child's stdout unread for a while."""
        stdout = cast(asyncio.ReadTransport | None, self._pipe(1))
        if stdout is not None and not stdout.is_closing() and stdout.is_reading():
            stdout.pause_reading()
            self._loop.call_later(seconds, self._resume, stdout)

    def last_words(self) -> str:
        """The last lines of stderr, for an error message; empty when there were none."""
        return " | ".join(list(self.stderr_tail)[-3:])

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._on_stdout(data)
        else:
            *lines, rest = (self._stderr_rest + data).split(b"\n")
            self._stderr_rest = rest[-STDERR_LINE_LIMIT:]
            for line in lines:
                self._stderr(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._readable.discard(fd)
        if self._code is not None and not self._readable:
            self._end()
        elif fd == 1:
            self._loop.call_later(_SILENCE, self._fall_silent)

    def process_exited(self) -> None:
        assert self._transport is not None
        self._code = self._transport.get_returncode() or 0
        if self._readable:
            # A child of its own may hold the pipes for as long as it likes.
            self._loop.call_later(_LAST_BYTES, self._end)
        else:
            self._end()

    def _end(self) -> None:
        if self.exited.done():
            return
        if self._stderr_rest:
            self._stderr(self._stderr_rest)
        self.exited.set_result(self._code or 0)

    def _fall_silent(self) -> None:
        if self._code is None and not self.silent.done():
            self.silent.set_result(None)

    def _stderr(self, line: bytes) -> None:
        text = line[:STDERR_LINE_LIMIT].decode("utf-8", "replace").rstrip()
        if text:
            self.stderr_tail.append(text)
            self._server_log.info("%s", text)

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast(asyncio.WriteTransport | None, self._pipe(0))

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return self._transport.get_pipe_transport(fd) if self._transport is not None else None

    @staticmethod
    def _resume(pipe: asyncio.ReadTransport) -> None:
        if not pipe.is_closing():
            pipe.resume_reading()

    async def stop(self, close_grace: float) -> None:
        """Close stdin, wait, terminate the group, wait, kill it. Every wait is bounded; children of children go too."""
        assert self._transport is not None
        self._flush()
        stdin = self._stdin()
        if stdin is not None:
            stdin.close()
        for grace, number in ((close_grace, signal.SIGTERM), (TERM_GRACE, getattr(signal, "SIGKILL", signal.SIGTERM))):
            await asyncio.wait([self.exited], timeout=grace)
            # Also after the leader left by itself: what it started may still be there.
            _signal_group(self.pid, number)
        await asyncio.wait([self.exited], timeout=TERM_GRACE)
        self._transport.close()


class Warden:
    """Our end of the pipe to `warden.py`; started with the first child, POSIX only."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self.spawning = asyncio.Lock()

    async def watch(self, group: int) -> None:
        """From now on the group ends when we do."""
        if os.name != "posix":
            return
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(__file__).with_name("warden.py")),
                    stdin=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
        self._say(f"+{group}\n")

    def release(self, group: int) -> None:
        """The group has ended."""
        self._say(f"-{group}\n")

    async def close(self) -> None:
        """Let the warden go; it has nothing left to do."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(TERM_GRACE + CLOSE_GRACE):
                    await self._process.wait()

    def _say(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(line.encode())


@asynccontextmanager
async def running(
    server: str,
    command: str,
    args: tuple[str, ...],
    env: Mapping[str, str],
    cwd: str | None,
    on_stdout: Callable[[bytes], None],
    warden: Warden,
    close_grace: float = CLOSE_GRACE,
) -> AsyncIterator[Child]:
    """Start a program and end it, with all it started, on the way out.

    `close_grace` is for programs that end when their stdin does; others need none.

    Raises:
        UpstreamRefused: the command is not there or may not be run.
        UpstreamUnavailable: the system could not start it now.
    """
    loop = asyncio.get_running_loop()
    try:
        # Starting a program holds the loop for some milliseconds: between two of them, others get their turn.
        async with warden.spawning:
            _, child = await loop.subprocess_exec(
                lambda: Child(server, on_stdout),
                command,
                *args,
                env=environment() | dict(env),
                cwd=cwd,
                start_new_session=True,
            )
            await asyncio.sleep(0)
    except (FileNotFoundError, NotADirectoryError) as error:
        if cwd is not None and not await asyncio.to_thread(os.path.isdir, cwd):
            raise UpstreamRefused(server, f"{server}: the working folder {cwd!r} does not exist.") from error
        if await asyncio.to_thread(shutil.which, command, path=environment()["PATH"]):
            why = f"{command!r} cannot be run: the interpreter its first line names is not there"
            raise UpstreamRefused(server, f"{server}: {why}.") from error
        raise UpstreamRefused(server, f"{server}: the command {command!r} was not found; {_hint(command)}.") from error
    except PermissionError as error:
        raise UpstreamRefused(server, f"{server}: the command {command!r} may not be run: {error.strerror}.") from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
            raise UpstreamRefused(server, f"{server}: the file {command!r} is not a program.") from error
        raise UpstreamUnavailable(server, f"{server}: {command!r} could not be started: {error}.") from error
    group = child.pid
    try:
        await warden.watch(group)
        yield child
    finally:
        await _finish(child, group, warden, close_grace)


async def _finish(child: Child, group: int, warden: Warden, close_grace: float) -> None:
    # A second cancellation must not leave the child behind: the stop runs on in its own task and is waited for.
    stopping = asyncio.ensure_future(child.stop(close_grace))
    try:
        await asyncio.shield(stopping)
    except asyncio.CancelledError:
        await stopping
        raise
    finally:
        warden.release(group)


def _hint(command: str) -> str:
    if " " in command.strip():
        return "it holds spaces: put the words after the first into `args`"
    return "install it or give its full path"


def environment() -> dict[str, str]:
    """What every child gets; our own program folder ends its PATH, so that what is installed with us is found."""
    env = {key: value for key, value in os.environ.items() if key in _INHERITED or key.startswith("LC_")}
    env["PATH"] = os.pathsep.join(filter(None, [env.get("PATH", os.defpath), str(Path(sys.executable).parent)]))
    return env


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(group, number)
        else:
            os.kill(group, number)
