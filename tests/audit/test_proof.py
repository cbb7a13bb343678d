"""What a key and what an anchor prove: each attack on a whole log, with the tools of an attacker who writes SQL."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.audit.rows import row
from aggregator.cli.audit import proof as audit_proof
from aggregator.domain.errors import OperatorError
from aggregator.storage.audit.anchor import Anchor
from aggregator.storage.audit.chain import GENESIS, ChainBatch, ChainKey, entry, link
from aggregator.storage.audit.read import open_reader
from aggregator.storage.audit.verify import Verdict, verify
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageError
from tests.audit.logs import AT, NOTHING, make_call, rows

SECRET: Final = "a chain key of more than 32 characters"
OTHER: Final = "quite another key of 32 characters"
Fill = Callable[..., None]


@pytest.fixture
def filled(made: Path, url: str) -> Fill:
    """Rows number `first` to `last` in the log, and before the next ones a trim of what is older than `trim`."""

    def fill(first: int, last: int, key: str | None = None, *, trim: int | None = None) -> None:
        async def work() -> None:
            async with open_database(url, key) as database:
                for number in range(first, last + 1):
                    await database.audit.append(ChainBatch([row(make_call(number, duration=0.0), NOTHING)]))
                if trim is not None:
                    assert await database.audit.trim(before=AT + trim, keep_bytes=None, now=AT + 1000)

        asyncio.run(work())

    return fill


def _run(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for one in statements:
            connection.execute(*(one if isinstance(one, tuple) else (one,)))


def _verdict(path: Path, key: str | None = None, anchors: tuple[Anchor, ...] = ()) -> Verdict:
    async def found() -> Verdict:
        async with open_reader(f"sqlite+aiosqlite:///{path}") as reader:
            return await verify(reader, None, anchors, ChainKey(key) if key is not None else None)

    return asyncio.run(found())


def _said(verdict: Verdict) -> str:
    return " ".join(fault.what for fault in verdict.faults)


def _head(path: Path) -> Anchor:
    return Anchor(*rows(path, "SELECT seq, digest FROM mcp_tool_call_log ORDER BY seq DESC LIMIT 1")[0])


def _cut_tail(path: Path, after: int) -> None:
    """Take the rows behind number `after` away, and say that it is the last."""
    digest = "(SELECT digest FROM mcp_tool_call_log WHERE seq = audit_heads.seq)"
    _run(path, f"DELETE FROM mcp_tool_call_log WHERE seq > {after}", f"UPDATE audit_heads SET seq = {after}")  # noqa: S608
    _run(path, f"UPDATE audit_heads SET digest = {digest}")  # noqa: S608


def _cut_head(path: Path, upto: int) -> None:
    """Take the first rows away, and say that they were removed for their age."""
    digest = f"(SELECT digest FROM mcp_tool_call_log WHERE seq = {upto})"  # noqa: S608
    _run(path, f"UPDATE audit_heads SET trimmed_seq = {upto}, trimmed_digest = {digest}")  # noqa: S608
    _run(path, f"DELETE FROM mcp_tool_call_log WHERE seq <= {upto}")  # noqa: S608


def test_a_forged_trim_shows(filled: Fill, made: Path) -> None:
    """D9: That rows were removed for their age is a row of the chain itself, which the record has to agree with."""
    filled(1, 10)
    _cut_head(made, 4)
    assert "No event of the log says" in _said(_verdict(made))


def test_a_trim_after_a_trim_is_proven(filled: Fill, made: Path) -> None:
    filled(1, 10, trim=3)
    filled(11, 12, trim=6)
    assert _verdict(made).faults == ()
    _cut_head(made, 8)
    assert "No event of the log says" in _said(_verdict(made))


def test_trims_of_the_first_versions_are_proven(filled: Fill, made: Path, url: str) -> None:
    """D9: Their events have the number in their sentence only."""
    filled(1, 6)
    digest = rows(made, "SELECT digest FROM mcp_tool_call_log WHERE seq = 3")[0]
    said = "3 rows were removed for their age or the size of the log, up to number 3."

    async def tell() -> None:
        told = entry("log_trimmed", {"at": AT, "summary": said, "details": f'{{"digest":"{digest}"}}'})
        async with open_database(url) as database:
            await database.audit.append(ChainBatch([told]))

    asyncio.run(tell())
    assert "No event" in _said(_verdict(made))
    _cut_head(made, 3)
    assert _verdict(made).faults == ()


def test_a_cut_tail_shows_by_an_anchor_only(filled: Fill, made: Path) -> None:
    filled(1, 10)
    noted = _head(made)
    _cut_tail(made, 6)
    assert _verdict(made).faults == (), "whoever can write everything can do this"
    assert "An anchor notes this row" in _said(_verdict(made, anchors=(noted,)))


def test_a_log_made_anew_shows_by_an_anchor(filled: Fill, made: Path) -> None:
    filled(1, 5)
    noted = _head(made)
    _run(made, "DELETE FROM mcp_tool_call_log", f"UPDATE audit_heads SET seq = 0, digest = '{GENESIS}'")  # noqa: S608
    filled(101, 106)
    assert _verdict(made).faults == ()
    assert "It is not the row that an anchor notes" in _said(_verdict(made, anchors=(noted,)))


def test_anchors_of_removed_rows_prove_nothing_alone(filled: Fill, made: Path) -> None:
    filled(1, 3)
    old = _head(made)
    filled(4, 8, trim=5)
    young = _head(made)
    assert "prove nothing any more" in _said(_verdict(made, anchors=(old,)))
    verdict = _verdict(made, anchors=(old, young))
    assert (verdict.faults, verdict.anchors_found, verdict.anchors_removed) == ((), 1, 1)


def test_with_a_key_a_cut_tail_shows(filled: Fill, made: Path) -> None:
    """D9: Who has no key can cut nothing off and say that it was the end."""
    filled(1, 10, SECRET)
    assert _verdict(made, SECRET).keyed_from == 1
    _cut_tail(made, 6)
    assert "made without the key" in _said(_verdict(made, SECRET))


def test_with_a_key_an_older_state_shows_by_an_anchor_only(filled: Fill, made: Path, tmp_path: Path) -> None:
    filled(1, 5, SECRET)
    shutil.copy(made, tmp_path / "older.db")
    filled(6, 9, SECRET)
    noted = _head(made)
    for file in made.parent.glob("*-*"):
        file.unlink()
    shutil.copy(tmp_path / "older.db", made)
    assert _verdict(made, SECRET).faults == ()
    assert "an older state of it was put back" in _said(_verdict(made, SECRET, (noted,)))


def test_a_row_without_the_key_shows(filled: Fill, made: Path) -> None:
    """D9: However well it is chained."""
    filled(1, 5, SECRET)
    head, one = _head(made), entry("approval", {"at": AT, "summary": "granted"})
    digest = link(head.digest, 6, one.content)
    values = (6, "approval", AT, "granted", one.size, head.digest, digest)
    columns = "seq, kind, at, summary, bytes, previous, digest"
    _run(made, (f"INSERT INTO audit_events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values))  # noqa: S608
    _run(made, ("UPDATE audit_heads SET seq = 6, digest = ?", (digest,)))
    said = _said(_verdict(made, SECRET))
    assert "It was made without the key." in said
    assert "The record of where the log ends was made without the key." in said


def test_a_whole_log_without_the_key_shows(filled: Fill, made: Path) -> None:
    filled(1, 5, SECRET)
    _run(made, "DELETE FROM mcp_tool_call_log", "UPDATE audit_heads SET key_id = NULL, mac = NULL")
    _run(made, ("UPDATE audit_heads SET seq = 0, digest = ?", (GENESIS,)))
    filled(1, 5)
    assert "No row was made with the key" in _said(_verdict(made, SECRET))


def test_rows_from_before_the_key_stay_verifiable(filled: Fill, made: Path) -> None:
    filled(1, 4)
    filled(5, 8, SECRET)
    verdict = _verdict(made, SECRET)
    assert (verdict.faults, verdict.keyed_from, verdict.rows) == ((), 5, 8)
    filled(9, 10, SECRET, trim=7)
    verdict = _verdict(made, SECRET)
    assert (verdict.faults, verdict.keyed_from) == ((), 7)


@pytest.mark.parametrize("key", [None, OTHER])
def test_who_has_not_the_key_writes_and_proves_nothing(filled: Fill, made: Path, key: str | None) -> None:
    filled(1, 3, SECRET)
    with pytest.raises(StorageError, match="chain_key"):
        filled(4, 4, key)
    with pytest.raises(StorageError, match="chain_key"):
        _verdict(made, key)
    assert len(rows(made)) == 3


@pytest.mark.parametrize("key", [None, SECRET])
async def test_a_log_that_is_cut_while_it_is_written_says_so(made: Path, url: str, key: str | None) -> None:
    """D9: The process that writes it knows how it ended."""
    async with open_database(url, key) as database:
        for number in range(1, 6):
            await database.audit.append(ChainBatch([row(make_call(number), NOTHING)]))
        _cut_tail(made, 3)
        await database.audit.append(ChainBatch([row(make_call(9), NOTHING)]))
    told = rows(made, "SELECT kind, summary FROM audit_events")
    assert told == [
        ("log_mended", "The record of the end of the log did not fit; rows behind number 3 may have been cut off.")
    ]


def test_with_a_key_a_log_that_was_cut_before_the_start_says_so(filled: Fill, made: Path) -> None:
    filled(1, 5, SECRET)
    _cut_tail(made, 3)
    filled(9, 9, SECRET)
    assert rows(made, "SELECT kind FROM audit_events") == ["log_mended"]


def test_the_commands(filled: Fill, made: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D9: `anchor` notes, `verify --anchor` holds against it."""
    file = tmp_path / "anchors"
    with pytest.raises(OperatorError, match="nothing to note"):
        audit_proof.anchor(url, file)
    for last in (3, 6):
        filled(last - 2, last, SECRET)
        assert audit_proof.anchor(url, file) == 0
    assert capsys.readouterr().out == file.read_text()
    assert [line.split()[1] for line in file.read_text().splitlines()] == ["3", "6"]
    assert audit_proof.verify(url, anchor=file, chain_key=SECRET) == 0
    said = capsys.readouterr().out
    assert "2 anchors are in the log, 0 of rows that were removed." in said
    assert "From row 1 on the chain is proven by the key." in said
    _cut_tail(made, 4)
    assert audit_proof.verify(url, anchor=file, as_json=True, chain_key=SECRET) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["whole"], told["anchors_found"], told["proven_by_key_from"]) == (False, 1, 1)
    assert [fault["seq"] for fault in told["faults"]] == [4, 6]


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "6\n", f"now 6 {'A' * 64}\n", f"now -6 {'a' * 64}\n", "\0", "a b c"]
)
def test_a_file_without_anchors_is_refused(filled: Fill, url: str, tmp_path: Path, text: str) -> None:
    filled(1, 1)
    file = tmp_path / "anchors"
    file.write_text(text)
    with pytest.raises(OperatorError, match="no line of `aggregator audit anchor`"):
        audit_proof.verify(url, anchor=file)
    with pytest.raises(OperatorError, match="cannot be read"):
        audit_proof.verify(url, anchor=tmp_path / "none")
    with pytest.raises(OperatorError, match="cannot be written"):
        audit_proof.anchor(url, tmp_path)
