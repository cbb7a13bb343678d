"""The taking of reports: cleaned, cut, without secrets, and no flood."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.domain.errors import BadArguments, OverLimit
from aggregator.domain.records import ToolRecord
from aggregator.redaction.redactor import Redactor
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.tool_reports import storage
from aggregator.tool_reports.book import MOST_A_MINUTE, NotKept, ReportBook

TOOL: Final = ToolRecord("shop", "", "get", {"name": "get", "inputSchema": {}}, {"canonical": "shop.get"}, 0.0, "v")
SECRET: Final = "correct-horse-battery-staple"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[LazyDatabase]:
    kept = LazyDatabase(f"sqlite+aiosqlite:///{tmp_path / 'reports.db'}", None)
    async with kept:
        yield kept


async def reasons(database: LazyDatabase) -> list[str]:
    opened = await database.open()
    assert opened is not None
    return [reason.text for report in await opened.tool_reports.list() for reason in report.reasons]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("  it\r\n gives\t nothing \x1b[31m ", "it gives nothing [31m"),
        ("in\u200bvi\u202esible\u2028lines", "invisible lines"),
        ("half \ud83d of a pair, and \x00", "half \ufffd of a pair, and \ufffd"),
        (f"it says {SECRET} aloud", "it says [redacted] aloud"),
        (f"it says {SECRET[:9]}\u200b{SECRET[9:]} aloud", "it says [redacted] aloud"),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 499 + "…"),
        ("x" * 490 + f" {SECRET}", "x" * 490 + " [redacte…"),
    ],
)
async def test_reasons_are_kept_clean(database: LazyDatabase, said: str, kept: str) -> None:
    """On one line, without invisible characters and secrets, and cut last."""
    redactor = Redactor()
    redactor.add([SECRET])
    assert await ReportBook(database, redactor, lambda: 0.0).take("ada", TOOL, said) == 1
    assert await reasons(database) == [kept]


@pytest.mark.parametrize("said", ["", " \n", "\u200b\u202e"])
async def test_a_reason_says_something(database: LazyDatabase, said: str) -> None:
    with pytest.raises(BadArguments, match="Say in `why`"):
        await ReportBook(database, Redactor(), lambda: 0.0).take("ada", TOOL, said)


async def test_a_flood_of_one_agent_is_refused(database: LazyDatabase) -> None:
    """Until the next minute, and for that agent alone."""
    now = 125.0
    book = ReportBook(database, Redactor(), lambda: now)
    for number in range(1, MOST_A_MINUTE + 1):
        assert await book.take("ada", TOOL, "again") == number
    with pytest.raises(OverLimit) as refused:
        await book.take("ada", TOOL, "again")
    assert (refused.value.details["retry_after"], refused.value.retryable) == (55, True)
    assert await book.take("bob", TOOL, "first") == 1
    now = 180.0
    assert await book.take("ada", TOOL, "again") == MOST_A_MINUTE + 1


async def test_too_many_reported_tools_are_refused(database: LazyDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says whose bound it is."""
    monkeypatch.setattr(storage, "MOST_OF_AGENT", 0)
    with pytest.raises(OverLimit, match="you have reported 0 tools"):
        await ReportBook(database, Redactor(), lambda: 0.0).take("ada", TOOL, "why")
    monkeypatch.setattr(storage, "MOST_OF_AGENT", 1)
    monkeypatch.setattr(storage, "MOST", 0)
    with pytest.raises(OverLimit, match="agents have reported 0 tools"):
        await ReportBook(database, Redactor(), lambda: 0.0).take("ada", TOOL, "why")


async def test_a_database_that_fails_is_said(tmp_path: Path) -> None:
    """A report that was not kept never counts as kept."""
    (tmp_path / "file").write_text("")
    for url in (None, f"sqlite+aiosqlite:///{tmp_path / 'file' / 'reports.db'}"):
        kept = LazyDatabase(url, None)
        async with kept:
            with pytest.raises(NotKept):
                await ReportBook(kept, Redactor(), lambda: 0.0).take("ada", TOOL, "why")
