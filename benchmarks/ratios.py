"""The ratios of the aggregator to relay A, held against those that are kept in README.md.

Run as `sh scripts/bench`; it ends with 1 if a ratio has fallen by more than a tenth. `--write` keeps the new ones.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import pinned
from benchmarks.report import Table
from benchmarks.systems import HERE, ROOT, Rivals

PAGE: Final = HERE / "README.md"
BEGIN: Final = "<!-- Ratios: written by `sh scripts/bench --write`. -->"
END: Final = "<!-- End of the ratios. -->"
# By column: whether more is better.
RATIOS: Final = {"calls/s of A": True, "p50 of A": False, "CPU of A": False, "CPU of direct": False}
WORST: Final = 0.9

Ratios = Mapping[tuple[str, ...], float]
"""By transports, calls in flight, and column."""


def main() -> int:
    """Measure, print the table, and compare it or keep it."""
    parser = argparse.ArgumentParser(prog="sh scripts/bench", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the ratios in benchmarks/README.md")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each measurement (default: 7)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one round of calls (default: 1)")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter with `fastmcp`: its proxy is measured too")
    parser.add_argument("--lazy-mcp", metavar="PROGRAM", help="the `lazy-mcp` program: measured too, over stdio")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"Load before: {load:.2f}. What else runs on the machine spoils the ratios.\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        table = pinned.measure(Path(folder), Rivals(given.fastmcp, given.lazy_mcp), given.rounds, given.seconds)
    print(table, flush=True)
    text = PAGE.read_text(encoding="utf-8")
    if given.write:
        PAGE.write_text(with_table(text, table, _origin(load)), encoding="utf-8")
        return 0
    found = list(fallen(kept(text), of_rows(table.heads, table.rows)))
    print("\n".join(found) or "No ratio has fallen by more than a tenth.")
    return 1 if found else 0


def kept(page: str) -> Ratios:
    """Read the ratios in the table of a page."""
    lines = [line for line in _parts(page)[1].splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return of_rows(heads, rows)


def of_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Ratios:
    """Return the ratios of this tree in the era of 2026-07-28."""
    named = [dict(zip(heads, row, strict=True)) for row in rows]
    return {
        (row["transports"], row["in flight"], column): float(row[column])
        for row in named
        if row["system"] == pinned.AGGREGATOR and row["era"] != "legacy"
        for column in RATIOS
        if row.get(column)
    }


def fallen(before: Ratios, now: Ratios) -> Iterator[str]:
    """Yield a line for each ratio that is worse by more than a tenth."""
    for place, old in before.items():
        new = now[place]
        share = new / old if RATIOS[place[-1]] else old / new
        if share < WORST:
            transports, in_flight, column = place
            yield f"{transports}, {in_flight} in flight: {column} was {old:.3f} and is {new:.3f}"


def with_table(page: str, table: Table, origin: str) -> str:
    """Return a page with another table, and where it comes from."""
    before, _, after = _parts(page)
    text = str(table).replace("## ", "### ", 1)
    return f"{before}{BEGIN}\n\n{text}\n{origin}\n\n{END}{after}"


def _parts(page: str) -> tuple[str, str, str]:
    """Return what is before the table, the table, and what is behind it."""
    before, begin, rest = page.partition(BEGIN)
    block, end, after = rest.partition(END)
    assert begin, page
    assert end, page
    return before, block, after


def _origin(load: float) -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    where = f"{os.cpu_count()} cores, load before {load:.2f}"
    return f"Taken on commit {commit} with Python {platform.python_version()}, {where}."


if __name__ == "__main__":
    sys.exit(main())
