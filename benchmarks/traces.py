"""The cost of recording every call: whole calls through the HTTP frontend. `steps` has their parts."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.calls import ERAS, compare
from benchmarks.recording import OFF, Recording, receiver
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, System, echo_server, free_port, started, write_config

VARIANTS: Final = (
    OFF,
    Recording("audit", "default"),
    Recording("audit, metrics", "default", True),
    Recording("audit, tracing", "default", tracing=True),
    Recording("audit strict", "strict"),
)


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """Both eras, each way beside the others."""
    with receiver() as url, ExitStack() as stack:
        urls = {variant.name: stack.enter_context(_serving(folder, variant, url)) for variant in VARIANTS}
        for era in ERAS:
            systems = [System(variant.name, "echo.echo", era=era, url=urls[variant.name]) for variant in VARIANTS]
            yield compare(f"Calls and what is kept of them, {era} era", systems, rounds, seconds, OFF.name)


@contextmanager
def _serving(folder: Path, variant: Recording, url: str) -> Iterator[str]:
    """`aggregator serve` that keeps so much of its calls."""
    place = folder / variant.folder
    place.mkdir()
    config = write_config(place, {"echo": echo_server()}, **variant.settings)
    port = free_port()
    program = AGGREGATOR if variant.metrics else (sys.executable, "-m", "benchmarks.without_metrics")
    variables = [f"{name}={value}" for name, value in variant.variables(url).items()]
    with started(["env", *variables, *program, "serve", "--config", str(config), "--port", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"
