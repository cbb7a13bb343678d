"""`aggregator check`: every server connected once, and what came of it."""

import json
import sys
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aggregator.app import App
from aggregator.cli.setup import load_config, run_loop
from aggregator.config.load import Loaded
from aggregator.upstream.link import Link


def run(path: Path | None, as_json: bool) -> int:
    """Print a row per server, then what is wrong with the configuration; 1 if anything is wrong at all."""
    loaded = load_config(path, log_level="error", report=False)
    rows = run_loop(_connect(loaded))
    failed = [row for row in rows if row["state"] not in ("ready", "disabled")]
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    if as_json:
        problems = [str(problem) for problem in loaded.problems]
        print(
            json.dumps(
                {"config": str(loaded.path), "servers": rows, "problems": problems}, ensure_ascii=False, indent=2
            )
        )
    else:
        _print(loaded, rows)
    switched_off = [server for server in loaded.config.servers if server.disabled_reason]
    return 1 if failed or errors or switched_off or not rows else 0


async def _connect(loaded: Loaded) -> list[dict[str, Any]]:
    app = App(loaded.config)
    async with app.running():
        await app.supervisor.all_tried()
        return [_row(link, app) for link in app.links.values()]


def _row(link: Link, app: App) -> dict[str, Any]:
    greeting = link.greeting if link.state == "ready" else None
    shown = [tool for tool in app.gateway.catalog.tools if tool.server == link.config.id]
    left_out = len(link.definitions) - len(shown)
    return {
        "server": link.config.id,
        "type": link.transport or link.config.type,
        "state": link.state,
        "era": f"{greeting.era} {greeting.version}" if greeting else None,
        "tools": len(shown) if greeting else None,
        "left_out": left_out if greeting else None,
        "seconds": round(link.connect_seconds, 2) if greeting and link.connect_seconds is not None else None,
        "problem": link.reason or None,
    }


def _print(loaded: Loaded, rows: list[dict[str, Any]]) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    out.print(escape(str(loaded.path)))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("server", "type", "state", "era", "tools", "time", "what is wrong"):
        table.add_column(column, justify="right" if column in ("tools", "time") else "left", no_wrap=column == "server")
    colours = {"ready": "green", "disabled": "dim"}
    for row in rows:
        tools = "" if row["tools"] is None else str(row["tools"])
        colour = colours.get(row["state"], "red")
        table.add_row(
            escape(row["server"]),
            row["type"],
            f"[{colour}]{row['state']}[/]",
            row["era"] or "",
            tools,
            "" if row["seconds"] is None else f"{row['seconds']:.2f} s",
            escape(row["problem"] or (f"{row['left_out']} tools left out" if row["left_out"] else "")),
        )
    out.print(table)
    for problem in loaded.problems:
        out.print(f"[{'red' if problem.severity == 'error' else 'yellow'}]{escape(str(problem))}[/]")
