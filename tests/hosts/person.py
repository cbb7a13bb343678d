"""A person who runs `aggregator import` at home."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import with_folders_of_windows
from tests.end_to_end.forked_program import start_program
from tests.hosts.grounds import put

if sys.platform != "win32":
    import pty

ROOT = Path(__file__).parents[2]
CLAUDE = Path(".config") / "Claude" / "claude_desktop_config.json"
CURSOR = Path(".cursor") / "mcp.json"
# Seconds.
_PRESSES_AGAIN = 1.0


@dataclass(frozen=True)
class Person:
    """A person with a home and a working folder, who runs the command."""

    home: Path
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / ".config" / "aggregator" / "aggregator.json"

    @property
    def servers(self) -> dict[str, Any]:
        servers: dict[str, Any] = json.loads(self.config.read_text())["mcpServers"]
        return servers

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = asyncio.run(self._run_to_its_end(args))
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    async def _run_to_its_end(self, args: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        program = await start_program(("import", *args), self.folder, self.whole_environ())
        try:
            async with asyncio.timeout(60):
                out, err = await program.communicate()
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        assert program.returncode is not None
        return subprocess.CompletedProcess(args, program.returncode, out.decode(), err.decode())

    def at_terminal(self, *args: str, answers: str, interrupt: bool = False) -> str:
        """Run the command at a terminal of its own, and return what stands there after it.

        `interrupt`: end it at its first question, as Ctrl+C does.
        """
        keyboard, terminal = pty.openpty()
        program = subprocess.Popen(
            [sys.executable, "-m", "aggregator", "import", *args],
            cwd=self.folder,
            env=self.whole_environ(),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        os.write(keyboard, answers.encode())
        shown = b""
        while True:
            if interrupt and b"[y/N]" in shown:
                program.send_signal(signal.SIGINT)
                # A signal that comes just before Python begins to read interrupts nothing: a person presses again.
                interrupt = not select.select([keyboard], [], [], _PRESSES_AGAIN)[0]
                if interrupt:
                    continue
            try:
                part = os.read(keyboard, 4096)
            except OSError:  # Linux says so when the program has closed the terminal
                break
            if not part:
                break
            shown += part
        os.close(keyboard)
        assert program.wait(30) in (0, 1, -signal.SIGINT)
        return shown.decode()

    def whole_environ(self) -> dict[str, str]:
        home = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            **with_folders_of_windows(home),
            **self.environ,
        }


def claude(person: Person, servers: dict[str, Any]) -> None:
    put(person.home / CLAUDE, json.dumps({"mcpServers": servers}))


def cursor(person: Person, servers: dict[str, Any]) -> None:
    put(person.home / CURSOR, json.dumps({"mcpServers": servers}))


def outcomes(person: Person, *args: str) -> dict[str, tuple[str, str | None]]:
    """Return the outcome and the key of every entry, by host and name."""
    report = json.loads(person.run("--json", *args).stdout)
    return {
        f"{file['host']}/{server['name']}": (server["outcome"], server["key"])
        for file in report["files"]
        for server in file["servers"]
    }
