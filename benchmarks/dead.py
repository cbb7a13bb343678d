"""Start, idle and calls with a hundred upstreams of which sixty are dead, beside the forty living ones alone.

Linux only (`/proc`).
"""

import http.client
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from benchmarks.calls import compare
from benchmarks.host import HttpHost, list_tools
from benchmarks.memory import resident
from benchmarks.report import Table
from benchmarks.systems import System, aggregator_over_http, echo_server, free_port, write_config

LIVING: Final = 40
DEAD: Final = 60
# How long both are left alone before they are watched, and for how long that is done.
SETTLED: Final = 45.0
WATCHED: Final = 30.0
_LIMIT: Final = 300.0


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """Start and idle as one table, calls as another."""
    living = {f"living{number}": echo_server() for number in range(LIVING)}
    with dead_servers() as dead:
        configs = {"40 living": living, "40 living, 60 dead": {**living, **dead}}
        starts: dict[str, list[_Start]] = {name: [] for name in configs}
        for number in range(rounds):
            for name, servers in configs.items():
                starts[name].append(_started(_config(folder, f"{name} {number}", servers)))
        with ExitStack() as stack:
            systems, pids = [], {}
            for name, servers in configs.items():
                url, pids[name] = stack.enter_context(aggregator_over_http(_config(folder, name, servers)))
                _list_whole(url)
                systems.append(System(name, "living7.echo", url=url))
            time.sleep(SETTLED)
            yield _idle(starts, pids)
            yield compare("Calls of a living upstream", systems, rounds, seconds, "40 living")


@contextmanager
def dead_servers() -> Iterator[dict[str, Any]]:
    """Return twelve servers of each fault: refused connection, no such command, no answer, crash loop, and 401."""
    with _silent() as silent, _closed() as locked:
        kinds: list[Mapping[str, Any]] = [
            {"type": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"},
            {"command": "no-such-command-anywhere"},
            {"type": "http", "url": silent, "limits": {"connect_timeout": "5s"}},
            {"command": sys.executable, "args": ["-I", "-S", "-c", "raise SystemExit('it cannot start')"]},
            {"type": "http", "url": locked},
        ]
        yield {f"dead{number}": dict(kinds[number % len(kinds)]) for number in range(DEAD)}


@contextmanager
def _silent() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"


class _Locked(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the log line."""


@contextmanager
def _closed() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Locked)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _config(folder: Path, name: str, servers: Mapping[str, Any]) -> Path:
    """In a folder of its own, so that nothing is known from an earlier start."""
    place = folder / name.replace(",", "").replace(" ", "-")
    place.mkdir()
    return write_config(place, servers)


class _Start(NamedTuple):
    """Seconds from the start of the process: until all the living are ready, and until a list holds all their tools."""

    ready: float
    listed: float


def _started(config: Path) -> _Start:
    began = time.perf_counter()
    with aggregator_over_http(config) as (url, _):
        _until(lambda: _ready(url) == LIVING)
        ready = time.perf_counter() - began
        _list_whole(url)
        return _Start(ready, time.perf_counter() - began)


def _list_whole(url: str) -> None:
    host = HttpHost(url)
    host.initialize()
    _until(lambda: len(list_tools(host)[0]) == LIVING)
    host.close()


def _ready(url: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", "/readyz")
    servers = json.loads(connection.getresponse().read())["servers"]
    connection.close()
    return sum(server["state"] == "ready" for server in servers.values())


def _until(come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not come():
        if time.monotonic() > deadline:
            raise RuntimeError("the living did not all come up")
        time.sleep(0.05)


def _idle(starts: Mapping[str, list[_Start]], pids: Mapping[str, int]) -> Table:
    before = {name: processor_time(pid) for name, pid in pids.items()}
    time.sleep(WATCHED)
    rows = []
    for name, pid in pids.items():
        own, children = (now - then for now, then in zip(processor_time(pid), before[name], strict=True))
        rows.append(
            [
                name,
                *(_seconds(taken) for taken in zip(*starts[name], strict=True)),
                f"{own / WATCHED * 1e3:.2f}",
                f"{children / WATCHED * 1e3:.2f}",
                f"{resident(pid):.1f}",
                str(len(os.listdir(f"/proc/{pid}/fd"))),
            ]
        )
    heads = (
        "upstreams",
        "the living ready, s",
        "first list that has them all, s",
        "idle: own CPU, ms/s",
        "children's, ms/s",
        "RSS, MiB",
        "files",
    )
    return Table(f"Start and {WATCHED:g} s of idling, {SETTLED:g} s after it", heads, rows)


def _seconds(taken: tuple[float, ...]) -> str:
    return f"{statistics.median(taken):.2f} ({min(taken):.2f}-{max(taken):.2f})"


def processor_time(pid: int) -> tuple[float, float]:
    """Seconds of a process itself, and of those it started that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / tick, (int(fields[13]) + int(fields[14])) / tick
