"""`python -m benchmarks`: calls, start and memory; `python -m benchmarks catalogs FOLDER` replays real servers."""

import argparse
import os
import platform
import tempfile
from pathlib import Path

from benchmarks import calls, catalogs, memory, start
from benchmarks.systems import Rivals

_ALL = ("calls", "start", "memory")


def main() -> None:
    """Print each table as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", choices=(*_ALL, "catalogs"), help="one part only (default: the first three)")
    parser.add_argument("folder", nargs="?", type=Path, help="for catalogs: NAME.json files and their script")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter with `fastmcp`: its proxy is measured too")
    parser.add_argument("--lazy-mcp", metavar="PROGRAM", help="the `lazy-mcp` program: measured too, over stdio")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one round of calls (default: 1)")
    given = parser.parse_args()
    rivals = Rivals(given.fastmcp, given.lazy_mcp)
    what = (given.what,) if given.what else _ALL
    if "catalogs" in what and given.folder is None:
        parser.error("catalogs needs a folder")
    load = ", ".join(f"{number:.2f}" for number in os.getloadavg())
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load before: {load}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if "calls" in what:
            for table in calls.measure(Path(folder), rivals, given.rounds, given.seconds):
                print(table, flush=True)
        if "start" in what:
            print(start.measure(Path(folder), rivals, given.rounds), flush=True)
        if "memory" in what:
            print(memory.measure(Path(folder)), flush=True)
        if "catalogs" in what:
            print(catalogs.measure(Path(folder), given.folder), flush=True)


if __name__ == "__main__":
    main()
