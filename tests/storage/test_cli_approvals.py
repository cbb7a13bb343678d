"""`aggregator approvals`."""

import asyncio
import json
import time

import pytest

from aggregator.cli import approvals
from aggregator.domain.errors import OperatorError
from aggregator.storage.database import open_database
from aggregator.storage.records import Approval


@pytest.fixture
def asked(url: str) -> Approval:
    async def ask() -> Approval:
        async with open_database(url) as database:
            now = time.time()
            summary = "Delete \x1b[2Jthe repository\nargs: {}"
            arguments = '{"path":"/x","n":{"\u202eamount":1}}'
            return await database.approvals.ask(
                "bot", "git.delete", "d", summary, arguments=arguments, expires=now + 60, now=now
            )

    return asyncio.run(ask())


def test_grant(url: str, asked: Approval, capsys: pytest.CaptureFixture[str]) -> None:
    assert approvals.listed(url) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:4] == [asked.id, "pending", "bot", "git.delete"]
    assert row.isprintable()
    assert approvals.grant(url, asked.id, "ada") == 0
    assert capsys.readouterr().out == f"{asked.id} is granted: bot, git.delete.\n"
    assert approvals.listed(url) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert approvals.show(url, asked.id) == 0
    shown = capsys.readouterr().out
    assert "by ada" in shown
    assert '\n  "path": "/x",\n  "n": {\n    "\\u202eamount": 1\n  }\n' in shown
    assert approvals.listed(url, None) == 0
    assert "  ada  " in capsys.readouterr().out.splitlines()[1]
    assert "\x1b" not in shown
    with pytest.raises(OperatorError, match="is granted already"):
        approvals.grant(url, asked.id)


def test_deny_and_json(url: str, asked: Approval, capsys: pytest.CaptureFixture[str]) -> None:
    assert approvals.deny(url, asked.id, "not\nthis \x1b[2J") == 0
    assert "The same call is refused until " in capsys.readouterr().out
    approvals.show(url, asked.id)
    assert "\nnote       not\\nthis \\u001b[2J\n" in capsys.readouterr().out
    approvals.show(url, asked.id, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"] == "denied"
    assert shown["decided_by"].startswith("cli:")
    assert (shown["note"], shown["arguments"]) == ("not\nthis \x1b[2J", {"path": "/x", "n": {"\u202eamount": 1}})
    approvals.listed(url, None, as_json=True)
    assert json.loads(capsys.readouterr().out) == [shown]


def test_an_id_that_nobody_has(url: str) -> None:
    for act in (approvals.show, approvals.grant, approvals.deny):
        with pytest.raises(OperatorError, match="no approval 'apr_x'"):
            act(url, "apr_x")


def test_a_status_that_is_none(url: str) -> None:
    with pytest.raises(OperatorError, match=r"no status 'open'; there are pending, .*, all\."):
        approvals.listed(url, "open")
