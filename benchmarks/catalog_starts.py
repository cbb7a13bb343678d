"""Starts in front of many real catalogs: nothing known, with the lists kept from before, and the bare programs.

The bare programs are the floor: started, and asked `initialize` and `tools/list`, by a client that does nothing else.
"""

import http.client
import os
import resource
import selectors
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.catalogs import replay_script
from benchmarks.dead import processor_time
from benchmarks.host import HttpHost, list_tools
from benchmarks.messages import INITIALIZE, INITIALIZED, request
from benchmarks.report import Table
from benchmarks.systems import aggregator_over_http, python_server, write_config

# Seconds after which the lists are in the database.
_KEPT: Final = 15.0
_POLL: Final = 0.05

Start = tuple[float, float]
"""Seconds until the list was complete, and processor time until then: of the aggregator, or of the bare programs."""


def measure(folder: Path, catalogs: Path, count: int, rounds: int) -> Iterator[Table]:
    """Yield the medians of so many rounds, each with a new database."""
    script = str(replay_script(catalogs))
    names = [path.stem for path in sorted(catalogs.glob("*.json"))]
    servers = {
        f"{names[at % len(names)]}-{at // len(names)}": python_server("-S", "-E", script, names[at % len(names)])
        for at in range(count)
    }
    taken: dict[str, list[Start]] = {"bare programs": [], "nothing known": [], "lists kept": []}
    tools = 0
    for number in range(rounds):
        place = folder / f"starts-{number}"
        place.mkdir()
        config = write_config(place, servers)
        taken["bare programs"].append(_bare([[one["command"], *one["args"]] for one in servers.values()]))
        start, tools = _start(config, wait=True)
        taken["nothing known"].append(start)
        start, again = _start(config, wait=False)
        taken["lists kept"].append(start)
        if again != tools:
            raise RuntimeError(f"{again} tools were listed from the kept lists, and {tools} by the servers")
    medians = {way: [statistics.median(part) for part in zip(*starts, strict=True)] for way, starts in taken.items()}
    floor = medians["bare programs"][0]
    rows = [[way, f"{took:.2f}", f"{used:.2f}", f"{took / floor:.1f}"] for way, (took, used) in medians.items()]
    heads = ("start", "list complete, s", "processor time until then, s", "of bare programs")
    yield Table(f"{count} catalogs, {tools} tools, median of {rounds}", heads, rows)


def _start(config: Path, *, wait: bool) -> tuple[Start, int]:
    """Start the aggregator and list its tools; with `wait`, wait for every server, and until its list is kept."""
    began = time.perf_counter()
    with aggregator_over_http(config) as (url, pid):
        host = HttpHost(url)
        host.initialize()
        tools, _ = list_tools(host)
        while wait and not _ready(url):
            time.sleep(_POLL)
            tools = []
        tools = tools or list_tools(host)[0]
        seconds, (used, _) = time.perf_counter() - began, processor_time(pid)
        host.close()
        if wait:
            time.sleep(_KEPT)
    return (seconds, used), len(tools)


def _ready(url: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/readyz")
    status = connection.getresponse().status
    connection.close()
    return status == http.client.OK


def _bare(commands: Sequence[Sequence[str]]) -> Start:
    """Start the programs, and read the list of each."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = (request("legacy", 1, "initialize", INITIALIZE), INITIALIZED, request("legacy", 2, "tools/list", {}))
    running = []
    with selectors.DefaultSelector() as waiting:
        for command in commands:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n".join(asked) + b"\n")
            waiting.register(process.stdout, selectors.EVENT_READ, {"lines": 0})
            running.append(process)
        while waiting.get_map():
            for key, _ in waiting.select():
                state: dict[str, Any] = key.data
                data = os.read(key.fd, 2**20)
                state["lines"] += data.count(b"\n")
                if state["lines"] == 2 or not data:
                    waiting.unregister(key.fileobj)
    seconds = time.perf_counter() - began
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, _used(after) - _used(before)


def _used(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime
