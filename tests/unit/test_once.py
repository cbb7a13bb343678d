"""A database that a test gets as a copy is the one that a program makes."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.commands import app
from aggregator.storage.database import open_database
from tests import once


def content(path: Path) -> list[Any]:
    """Return the tables of a file as they were made, and the rows in them."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        rows = [line for line in connection.iterdump() if line.startswith("INSERT")]
    return [*tables, *rows]


async def test_a_copy_is_what_a_program_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first.db", "second.db"):
        async with open_database(f"sqlite+aiosqlite:///{tmp_path / name}"):
            pass
    once.make_databases(monkeypatch)
    async with open_database(f"sqlite+aiosqlite:///{tmp_path / 'made.db'}"):
        pass
    made = content(tmp_path / "made.db")
    assert len(made) > 40
    assert content(tmp_path / "first.db") == content(tmp_path / "second.db") == made


def test_commands_that_were_built_once_keep_nothing_of_a_call(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for words in (["--version"], ["keys", "--help"], ["--version"]):
        app(words, standalone_mode=False)
        said.append(capsys.readouterr().out)
    assert said[0] == said[2] != said[1]
