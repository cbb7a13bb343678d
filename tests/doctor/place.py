"""A machine of its own for each test: home, working folder, configuration and host files in a temporary folder."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.every_host import host_named
from aggregator.hosts.model import Machine
from tests import with_folders_of_windows
from tests.end_to_end.programs import ProgramResult, run
from tests.end_to_end.scripted_host import BOUND

SERVER: Final = Path(__file__).with_name("small_server.py")
# A canary: no output may hold it.
SECRET: Final = "canary-0123456789-abcdef"
_COMMAND: Final = re.compile(r"(?i)\brun `([^`]+)`")
Json = dict[str, Any]


@dataclass(frozen=True)
class Examined:
    """The output of `aggregator doctor --json`."""

    report: Json
    result: ProgramResult

    @property
    def codes(self) -> set[str]:
        return {finding["code"] for finding in self.report["findings"]}

    def of(self, code: str) -> Json:
        """Return the first finding with a code."""
        found: Json = next(finding for finding in self.report["findings"] if finding["code"] == code)
        return found


class Place:
    """One machine; `env` are variables of the commands that are run on it."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.home, self.here, self.stack = folder / "home", folder / "here", stack
        self.home.mkdir()
        self.here.mkdir()
        home = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
        }
        self.env = with_folders_of_windows({**home, "NO_PROXY": "localhost,127.0.0.1"})
        self.config = self.home / ".config" / "aggregator" / "aggregator.json"
        self.args: list[str] = []
        self.port = free_port()

    # -- what is on the machine

    def server(self, *args: str, **fields: Any) -> Json:
        """An entry for a server that works, or misbehaves as its arguments say."""
        return {"command": sys.executable, "args": [str(SERVER), *args], **fields}

    def configure(self, servers: Mapping[str, Json] | None = None, /, **settings: Any) -> Path:
        """Write the user's configuration, which only its owner may read."""
        named = {"box": self.server()} if servers is None else dict(servers)
        http = {"port": self.port, **settings.pop("http", {})}
        return self.write(self.config, json.dumps({"mcpServers": named, "http": http, **settings}))

    def write(self, path: Path, text: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(0o600)
        return path

    def policy(self, text: str) -> Path:
        return self.write(self.config.parent / "policies" / "agents.yaml", text)

    def program(self, name: str, text: str | bytes) -> Path:
        """Write a program into a folder that is on the shell's PATH, not on that of a desktop host."""
        path = self.write(self.home / "bin" / name, text)
        path.chmod(0o755)
        self.env["PATH"] = f"{path.parent}{os.pathsep}{os.environ['PATH']}"
        return path

    def entry(self, *args: str, **fields: Any) -> Json:
        """An entry by which a host starts this program."""
        words = ["-m", "aggregator", "stdio", "--config", str(self.config), *args]
        return {"command": sys.executable, "args": words, **fields}

    def host_file(self, host: str) -> Path:
        machine = Machine("linux", self.home, self.env, self.here)
        return next(file.path for file in host_named(host).files(machine) if file.scope == "user")

    def install(self, entries: Mapping[str, Json] | None = None, host: str = "claude-desktop") -> Path:
        """Write the file of a host, by default with one good entry."""
        named = {"aggregator": self.entry()} if entries is None else dict(entries)
        return self.write(self.host_file(host), json.dumps({"mcpServers": named}))

    # -- what is done there

    async def examine(self, *args: str) -> Examined:
        """Run the doctor."""
        result = await run("doctor", "--json", *self.args, *args, cwd=self.here, stdin=b"", **self.env)
        assert result.out, result
        assert SECRET not in result.out + result.err
        assert "Traceback" not in result.err
        return Examined(json.loads(result.out), result)

    async def aggregator(self, *args: str) -> ProgramResult:
        """Run another command of ours."""
        return await run(*args, cwd=self.here, stdin=b"", **self.env)

    def shell(self, fix: str) -> None:
        """Run the command that a fix names, in a shell, with our program on its PATH."""
        found = _COMMAND.search(fix)
        assert found is not None, fix
        # Without a terminal to say yes at, `install` only shows what it would write.
        command = re.sub(r"aggregator install \S+", r"\g<0> --write", found[1])
        command = command.replace("aggregator init", "aggregator init --yes")
        path = os.pathsep.join((str(Path(sys.executable).parent), self.env.get("PATH", os.environ["PATH"])))
        env = {**os.environ, **self.env, "PATH": path}
        ended = subprocess.run(["sh", "-c", command], cwd=self.here, env=env, capture_output=True, timeout=BOUND)
        assert ended.returncode == 0, (command, ended)

    async def start(self, *command: str, ready: bytes = b"") -> asyncio.subprocess.Process:
        """Start a program for the rest of the test; wait until stderr has a text."""
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.here, env={**os.environ, **self.env}, stderr=asyncio.subprocess.PIPE
        )
        self.stack.callback(_kill, process)
        assert process.stderr is not None
        async with asyncio.timeout(BOUND):
            while ready and (line := await process.stderr.readline()):
                if ready in line:
                    break
        self.stack.push_async_callback(_ended, process)
        return process

    async def serve(self, *args: str) -> None:
        """Run the gateway on its port for the rest of the test."""
        await self.start(
            sys.executable, "-m", "aggregator", "serve", "--port", str(self.port), *args, ready=b"/v1, for applications"
        )


def edit(path: Path, change: Any) -> None:
    """Change a JSON file by a function of its root."""
    root = json.loads(path.read_text())
    change(root)
    path.write_text(json.dumps(root))


def quoted(path: Path) -> str:
    return shlex.quote(str(path))


def free_port() -> int:
    """A port that is free now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    async with asyncio.timeout(BOUND):
        await process.communicate()
