"""Other processes on the same file: Python text run beside the test, line by line in step with it."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE: Final = 30.0

# Every script: `url` is the database, `say(...)` a line to the test, `hear()` a line from it.
_FRAME: Final = """
import asyncio, sys, time
import tests  # first, for the lane `windows`
from aggregator.storage.database import open_database
from aggregator.storage.records import KeyRecord
url = sys.argv[1]
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
async def main():
{body}
asyncio.run(main())
"""


class OtherProcess:
    """A process that runs a script; `read` waits for its next line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the other process ended with {self.process.wait(PATIENCE)}"
        return line.strip()

    def write(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> str:
        """Kill the process with SIGKILL; return its unread lines."""
        self.process.kill()
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.process.wait(PATIENCE)
        return rest

    def done(self) -> str:
        """Wait for the end with exit code 0; return the unread lines."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return out


@contextmanager
def other_process(url: str, body: str) -> Iterator[OtherProcess]:
    """Run `body`, the inside of an async function, in a process of its own."""
    script = _FRAME.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, "-c", script, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environ,
    ) as process:
        try:
            yield OtherProcess(process)
        finally:
            process.kill()
