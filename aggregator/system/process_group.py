"""A program with all that it starts, as a process group; POSIX only."""

import os
import signal
import sys
from contextlib import suppress


class ProcessGroup:
    """The process group that a program leads. It takes no resources."""

    __slots__ = ("_group",)

    def __init__(self, pid: int) -> None:
        self._group = pid

    def ask_to_end(self) -> None:
        """Send every process the signal to end, those too that are left of a program that has ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End every process at once."""
        if sys.platform == "win32":
            raise NotImplementedError
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Give up the group; its remaining processes go on."""

    def _signal(self, number: int) -> None:
        if sys.platform == "win32":
            raise NotImplementedError
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)
