"""`aggregator check`: connects every server once and reports the state of each."""

import json
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from aggregator.accounts.app.stored import stored_accounts
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.keep_catalogs import keep_catalogs
from aggregator.cli.runtime.ended import ended_cause
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.progress import shown_starting
from aggregator.cli.runtime.screen import Screen, plain
from aggregator.cli.runtime.setup import load_config, storage_url
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.doctor.gather.storage import storage_fault
from aggregator.upstream.upstream import Upstream


def run(path: Path | None, as_json: bool) -> int:
    """Print a row per server, then the problems of the configuration; return 1 if there is any problem."""
    loaded = load_config(path, log_level="error", report=False, usable=False)
    rows, warnings = run_loop(_connect(loaded))
    storage = run_loop(storage_fault(storage_url(loaded)))
    failed = [row for row in rows if row["state"] not in ("ready", "disabled")]
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    if as_json:
        problems = [*(str(problem) for problem in loaded.problems), *warnings]
        say(
            json.dumps(
                {"config": str(loaded.path), "servers": rows, "problems": problems, "storage": storage},
                ensure_ascii=False,
                indent=2,
            )
        )
    else:
        _print(loaded, rows, warnings, storage)
    switched_off = [server for server in loaded.config.servers if server.disabled_reason]
    return 1 if failed or errors or switched_off or storage or not rows else 0


async def _connect(loaded: Loaded) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row per server, and warnings about fallbacks that cannot be used."""
    async with stored_accounts(loaded) as accounts:
        app = build_app(loaded.config.all_started(), redactor=loaded.redactor, accounts=accounts)
        async with app.running():
            async with shown_starting(app, loaded.redactor):
                await app.supervisor.wait_all_tried()
            await keep_catalogs(loaded, app.supervisor)
            return _rows(loaded, app)


def _rows(loaded: Loaded, app: App) -> tuple[list[dict[str, Any]], list[str]]:
    warnings = [f"warning: {loaded.path}: fallbacks: {said}" for said in app.failover.problems]
    return [_row(upstream, app, loaded) for upstream in app.upstreams.values()], warnings


def _row(upstream: Upstream, app: App, loaded: Loaded) -> dict[str, Any]:
    negotiated = upstream.negotiated if upstream.state == "ready" else None
    shown = [tool for tool in app.gateway.catalog.tools if tool.server == upstream.config.id]
    names = {tool.own_name for tool in shown}
    left_out = [
        str(one.get("name")) for one in upstream.definitions if isinstance(one, dict) and one.get("name") not in names
    ]
    return {
        "server": upstream.config.id,
        "type": upstream.transport or upstream.config.type,
        "state": upstream.state,
        "era": f"{negotiated.era} {negotiated.version}" if negotiated else None,
        "tools": len(shown) if negotiated else None,
        "left_out": left_out if negotiated else None,
        "warnings": upstream.faults.for_operators() if negotiated else [],
        "seconds": round(upstream.connect_seconds, 2) if negotiated and upstream.connect_seconds is not None else None,
        "mend": None if upstream.state in ("ready", "disabled") else ended_cause(upstream, loaded.redactor),
        "problem": upstream.lifecycle.current.operator_text or None,
    }


def _print(loaded: Loaded, rows: list[dict[str, Any]], warnings: list[str], storage: str | None) -> None:
    out = Screen()
    out.print(plain(str(loaded.path)))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("server", "type", "state", "era", "tools", "time", "what is wrong"):
        table.add_column(column, justify="right" if column in ("tools", "time") else "left", no_wrap=column == "server")
    colours = {"ready": "green", "disabled": "dim"}
    for row in rows:
        tools = "" if row["tools"] is None else str(row["tools"])
        colour = colours.get(row["state"], "red")
        table.add_row(
            plain(row["server"]),
            row["type"],
            f"[{colour}]{row['state']}[/]",
            row["era"] or "",
            tools,
            "" if row["seconds"] is None else f"{row['seconds']:.2f} s",
            plain(row["problem"] or (f"left out: {', '.join(row['left_out'])}" if row["left_out"] else "")),
        )
    out.print(table)
    for row in rows:
        if row["mend"] is not None:
            out.print(f"[red]error: {plain(row['server'])}: {plain(row['mend'])}[/]")
    for warning in (warning for row in rows for warning in row["warnings"]):
        out.print(f"[yellow]warning: {plain(loaded.redactor(warning))}[/]")
    for problem in loaded.problems:
        out.print(f"[{'red' if problem.severity == 'error' else 'yellow'}]{plain(str(problem))}[/]")
    for warning in warnings:
        out.print(f"[yellow]{plain(warning)}[/]")
    if storage is not None:
        out.print(f"[red]error: {plain(str(loaded.path))}: storage: {plain(storage)}[/]")
