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


def test_approve(url: str, asked: Approval, capsys: pytest.CaptureFixture[str]) -> None:
    assert approvals.listed(url) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:4] == [asked.id, "pending", "bot", "git.delete"]
    assert row.isprintable()
    approvals.show(url, asked.id)
    assert "\nvalid      -\n" in capsys.readouterr().out
    assert approvals.approve(url, asked.id, "ada") == 0
    assert capsys.readouterr().out == f"{asked.id} is approved: bot, git.delete.\n"
    assert approvals.listed(url) == 0
    assert capsys.readouterr() == ("", "No call waits for an approval.\n")
    assert approvals.show(url, asked.id) == 0
    shown = capsys.readouterr().out
    assert "by ada" in shown
    assert "\nvalid      this call only\n" in shown
    assert '\n  "path": "/x",\n  "n": {\n    "\\u202eamount": 1\n  }\n' in shown
    assert approvals.listed(url, None) == 0
    assert "  ada  " in capsys.readouterr().out.splitlines()[1]
    assert "\x1b" not in shown
    with pytest.raises(OperatorError, match="is approved already"):
        approvals.approve(url, asked.id)


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


def test_two_people_and_a_time(url: str, asked: Approval, capsys: pytest.CaptureFixture[str]) -> None:
    async def need() -> None:
        async with open_database(url) as database:
            call = asked.agent_id, asked.tool, asked.digest
            await database.approvals.ask(*call, "", needed=2, expires=asked.expires, now=time.time())

    asyncio.run(need())
    assert approvals.approve(url, asked.id, "cli:ada", note="fine by me", validity="7d") == 0
    assert "1 of 2 people have agreed" in capsys.readouterr().out
    with pytest.raises(OperatorError, match="has agreed to"):
        approvals.approve(url, asked.id, "ada")
    approvals.show(url, asked.id)
    shown = capsys.readouterr().out
    assert "\nstatus     pending (1 of 2: cli:ada)\n" in shown
    assert "\nnote       fine by me\n" in shown
    assert approvals.approve(url, asked.id, "bob", validity="1h") == 0
    assert "Every call with these arguments is let through until " in capsys.readouterr().out
    with pytest.raises(OperatorError, match="at most 500"):
        approvals.deny(url, asked.id, "x" * 501)
    assert approvals.deny(url, asked.id, "x" * 500) == 0


def test_an_id_that_nobody_has(url: str) -> None:
    for act in (approvals.show, approvals.approve, approvals.deny):
        with pytest.raises(OperatorError, match="no approval 'apr_x'"):
            act(url, "apr_x")


def test_a_status_that_is_none(url: str) -> None:
    with pytest.raises(OperatorError, match=r"no status 'open'; there are pending, .*, all\."):
        approvals.listed(url, "open")
