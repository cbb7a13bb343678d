"""The tool reports in the database: printed, and cleared."""

import json
import os
from collections.abc import Sequence
from typing import Any

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.config.files.report import nearest
from aggregator.domain.errors import OperatorError
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url
from aggregator.tool_reports.rows import ToolReport


def listed(storage: str | None, about: str | None = None, as_json: bool = False) -> int:
    """Print the reports, of one server or tool or of all."""
    found = run_loop(_list(_url(storage)))
    some = [report for report in found if about is None or about in _names(report)]
    if as_json:
        say(json.dumps([_plain(report) for report in some], ensure_ascii=False, indent=2))
        return 0
    if not some:
        say(_nothing(found, about))
        return 0
    rows = [("TOOL", "AGENT", "TIMES", "LAST", "WHY")]
    for report in some:
        first = (one_line(_tool(report)), one_line(report.agent_id), str(report.times), minute(report.last))
        reasons = [f"{one_line(one.text)}{f' ({one.times} times)' if one.times > 1 else ''}" for one in report.reasons]
        rows += [
            (*(first if number == 0 else ("", "", "", "")), reason) for number, reason in enumerate(reasons or ["-"])
        ]
    print_rows(rows)
    return 0


def clear(
    storage: str | None,
    about: str | None,
    *,
    every: bool = False,
    audited: bool = True,
    chain_key: str | None = None,
) -> int:
    """Remove the reports of a server, of a tool, or all; return 1 if there was none.

    Raises:
        OperatorError: neither a name nor `--all` is given, or both are.
    """
    if (about is None) is not every:
        raise OperatorError("Name a server or a tool as SERVER.TOOL, or give --all.")
    cleared, found = run_loop(_clear(_url(storage), about, audited, chain_key))
    if not cleared:
        say(_nothing(found, about))
        return 1
    say(f"Cleared: {cleared} {'report' if cleared == 1 else 'reports'}.")
    return 0


async def _list(url: str) -> list[ToolReport]:
    async with open_database(url) as database:
        return await database.tool_reports.list()


async def _clear(url: str, about: str | None, audited: bool, chain_key: str | None) -> tuple[int, list[ToolReport]]:
    async with open_database(url, chain_key) as database:
        found = await database.tool_reports.list()
        if about is None:
            cleared = await database.tool_reports.clear()
        else:
            meant = {
                (report.server, None if about == report.server else report.tool)
                for report in found
                if about in _names(report)
            }
            cleared = sum([await database.tool_reports.clear(server, tool) for server, tool in meant])
        if cleared and audited:
            by = operator()
            said = f"{by} cleared the reports of {about or 'all tools'}."
            await noted(database, "tool_reports", said, None, by=by, about=about, reports=cleared)
    return cleared, found


def _tool(report: ToolReport) -> str:
    return f"{report.server}.{report.tool}"


def _names(report: ToolReport) -> tuple[str, str]:
    return report.server, _tool(report)


def _nothing(found: Sequence[ToolReport], about: str | None) -> str:
    """Return the text that nothing is reported, with a similar name."""
    if about is None:
        return "No tool is reported."
    said = f"Nothing is reported of {one_line(about)}."
    meant = nearest(about, sorted({name for report in found for name in _names(report)}))
    return f"{said} Did you mean {one_line(meant)}?" if meant is not None else said


def _plain(report: ToolReport) -> dict[str, Any]:
    """Return a report as a JSON object."""
    return {**report._asdict(), "reasons": [reason._asdict() for reason in report.reasons]}


def _url(storage: str | None) -> str:
    return storage or default_url(os.environ)
