"""The systems under test: each a server started on a free port, or the command that a host would start itself."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.load import MARK
from benchmarks.messages import Era

ROOT: Final = Path(__file__).resolve().parent.parent
HERE: Final = Path(__file__).resolve().parent

ECHO: Final = (sys.executable, "-I", "-S", str(HERE / "echo_stdio.py"))
AGGREGATOR: Final = (sys.executable, "-m", "aggregator")


@dataclass(frozen=True, slots=True)
class System:
    """Something to call: the aggregator, a rival, or the upstream itself."""

    name: str
    tool: str
    era: Era = "legacy"
    url: str | None = None
    command: Sequence[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"text": MARK})
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Rivals:
    """The installed places of other gateways, where they are measured too.

    `checkout` is another checkout of this project, with its own `.venv`.
    """

    fastmcp: str | None = None
    lazy_mcp: str | None = None
    checkout: Path | None = None

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        """The commands of the aggregators to measure, by name: this one, and that of the other checkout."""
        if self.checkout is None:
            return {"aggregator": AGGREGATOR}
        # Not `python -m`: that would find the package in the current folder.
        program = str(self.checkout.resolve() / ".venv" / "bin" / "aggregator")
        return {"aggregator": AGGREGATOR, f"aggregator in {self.checkout}": (program,)}


def echo_server(*options: str) -> dict[str, Any]:
    """The config entry of one stdio upstream."""
    return python_server(*ECHO[1:], *options)


def python_server(*args: str) -> dict[str, Any]:
    """The config entry of a stdio upstream that runs in this Python."""
    return {"command": sys.executable, "args": list(args)}


def write_config(folder: Path, servers: Mapping[str, Any], **more: Any) -> Path:
    """A configuration file for these servers."""
    path = folder / f"aggregator-{len(servers)}-{'-'.join(servers)[:20]}.json"
    storage = f"sqlite+aiosqlite:///{folder / 'aggregator.db'}"
    path.write_text(json.dumps({"mcpServers": servers, "storage": storage, **more}))
    return path


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(command: Sequence[str], port: int | None = None, stderr: Path | None = None) -> Iterator[int]:
    """A process while it is needed; gives its pid, once something listens on `port`."""
    with open(stderr or os.devnull, "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, env=_environment(command)
        )
    try:
        if port is not None:
            _wait_for(port, process)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()


@contextmanager
def echo_over_http() -> Iterator[str]:
    """The HTTP upstream's address."""
    port = free_port()
    with started([sys.executable, "-m", "benchmarks.echo_http", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def aggregator_over_http(
    config: Path, stderr: Path | None = None, program: Sequence[str] = AGGREGATOR, options: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """`aggregator serve`: its address and its pid."""
    port = free_port()
    command = [*program, "serve", "--config", str(config), "--port", str(port), *options]
    with started(command, port, stderr) as pid:
        yield f"http://127.0.0.1:{port}/mcp", pid


def aggregator_over_stdio(config: Path, program: Sequence[str] = AGGREGATOR) -> list[str]:
    """The command of `aggregator stdio`."""
    return [*program, "stdio", "--config", str(config)]


@contextmanager
def fastmcp_over_http(python: str, config: Path) -> Iterator[tuple[str, int]]:
    """FastMCP's proxy over the same servers: its address and its pid."""
    port = free_port()
    with started([python, str(HERE / "fastmcp_proxy.py"), str(config), str(port)], port) as pid:
        yield f"http://127.0.0.1:{port}/mcp", pid


def fastmcp_over_stdio(python: str, config: Path) -> list[str]:
    """The command of FastMCP's proxy as a stdio server."""
    return [python, str(HERE / "fastmcp_proxy.py"), str(config), "stdio"]


def lazy_mcp_over_stdio(program: str, folder: Path) -> list[str]:
    """The command of lazy-mcp over the stdio upstream."""
    path = folder / "lazy-mcp.json"
    path.write_text(json.dumps({"servers": [{"name": "echo", "description": "echo", "command": list(ECHO)}]}))
    return [program, "--config", str(path)]


@contextmanager
def lazy_mcp_over_http(program: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Run the HTTP endpoint of lazy-mcp before the stdio upstream; gives its address and its pid."""
    port = free_port()
    command = [*lazy_mcp_over_stdio(program, folder), "--transport", "http", "--port", str(port)]
    with started(command, port) as pid:
        yield f"http://127.0.0.1:{port}/mcp", pid


@contextmanager
def relay_over_http(letter: str, config: Path) -> Iterator[tuple[str, int]]:
    """Relay A or B over the server of a configuration: its address and its pid."""
    port = free_port()
    with started([sys.executable, "-m", f"benchmarks.relay_{letter}", str(config), str(port)], port) as pid:
        yield f"http://127.0.0.1:{port}/mcp", pid


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} did not listen on {port}")


def _environment(command: Sequence[str]) -> dict[str, str]:
    """Return the environment of a program; what runs in this Python finds this checkout first."""
    return {**os.environ, "PYTHONPATH": str(ROOT)} if command[0] == sys.executable else dict(os.environ)
