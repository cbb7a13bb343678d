"""What it costs that every call leaves a trace: whole calls through the HTTP door. `steps` has their parts."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.calls import ERAS, compare
from benchmarks.kept import OFF, Kept, receiver
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, System, echo_server, free_port, started, write_config

WAYS: Final = (
    OFF,
    Kept("audit", "default"),
    Kept("audit, metrics", "default", True),
    Kept("audit, tracing", "default", tracing=True),
    Kept("audit strict", "strict"),
)


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """Both eras, each way beside the others."""
    with receiver() as url, ExitStack() as stack:
        urls = {way.name: stack.enter_context(_serving(folder, way, url)) for way in WAYS}
        for era in ERAS:
            systems = [System(way.name, "echo.echo", era=era, url=urls[way.name]) for way in WAYS]
            yield compare(f"Calls and what is kept of them, {era} era", systems, rounds, seconds, OFF.name)


@contextmanager
def _serving(folder: Path, way: Kept, url: str) -> Iterator[str]:
    """`aggregator serve` that keeps so much of its calls."""
    place = folder / way.folder
    place.mkdir()
    config = write_config(place, {"echo": echo_server()}, **way.settings)
    port = free_port()
    program = AGGREGATOR if way.metrics else (sys.executable, "-m", "benchmarks.uncounted")
    variables = [f"{name}={value}" for name, value in way.variables(url).items()]
    with started(["env", *variables, *program, "serve", "--config", str(config), "--port", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"
