"""Memory: what the aggregator itself holds, without its upstreams' own processes. Linux only (`/proc`)."""

import time
from pathlib import Path
from typing import Final

from benchmarks.calls import Loader
from benchmarks.host import HttpHost, list_tools
from benchmarks.report import Table
from benchmarks.systems import Rivals, System, aggregator_over_http, echo_server, write_config

UPSTREAMS: Final = (1, 32)
LOAD_SECONDS: Final = 3.0
# The database is opened, and the tools are indexed, a moment after the start.
SETTLED_SECONDS: Final = 5.0


def measure(folder: Path, rivals: Rivals) -> Table:
    """Resident memory after the list was read, a while later, and after a load of calls; of each aggregator in turns.

    Each has a database of its own, which is new for one upstream and of an earlier start for many.
    """
    rows = []
    for upstreams in UPSTREAMS:
        for at, (name, program) in enumerate(rivals.programs.items()):
            own = folder / f"memory-{at}"
            own.mkdir(exist_ok=True)
            config = write_config(own, {f"echo{number}": echo_server() for number in range(upstreams)})
            with aggregator_over_http(config, program=program) as (url, pid):
                host = HttpHost(url)
                host.initialize()
                tools, _ = list_tools(host)
                first = resident(pid)
                time.sleep(SETTLED_SECONDS)
                idle = resident(pid)
                loader = Loader(System("aggregator", "echo0.echo", url=url))
                calls = loader.round(16, LOAD_SECONDS)["calls"]
                loader.close()
                host.close()
                loaded = f"{resident(pid):.1f} ({calls:,.0f} calls)"
                rows.append([name, str(upstreams), str(len(tools)), f"{first:.1f}", f"{idle:.1f}", loaded])
    later = f"{SETTLED_SECONDS:.0f} s later"
    heads = ("system", "upstreams", "tools", "RSS after tools/list, MiB", later, "after a load")
    return Table("Memory of `aggregator serve`, stdio upstreams not counted", heads, rows)


def resident(pid: int) -> float:
    """Resident memory of one process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no such process: {pid}")
