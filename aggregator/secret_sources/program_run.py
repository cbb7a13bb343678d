"""One run of a program whose output is wanted: without a terminal, in a process group of its own, within limits.

Law: the run ends in time with any program, and its process group with it. What it printed is in no error.
"""

import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import IO, Final

from aggregator.system.batch_line import UnquotableArgument
from aggregator.system.process_tree import TREE_OPTIONS, ProcessTree
from aggregator.system.program_words import program_words

# Bytes that a program may print.
MOST: Final = 64 * 1024
# Seconds between two looks at whether the run is to end, and seconds that the last output may take after the exit.
_LOOK: Final = 0.05
_LAST_BYTES: Final = 0.25
_CHUNK: Final = 16 * 1024
# Seconds after which a killed program that the system cannot end is left to it.
_ENDS_WITHIN: Final = 1.0


class ProgramFailed(Exception):
    """A run without a usable output. Its text goes on the name of the program, as in `was not found`."""


class ProgramRun:
    """One run in the thread that calls `output`; `cancel` may be called from any thread."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._tree: ProcessTree | None = None
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End the run now, and its processes; without one, none begins."""
        self._cancelled.set()
        with self._lock:
            if self._tree is not None:
                self._tree.kill()

    def output(
        self, words: Sequence[str], environ: Mapping[str, str], limit: float, folder: str | None = None
    ) -> bytes:
        """Run a program and return its stdout. Its stdin and stderr are empty.

        limit: seconds.

        Raises:
            ProgramFailed: it could not be started, failed, took too long, or printed too much.
        """
        deadline = time.monotonic() + limit
        process = self._start(words, environ, folder)
        try:
            data = _read(process, lambda: self._goes_on(process, deadline))
            self._wait(process, deadline)
        except TimeoutError:
            raise ProgramFailed(f"took longer than {limit:g} s") from None
        finally:
            with self._lock:
                # Also after it has ended by itself: it may have left others in its group.
                if self._tree is not None:
                    self._tree.kill()
                    self._tree.close()
                self._tree = None
            _finish(process)
        code = process.returncode
        if code:
            raise ProgramFailed(f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}")
        return data

    def _start(self, words: Sequence[str], environ: Mapping[str, str], folder: str | None) -> subprocess.Popen[bytes]:
        if self._cancelled.is_set():
            raise ProgramFailed("was not started")
        try:
            process = subprocess.Popen(  # noqa: S603 - the program is one that the operator allowed, and no shell
                program_words(words[0], words[1:], environ, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=folder,
                env=dict(environ),
                **TREE_OPTIONS,
            )
        except FileNotFoundError:
            raise ProgramFailed("was not found") from None
        except PermissionError:
            raise ProgramFailed("may not be run") from None
        except UnquotableArgument as error:
            raise ProgramFailed(f"is a batch file, and {error}") from None
        except (OSError, ValueError, subprocess.SubprocessError):
            raise ProgramFailed("could not be started") from None
        try:
            tree = ProcessTree(process.pid)
        except OSError:
            process.kill()
            _finish(process)
            raise ProgramFailed("could not be started") from None
        with self._lock:
            self._tree = tree
            if self._cancelled.is_set():
                tree.kill()
        return process

    def _goes_on(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        """Return False once the program has ended. Raises TimeoutError, ProgramFailed."""
        if self._cancelled.is_set():
            raise ProgramFailed("was given up")
        if time.monotonic() >= deadline:
            raise TimeoutError
        return process.poll() is None

    def _wait(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        while self._goes_on(process, deadline):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)


# A function that returns False once the program has ended, and raises what ends the run.
_IsRunning = Callable[[], bool]
# A function that returns the next bytes of a pipe, nothing at its end, and None if none came for a moment.
_NextBytes = Callable[[], bytes | None]


def _read(process: subprocess.Popen[bytes], goes_on: _IsRunning) -> bytes:
    """Return all that is printed: up to the end of the pipe, or a moment after the program has ended.

    A process that the program left behind may hold the pipe open for any time.
    """
    assert process.stdout is not None
    parts: list[bytes] = []
    size, ended_at = 0, inf
    next_bytes = _polled(process.stdout.fileno()) if sys.platform != "win32" else _read_aside(process.stdout)
    while time.monotonic() < ended_at + _LAST_BYTES:
        data = next_bytes()
        if data == b"":
            break
        if data:
            parts.append(data)
            size += len(data)
        if size > MOST:
            raise ProgramFailed(f"printed more than {MOST // 1024} KiB")
        if not goes_on():
            ended_at = min(ended_at, time.monotonic())
    return b"".join(parts)


def _polled(fd: int) -> _NextBytes:
    if sys.platform == "win32":
        raise NotImplementedError
    poll = select.poll()
    poll.register(fd, select.POLLIN)

    def next_bytes() -> bytes | None:
        return os.read(fd, _CHUNK) if poll.poll(_LOOK * 1000) else None

    return next_bytes


def _read_aside(stdout: IO[bytes]) -> _NextBytes:
    """Read in a thread, where pipes cannot be polled; it ends with the pipe, and closes it."""
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        data = b"begun"
        with stdout:
            while data:
                try:
                    data = stdout.read(_CHUNK)
                except OSError:
                    data = b""
                received.put(data)

    def next_bytes() -> bytes | None:
        with suppress(queue.Empty):
            return received.get(timeout=_LOOK)
        return None

    threading.Thread(target=read, daemon=True, name="output").start()
    return next_bytes


def _finish(process: subprocess.Popen[bytes]) -> None:
    """Release the resources of a killed program."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_WITHIN)
    if process.stdout is not None and sys.platform != "win32":
        process.stdout.close()
