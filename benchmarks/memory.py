"""Memory: what the aggregator itself holds, without its upstreams' own processes. Linux only (`/proc`)."""

from pathlib import Path
from typing import Final

from benchmarks.calls import Loader
from benchmarks.host import HttpHost, list_tools
from benchmarks.report import Table
from benchmarks.systems import System, aggregator_over_http, echo_server, write_config

UPSTREAMS: Final = (1, 32)
LOAD_SECONDS: Final = 3.0


def measure(folder: Path) -> Table:
    """Resident memory after the list was read, and after a load of calls."""
    rows = []
    for upstreams in UPSTREAMS:
        config = write_config(folder, {f"echo{number}": echo_server() for number in range(upstreams)})
        with aggregator_over_http(config) as (url, pid):
            host = HttpHost(url)
            host.initialize()
            tools, _ = list_tools(host)
            idle = resident(pid)
            loader = Loader(System("aggregator", "echo0.echo", url=url))
            calls = loader.round(16, LOAD_SECONDS)["calls"]
            loader.close()
            host.close()
            rows.append([str(upstreams), str(len(tools)), f"{idle:.1f}", f"{resident(pid):.1f} ({calls:,.0f} calls)"])
    heads = ("upstreams", "tools", "RSS after tools/list, MiB", "RSS after a load, MiB")
    return Table("Memory of `aggregator serve`, stdio upstreams not counted", heads, rows)


def resident(pid: int) -> float:
    """Resident memory of one process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no such process: {pid}")
