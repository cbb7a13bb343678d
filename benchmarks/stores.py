"""The cost of the database a call: whole calls on SQLite and on PostgreSQL, in the same run, by processor time too."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Final

from aggregator.audit.capture import Capture
from aggregator.audit.rows import RowMaker
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.database import open_database
from benchmarks.calls import ERAS, compare
from benchmarks.recording import OFF, Recording
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, System, echo_server, free_port, started, write_config
from tests.audit.logs import make_call
from tests.postgres.cluster import Cluster, running_cluster
from tests.postgres.programs import NOT_RUN, find_programs

_AUDITS: Final = (OFF, Recording("audit", "default"), Recording("audit strict", "strict"))
_TOGETHER: Final = (1, 10, 100, 1000)
_ROWS: Final = 300
_SAFE: Final = {"fsync": "on", "full_page_writes": "on"}


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Table]:
    """Each durability on each store, in turns; PostgreSQL runs on this machine, and syncs as it does in earnest."""
    programs = find_programs()
    if programs is None:
        sys.exit(NOT_RUN)
    with running_cluster(programs) as cluster, ExitStack() as stack:
        cluster.stop()
        cluster.start(_SAFE)
        urls = {}
        for variant in _AUDITS:
            stores = {"SQLite": None, "PostgreSQL": cluster.url(cluster.new_database())}
            for store, storage in stores.items():
                if storage is None or variant is not OFF:
                    name = variant.name if variant is OFF else f"{store}, {variant.name}"
                    urls[name] = stack.enter_context(_serving(folder, name, variant, storage))
        yield _rows(folder, cluster, rounds)
        for era in ERAS:
            systems = [System(name, "echo.echo", era=era, url=url) for name, url in urls.items()]
            yield compare(f"Calls and where they are kept, {era} era", systems, rounds, seconds, OFF.name)


def _rows(folder: Path, cluster: Cluster, rounds: int) -> Table:
    """Return what a row costs this process, by how many are written together; it takes no notice of other load."""
    lines: list[tuple[str, ...]] = []
    for together in _TOGETHER:
        urls = {"SQLite": f"sqlite:///{folder}/rows-{together}.db", "PostgreSQL": cluster.url(cluster.new_database())}
        found: dict[str, list[float]] = {name: [] for name in urls}
        for _ in range(rounds):
            for name, url in urls.items():
                found[name].append(asyncio.run(_row_cost(url, together)))
        for name, costs in found.items():
            ratio = median(cost / of for cost, of in zip(costs, found["SQLite"], strict=True))
            lines.append((str(together), name, f"{median(costs):.1f}", f"{ratio:.2f}"))
    heads = ("rows together", "store", "µs a row", "of SQLite")
    return Table("Processor time of the gateway for a row of the audit", heads, lines)


async def _row_cost(url: str, together: int) -> float:
    """Return microseconds of processor time of this process for each row."""
    maker = RowMaker(Capture("none", lambda value: value, 1000))
    async with open_database(url) as database:
        batches = max(_ROWS // together, 10)
        made = [[maker.row(make_call(number)) for number in range(together)] for _ in range(batches)]
        await database.audit.append(ChainBatch(made[0]))
        began = process_time()
        for rows in made:
            await database.audit.append(ChainBatch(rows))
        return (process_time() - began) / (batches * together) * 1e6


@contextmanager
def _serving(folder: Path, name: str, variant: Recording, storage: str | None) -> Iterator[str]:
    place = folder / name.replace(", ", "-").replace(" ", "-")
    place.mkdir()
    settings = {**variant.settings, **({"storage": storage} if storage is not None else {})}
    config = write_config(place, {"echo": echo_server()}, **settings)
    port = free_port()
    with started([*AGGREGATOR, "serve", "--config", str(config), "--port", str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"
