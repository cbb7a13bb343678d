"""`aggregator flow`: shown and cleared, on record, and heeded by a gateway that runs."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.cli.commands import app
from aggregator.flow.cli.labels import clear, show
from aggregator.flow.storage import FlowRow
from aggregator.storage.database import open_database
from tests.end_to_end.server_harness import write_config
from tests.observability.observed_harness import events_in


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/flow.db"


async def _fill(storage: str) -> None:
    now = time.time()
    rows = [
        FlowRow("1" * 64, "untrusted", "ada", "session", "session-1", "web.fetch", "t", now - 150, now - 130, now + 99),
        FlowRow("2" * 64, "untrusted", "ada", "key", "k1", "web.fetch", "t1", now - 150, now - 130, now + 900),
        FlowRow("2" * 64, "private", "ada", "key", "k1", "files.\x1b[31mread", None, now - 50, now - 50, now + 900),
        FlowRow("3" * 64, "private", "bob", "key", "k2", "files.read", None, now - 9_000, now - 9_000, now - 1),
    ]
    async with open_database(storage) as database:
        await database.flow.note(rows)


def _kept(storage: str) -> list[FlowRow]:
    async def rows() -> list[FlowRow]:
        async with open_database(storage) as database:
            return await database.flow.show(None, now=0.0)

    return asyncio.run(rows())


def test_show(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people, without what has expired and without escapes; the same as JSON."""
    asyncio.run(_fill(storage))
    assert show(storage) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split() == ["AGENT", "OF", "SCOPE", "LABEL", "BY", "READ", "COUNTS", "UNTIL"]
    assert len(lines) == 4
    assert "2 minutes ago" in out
    assert "\x1b" not in out
    assert show(storage, "bob") == 0
    assert capsys.readouterr().out == "Nothing that bob has read is kept.\n"
    assert show(storage, "ada", as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["scope"], [label["label"] for label in one["labels"]]) for one in found] == [
        ("key", "k1", ["private", "untrusted"]),
        ("session", "session-1", ["untrusted"]),
    ]


def test_clear(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One scope, then all of an agent; a second time there is nothing. Each clear is an event of the audit."""
    asyncio.run(_fill(storage))
    assert clear(storage, "ada", "session-1") == 0
    assert {row.shown for row in _kept(storage)} == {"k1", "k2"}
    assert clear(storage, "ada") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ada: what was read is forgotten in 1 scope."
    assert {row.agent_id for row in _kept(storage)} == {"bob"}
    assert clear(storage, "ada") == 1
    assert clear(storage, "bob", "no such") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "Nothing that bob has read in no such is kept."

    events = events_in(Path(storage.partition("///")[2]), "flow")
    assert [(one["agent_id"], one["details"].get("scope"), one["details"]["scopes"]) for one in events] == [
        ("ada", "session-1", 1),
        ("ada", None, 1),
    ]


def test_what_is_misspelt_is_said(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent like one of which something is kept, and a scope that an agent does not have."""
    asyncio.run(_fill(storage))
    assert (show(storage, "adda"), clear(storage, "adda"), clear(storage, "ada", "session-2")) == (0, 1, 1)
    assert capsys.readouterr().out.splitlines() == [
        "Nothing that adda has read is kept. Did you mean ada?",
        "Nothing that adda has read is kept. Did you mean ada?",
        "Nothing that ada has read in session-2 is kept. `aggregator flow show` prints its scopes.",
    ]


def test_the_commands(storage: str, tmp_path: Path) -> None:
    """By their names, with the database of a configuration."""
    asyncio.run(_fill(storage))
    config = str(write_config(tmp_path, {}, storage=storage))
    shown = CliRunner().invoke(app, ["flow", "show", "ada", "--config", config])
    assert (shown.exit_code, "web.fetch" in shown.output) == (0, True)
    cleared = CliRunner().invoke(app, ["flow", "clear", "ada", "--scope", "k1", "--config", config])
    assert (cleared.exit_code, cleared.output) == (0, "ada: what was read is forgotten in 1 scope.\n")
    assert CliRunner().invoke(app, ["flow", "clear", "eve", "--config", config]).exit_code == 1
