"""`aggregator reports`: lists reports, clears them, on record."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.cli.commands import app
from aggregator.doctor.finding import with_option
from aggregator.doctor.gather.storage import read_storage
from aggregator.domain.errors import OperatorError
from aggregator.storage.database import open_database
from aggregator.tool_reports.cli.reports import clear, listed
from aggregator.tool_reports.doctor import ReportCounts, of_reports
from tests.end_to_end.server_harness import write_config
from tests.observability.observed_harness import events_in


@pytest.fixture
def storage(tmp_path: Path) -> str:
    url = f"sqlite+aiosqlite:///{tmp_path}/reports.db"
    asyncio.run(_fill(url))
    return url


async def _fill(url: str) -> None:
    async with open_database(url) as database:
        await database.tool_reports.add("shop", "get", "ada", "always empty", now=60.0)
        await database.tool_reports.add("shop", "get", "ada", "always empty", now=120.0)
        await database.tool_reports.add("shop", "get", "ada", "slow", now=180.0)
        await database.tool_reports.add("shop", "pu\x1b[31mt", "bob", "wrong price", now=240.0)
        await database.tool_reports.add("mart", "get", "bob", "gone", now=300.0)


def test_the_doctor_counts_them_by_server(storage: str) -> None:
    """D7: tools, not agents; those of servers that are not configured any more are not counted."""
    reports = asyncio.run(read_storage(storage)).rows.reports
    assert reports == {"mart": ReportCounts(1, 1), "shop": ReportCounts(2, 4)}
    (finding,) = of_reports(reports, {"shop", "other"})
    assert finding.message == "Agents reported 2 tools of shop as broken (4 times)."
    assert (finding.code, finding.where) == ("tools_reported", "shop")
    assert "`aggregator reports list shop --config a.json`" in str(with_option(finding, "--config a.json").fix)


def test_list(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(storage) == 0
    assert [line.split("  ") for line in capsys.readouterr().out.splitlines()] != []
    assert listed(storage, "shop.get") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["TOOL", "AGENT", "TIMES", "LAST", "WHY"],
        ["shop.get", "ada", "3", "1970-01-01", "00:03Z", "slow"],
        ["always", "empty", "(2", "times)"],
    ]
    assert listed(storage, "shop") == 0
    out = capsys.readouterr().out
    assert "wrong price" in out
    assert "gone" not in out
    assert "\x1b" not in out
    assert listed(storage, "mart", as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "server": "mart",
            "tool": "get",
            "agent_id": "bob",
            "times": 1,
            "first": 300.0,
            "last": 300.0,
            "reasons": [{"text": "gone", "times": 1, "last": 300.0}],
        }
    ]
    assert listed(storage, "shop.gett") == 0
    assert capsys.readouterr().out == "Nothing is reported of shop.gett. Did you mean shop.get?\n"


def test_clear(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One tool, one server, all; each clear is an event of the audit."""
    assert clear(storage, "shop.get") == 0
    assert clear(storage, "shop.get") == 1
    assert clear(storage, "shop") == 0
    assert clear(storage, None, every=True) == 0
    assert clear(storage, None, every=True) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if "Did you" not in line] == [
        "Cleared: 1 report.",
        "Nothing is reported of shop.get.",
        "Cleared: 1 report.",
        "Cleared: 1 report.",
        "No tool is reported.",
    ]
    events = events_in(Path(storage.partition("///")[2]), "tool_reports")
    assert [one["details"].get("about") for one in events] == ["shop.get", "shop", None]
    for about, every in ((None, False), ("shop", True)):
        with pytest.raises(OperatorError, match="--all"):
            clear(storage, about, every=every)


def test_the_commands(storage: str, tmp_path: Path) -> None:
    config = str(write_config(tmp_path, {}, storage=storage))
    shown = CliRunner().invoke(app, ["reports", "list", "--config", config])
    assert (shown.exit_code, "always empty (2 times)" in shown.output) == (0, True)
    cleared = CliRunner().invoke(app, ["reports", "clear", "--all", "--config", config])
    assert (cleared.exit_code, cleared.output) == (0, "Cleared: 3 reports.\n")
    assert CliRunner().invoke(app, ["reports", "clear", "shop", "--config", config]).exit_code == 1
