"""`python -m benchmarks`: calls, steps, policies, traces, start, memory; with a FOLDER: `catalogs`, `tokens`, `levels`,
`pins`; a FILE: `retrieval`, `tasks`. By name: `soak`, `dead`, `large`, `pinned`, `console`, `workers`, `stores`,
`access`, `code`, `results` and `flows`.
`calls`, `pinned`, `steps`, `start` and `memory` take the folder of another checkout, with its own `.venv`, to be
measured beside this one."""

import argparse
import os
import platform
import tempfile
from pathlib import Path

from benchmarks import (
    access,
    calls,
    catalog_starts,
    catalogs,
    code,
    console,
    dead,
    flows,
    large,
    levels,
    memory,
    pinned,
    pins,
    policies,
    requests,
    results,
    retrieval,
    soak,
    start,
    steps,
    stores,
    tasks,
    tokens,
    traces,
    workers,
)
from benchmarks.systems import Rivals

_LONG = ("pinned", "soak", "dead", "large", "console", "workers", "stores", "access", "code", "results", "flows")
# What can be measured of another checkout too.
_BESIDE = ("calls", "pinned", "steps", "start", "memory")
_ALL = ("calls", "steps", "policies", "traces", "start", "memory")


def main() -> None:
    """Print each table as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parts = (*_ALL, *_LONG, "catalogs", "tokens", "levels", "pins", "retrieval", "tasks")
    parser.add_argument(
        "what", nargs="?", choices=parts, help="one part only (default: the short ones that need no folder)"
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="NAME.json files, for catalogs also their script; for retrieval a file; or another checkout",
    )
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter with `fastmcp`: its proxy is measured too")
    parser.add_argument("--lazy-mcp", metavar="PROGRAM", help="the `lazy-mcp` program: measured too, over stdio")
    parser.add_argument("--catalogs", type=Path, metavar="FOLDER", help="NAME.json files, for tasks and requests")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one round of calls (default: 1)")
    parser.add_argument("--minutes", type=float, default=3.0, help="length of the soak (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the soak, and of random results (default: 1)")
    parser.add_argument("--servers", type=int, default=93, help="servers that catalogs starts (default: 93)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the audit for console (default: 1000000)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="a policy for flows (default: the published one)")
    parser.add_argument("--tools", type=int, default=3_000, help="tools for console (default: 3000)")
    given = parser.parse_args()
    what = (given.what,) if given.what else _ALL
    if given.folder is None and not set(what) <= {*_ALL, *_LONG}:
        parser.error(f"{what[0]} needs a folder or a file")
    if what == ("tasks",) and given.catalogs is None:
        parser.error("tasks needs --catalogs FOLDER")
    rivals = Rivals(given.fastmcp, given.lazy_mcp, given.folder if what[0] in _BESIDE else None)
    load = ", ".join(f"{number:.2f}" for number in os.getloadavg())
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load before: {load}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if "calls" in what:
            for table in calls.measure(Path(folder), rivals, given.rounds, given.seconds):
                print(table, flush=True)
        if "pinned" in what:
            print(pinned.measure(Path(folder), rivals, given.rounds, given.seconds), flush=True)
        if "steps" in what:
            for table in steps.measure(Path(folder), given.rounds, given.folder):
                print(table, flush=True)
        if "stores" in what:
            for table in stores.measure(Path(folder), given.rounds, given.seconds):
                print(table, flush=True)
        if "access" in what:
            for table in access.measure(Path(folder), given.rounds):
                print(table, flush=True)
        if "results" in what:
            for table in results.measure(given.rounds, given.seed):
                print(table, flush=True)
        if "policies" in what:
            for table in policies.measure(Path(folder), given.rounds, given.seconds):
                print(table, flush=True)
        if "traces" in what:
            for table in traces.measure(Path(folder), given.rounds, given.seconds):
                print(table, flush=True)
        if "start" in what:
            for table in start.measure(Path(folder), rivals, given.rounds):
                print(table, flush=True)
        if "memory" in what:
            print(memory.measure(Path(folder), rivals), flush=True)
        if "soak" in what:
            for table in soak.measure(Path(folder), given.minutes, given.seed):
                print(table, flush=True)
        if "dead" in what:
            for table in dead.measure(Path(folder), given.rounds, given.seconds):
                print(table, flush=True)
        if "large" in what:
            for table in large.measure(Path(folder)):
                print(table, flush=True)
        if "console" in what:
            for table in console.measure(Path(folder), given.rows, given.tools, given.rounds, given.seconds):
                print(table, flush=True)
        if "workers" in what:
            for table in workers.measure(Path(folder), given.rounds, given.seconds):
                print(table, flush=True)
        if "code" in what:
            for table in code.measure(Path(folder)):
                print(table, flush=True)
        if "flows" in what:
            for table in flows.measure(Path(folder), given.policy):
                print(table, flush=True)
        if "catalogs" in what:
            for table in catalog_starts.measure(Path(folder), given.folder, given.servers, given.rounds):
                print(table, flush=True)
            print(catalogs.measure(Path(folder), given.folder), flush=True)
        if "retrieval" in what:
            if given.catalogs:
                print(requests.measure(given.folder, given.catalogs), flush=True)
            else:
                print(retrieval.measure(given.folder), flush=True)
        if "tasks" in what:
            print(tasks.measure(Path(folder), given.folder, given.catalogs), flush=True)
        if "levels" in what:
            print(levels.measure(given.folder), flush=True)
        if "pins" in what:
            for table in pins.measure(given.folder, given.rounds, given.seed):
                print(table, flush=True)
        if "tokens" in what:
            print(tokens.measure(given.folder), flush=True)


if __name__ == "__main__":
    main()
