"""Print the doctor's findings as text or JSON."""

import json
from pathlib import Path
from typing import Final

from rich import box
from rich.table import Table

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.logs import start_logging
from aggregator.cli.runtime.progress import shown_starting
from aggregator.cli.runtime.screen import Screen, plain
from aggregator.cli.runtime.setup import environment
from aggregator.cli.runtime.writer import say
from aggregator.config.servers.checks import address_fault
from aggregator.doctor.examine import Examination, examine
from aggregator.doctor.finding import CheckFinding, DoctorReport
from aggregator.doctor.mend import AppliedFix, mend
from aggregator.domain.errors import OperatorError
from aggregator.hosts.every_host import host_named
from aggregator.hosts.machine import this_machine
from aggregator.identity.launch import launch_agent

_COLOURS: Final = {"error": "red", "warning": "yellow", "note": "dim", "ok": "green"}


def run(
    path: Path | None,
    host: str | None,
    agent: str | None,
    fix: bool,
    connect: bool,
    url: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Print all findings, the worst first; return 1 if one needs a user.

    Raises:
        OperatorError: there is no such host, or the agent's name or the address is invalid.
    """
    if url is not None and (fault := address_fault(url)) is not None:
        raise OperatorError(f"{fault} Write --url http://127.0.0.1:8642.")
    start_logging("error", False, ())
    wanted = Examination(
        this_machine(),
        environment(),
        path.expanduser() if path is not None else None,
        host_named(host) if host is not None else None,
        launch_agent(agent, {}),
        connect,
        url.rstrip("/") if url is not None else None,
        timeout,
        shown_starting,
    )
    report = run_loop(examine(wanted))
    mended: list[AppliedFix] = []
    if fix and any(finding.safe for finding in report.findings):
        mended = list(mend(report.findings))
        report = run_loop(examine(wanted))
    if as_json:
        made = [{"code": one.code, "message": one.message, "done": one.done} for one in mended]
        say(json.dumps({**report.data(), "mended": made}, ensure_ascii=False, indent=2))
    else:
        _print(report, mended)
    return report.exit_code


def _print(report: DoctorReport, mended: list[AppliedFix]) -> None:
    out = Screen(soft_wrap=True)
    out.print(f"configuration: {plain(report.config or 'none')}")
    for one in mended:
        out.print(
            f"[{'green' if one.done else 'red'}]{'mended' if one.done else 'not mended'}[/]: {plain(one.message)}"
        )
    for severity in ("error", "warning", "note"):
        for finding in (one for one in report.findings if one.severity == severity):
            _print_finding(out, finding)
    for finding in (one for one in report.findings if one.severity == "ok" and one.code != "model_sees"):
        out.print(f"[dim]ok      {plain(finding.message)}[/]")
    if report.seen:
        out.print(_table(report))
    for finding in (one for one in report.findings if one.code == "model_sees"):
        out.print(f"[green]{plain(finding.message)}[/]")
    errors, warnings = report.count("error"), report.count("warning")
    colour = "red" if errors else "yellow" if warnings else "green"
    found = f"{errors} error{'' if errors == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}"
    out.print(f"[{colour}]{found if errors or warnings else 'Nothing is in the way.'}[/]")


def _print_finding(out: Screen, finding: CheckFinding) -> None:
    colour = _COLOURS[finding.severity]
    out.print(f"[{colour}]{finding.severity:<7}[/] {finding.code}: {plain(finding.message)}")
    if finding.where is not None and finding.where not in finding.message:
        out.print(f"        [dim]at {plain(finding.where)}[/]")
    if finding.fix is not None:
        out.print(f"        fix: {plain(finding.fix)}")


def _table(report: DoctorReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("host", "frontend", "agent", "tools", "tokens", "with search", "time"):
        table.add_column(column, justify="right" if column in ("tools", "tokens", "with search", "time") else "left")
    for one in report.seen:
        table.add_row(
            plain(str(one["title"])),
            str(one["frontend"]),
            plain(str(one["agent"])),
            str(one["tools"]) if one["tools"] is not None else str(one["fault"]),
            f"{one['tokens']:,}" if one["tokens"] is not None else "",
            f"{one['tokens_with_search']:,}" if one["tokens_with_search"] is not None else "",
            f"{one['seconds']:.1f} s",
        )
    return table
