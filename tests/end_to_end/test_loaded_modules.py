"""`aggregator serve` loads no part of a library that it does not use: everyone pays for the memory."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.programs import environment
from tests.end_to_end.scripted_host import ACCEPT, BOUND, ENVELOPE, MODERN, http_client, routing_headers
from tests.end_to_end.server_harness import ROOT, raw_stdio_entry, write_config

UNUSED: Final = {
    "aiohttp",
    "alembic",
    "click",
    "jinja2",
    "mcp",
    "multiprocessing",
    "numpy",
    "opentelemetry",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "starlette",
    "typer",
    "uvicorn.main",
    "uvicorn.supervisors",
    "yaml",
}
# The driver of the database.
DATABASE: Final = "aiosqlite"
# What runs in a fresh interpreter; each prints `True` if all is well.
CASES: Final = {
    "its command line afterwards, by name": (
        "from aggregator.frontends.uvicorn_parts import Config as ours\n"
        "from uvicorn import Config, main\n"
        "print(ours is Config and callable(main))"
    ),
    "its command line afterwards, by attribute": (
        "import aggregator.frontends.uvicorn_parts, uvicorn\n"
        "print(callable(uvicorn.run) and isinstance(uvicorn.__version__, str) and not hasattr(uvicorn, 'nothing'))"
    ),
    "uvicorn before": (
        "from uvicorn import Server\nfrom aggregator.frontends.uvicorn_parts import Server as ours\n"
        "print(ours is Server)"
    ),
}


async def imported(config: Path) -> set[str]:
    """Return the names of all modules that `serve` has imported by its end, after one call."""
    command = [sys.executable, "-X", "importtime", "-m", "aggregator", "serve", "--config", str(config), "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(3 * BOUND):
            while not (found := re.search(r"Streamable HTTP at (https?://\S+)/mcp", lines[-1] if lines else "")):
                lines.append((await process.stderr.readline()).decode())
                assert lines[-1], lines
            message = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "plain.echo", "arguments": {"text": "hello"}, "_meta": ENVELOPE},
            }
            headers = {**ACCEPT, "mcp-protocol-version": MODERN, **routing_headers(message)}
            async with http_client(found[1]) as client:
                answer = await client.post("/mcp", json=message, headers=headers)
            assert "hello" in answer.text
            # The row of the call opens the database.
            while not any(line.rstrip().endswith(f" {DATABASE}") for line in lines):
                lines.append((await process.stderr.readline()).decode())
                assert lines[-1], lines
            process.send_signal(signal.SIGTERM)
            lines += (await process.stderr.read()).decode().splitlines()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


async def test_serving_loads_no_unused_part_of_a_library(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'aggregator.db'}"
    names = await imported(write_config(tmp_path, {"plain": raw_stdio_entry()}, storage=storage))
    assert {DATABASE, "httptools"} <= names
    assert sorted(names & UNUSED) == []


@pytest.mark.parametrize("case", CASES)
def test_the_whole_of_uvicorn(case: str) -> None:
    ran = subprocess.run([sys.executable, "-c", CASES[case]], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("True", "")
