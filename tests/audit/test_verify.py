"""Whoever changes, removes, moves or adds a row behind the log's back is found out, and where."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.audit.rows import row
from aggregator.domain.call_record import AuditEvent
from aggregator.storage.audit import read as audit_read
from aggregator.storage.audit.chain import ChainBatch, digested, entry, link
from aggregator.storage.audit.verify import FAULTS_AT_MOST
from aggregator.storage.database import open_database
from tests.audit.logs import NOTHING, DatabaseFile, make_call, rows, verdict_on
from tests.laws import examples

ROWS: Final = 12
# Two of the rows are events; the others are calls.
EVENTS: Final = (4, 9)
CALLS: Final = tuple(seq for seq in range(1, ROWS + 1) if seq not in EVENTS)
COLUMNS: Final = (*audit_read.CALL_COLUMNS, "bytes", "previous", "digest")


@pytest.fixture(scope="module")
def a_log_file(empty_database: bytes, tmp_path_factory: pytest.TempPathFactory) -> DatabaseFile:
    """A database with twelve rows in one chain."""
    path = tmp_path_factory.mktemp("log") / "a.db"
    path.write_bytes(empty_database)

    async def fill() -> None:
        async with open_database(f"sqlite+aiosqlite:///{path}") as database:
            for seq in range(1, ROWS + 1):
                event = AuditEvent("upstream_state", float(seq), "crm is ready.", server="crm")
                what = event if seq in EVENTS else make_call(seq, error_message="x", user_id="ada")
                await database.audit.append(ChainBatch([row(what, NOTHING)]))

    asyncio.run(fill())
    return DatabaseFile(path.read_bytes())


def _found(log: bytes, *statements: tuple[Any, ...], expected: str | None = None) -> tuple[list[int], str]:
    """Return the place and text of the fault that `verify` finds after these statements."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(log)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.text_factory = partial(bytes.decode, errors="surrogateescape")
            before = _dump(connection)
            for statement, *values in statements:
                connection.execute(statement, values)
            same = _dump(connection) == before
        verdict = asyncio.run(verdict_on(path, expected))
    assert bool(verdict.faults) == (not same or expected is not None), "found what was not there, or not what was"
    return [fault.seq for fault in verdict.faults], " ".join(fault.what for fault in verdict.faults)


def _dump(connection: sqlite3.Connection) -> list[Any]:
    tables = ("mcp_tool_call_log", "audit_events", "audit_heads")
    return [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]  # noqa: S608


def _table(seq: int) -> str:
    return "audit_events" if seq in EVENTS else "mcp_tool_call_log"


def test_a_counterexample_can_be_read() -> None:
    """What is too long to be shown ends the test with a warning, in place of the value that fails."""

    @settings(max_examples=20, database=None)
    @given(st.integers())
    def fails(log: bytes, number: int) -> None:
        assert number < 7

    with pytest.raises(AssertionError) as failed:
        fails(DatabaseFile(100_000))
    assert "number=7" in "".join(failed.value.__notes__)


def test_an_untouched_log_is_whole(a_log_file: bytes) -> None:
    assert _found(a_log_file) == ([], "")


other_values = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()


@settings(deadline=None, max_examples=examples(40))
@given(st.sampled_from(CALLS), st.sampled_from(COLUMNS), other_values)
def test_any_edit_shows(a_log_file: bytes, seq: int, column: str, value: Any) -> None:
    """D9: Whatever is written into whatever column, the row is named, or the next one that it breaks with."""
    if column == "status":
        value = "denied"
    elif value is None or (column == "trace_id" and isinstance(value, str)):
        value = "ff"
    try:
        seqs, _ = _found(a_log_file, (f"UPDATE mcp_tool_call_log SET {column} = ? WHERE seq = ?", value, seq))  # noqa: S608
    except (UnicodeEncodeError, sqlite3.DataError):
        return  # SQLite itself does not take it
    assert set(seqs) <= {seq, seq + 1}


@pytest.mark.parametrize("column", ["user_id", "error_message", "rule", "arguments", "result_bytes"])
@pytest.mark.parametrize("value", [None, "", "0", b"ada", "CAST(x'ff' AS TEXT)"])
def test_nulls_bytes_and_broken_texts_show(a_log_file: bytes, column: str, value: Any) -> None:
    given = value if isinstance(value, str) and value.startswith("CAST") else "?"
    statement = f"UPDATE mcp_tool_call_log SET {column} = {given} WHERE seq = 5"  # noqa: S608
    seqs, _ = _found(a_log_file, (statement, *([] if given != "?" else [value])))
    unchanged = value is None and column in ("rule", "arguments")
    assert seqs == ([] if unchanged else [5])


@pytest.mark.parametrize(
    ("seq", "change"),
    [
        (5, "UPDATE mcp_tool_call_log SET duration = duration + 0.0000001 WHERE seq = 5"),
        (5, "UPDATE mcp_tool_call_log SET started = started + 0.0000003 WHERE seq = 5"),
        (4, "UPDATE audit_events SET at = at + 0.0000001 WHERE seq = 4"),
    ],
)
def test_a_time_that_differs_by_less_than_is_digested_shows(a_log_file: bytes, seq: int, change: str) -> None:
    """Proves: D9. The digest is of whole microseconds, so the column must hold no more."""
    seqs, _ = _found(a_log_file, (change,))
    assert seqs == [seq]


@settings(deadline=None, max_examples=20)
@given(st.sets(st.integers(1, ROWS), min_size=1))
def test_any_row_that_is_missing_shows(a_log_file: bytes, missing: set[int]) -> None:
    """D9: Wherever rows are taken out, at the beginning, between others or at the end."""
    statements = [(f"DELETE FROM {_table(seq)} WHERE seq = {seq}",) for seq in missing]  # noqa: S608
    seqs, said = _found(a_log_file, *statements)
    assert seqs == [seq for seq in sorted(missing) if seq - 1 not in missing]
    assert said.count("missing") == len(seqs)


@settings(deadline=None, max_examples=12)
@given(st.permutations(CALLS))
def test_any_other_order_shows(a_log_file: bytes, order: list[int]) -> None:
    """Proves: D9."""
    # Through numbers that nobody has, so that no two rows ever have the same.
    moves = [(f"UPDATE mcp_tool_call_log SET seq = {seq + 1000} WHERE seq = {seq}",) for seq in CALLS]  # noqa: S608
    moves += [
        (f"UPDATE mcp_tool_call_log SET seq = {to} WHERE seq = {seq + 1000}",)  # noqa: S608
        for seq, to in zip(CALLS, order, strict=True)
    ]
    seqs, _ = _found(a_log_file, *moves)
    moved = [to for seq, to in zip(CALLS, order, strict=True) if seq != to]
    assert set(seqs) == set(moved)


def _forged(log: bytes, seq: int) -> tuple[str, int, str]:
    """The digest of a row that was changed and digested anew, with its length; and that of the row before it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(log)
        (columns,) = rows(path, f"SELECT {', '.join(COLUMNS)} FROM mcp_tool_call_log WHERE seq = {seq}")  # noqa: S608
    known = dict(zip(COLUMNS, columns, strict=True))
    values = {name: known[name] for name in audit_read.CALL_COLUMNS if known[name] is not None}
    content, size = digested("call", {**values, "agent_id": "somebody else"})
    return link(known["previous"], seq, content), size, known["previous"]


@pytest.mark.parametrize("seq", [seq for seq in CALLS if seq != ROWS])
def test_a_row_that_was_digested_anew_breaks_with_the_next(a_log_file: bytes, seq: int) -> None:
    """Proves: D9."""
    digest, size, _ = _forged(a_log_file, seq)
    change = "UPDATE mcp_tool_call_log SET agent_id = 'somebody else', digest = ?, bytes = ? WHERE seq = ?"
    seqs, said = _found(a_log_file, (change, digest, size, seq))
    assert seqs == [seq + 1]
    assert f"It does not follow row {seq}: one of the two was replaced." in said


def test_a_last_row_that_was_digested_anew_is_not_what_the_log_ended_with(a_log_file: bytes) -> None:
    digest, size, _ = _forged(a_log_file, ROWS)
    change = "UPDATE mcp_tool_call_log SET agent_id = 'somebody else', digest = ?, bytes = ? WHERE seq = ?"
    seqs, said = _found(a_log_file, (change, digest, size, ROWS))
    assert (seqs, "not the row that the log ended with" in said) == ([ROWS], True)
    with_record = ("UPDATE audit_heads SET digest = ?", digest)
    noted = _digest(a_log_file, ROWS)
    # Whoever can write everything can make a whole chain; what was noted elsewhere shows it.
    with pytest.raises(AssertionError, match="not what was"):
        _found(a_log_file, (change, digest, size, ROWS), with_record)
    seqs, said = _found(a_log_file, (change, digest, size, ROWS), with_record, expected=noted)
    assert f"No row has the expected digest {noted}" in said


def _digest(log: bytes, seq: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(log)
        (digest,) = rows(path, f"SELECT digest FROM {_table(seq)} WHERE seq = {seq}")  # noqa: S608
    return str(digest)


@pytest.mark.parametrize(
    ("statements", "seqs", "said"),
    [
        (["UPDATE audit_heads SET seq = 10"], [11], "rows were added"),
        (["UPDATE audit_heads SET seq = 14"], [13], "Rows 13 to 14 are missing at the end."),
        (["UPDATE audit_heads SET digest = 'x'"], [12], "the record of the end was replaced"),
        (["UPDATE audit_heads SET trimmed_digest = 'x'"], [1, 0], "does not follow the record of what was removed"),
        (["UPDATE audit_heads SET trimmed_seq = 2"], [1, 2, 3, 2], "should have been removed"),
        (["UPDATE audit_heads SET seq = 'x'"], [12], "record of where the log ends is missing"),
        (["DELETE FROM audit_heads"], [12], "record of where the log ends is missing"),
        (
            ["DELETE FROM mcp_tool_call_log WHERE seq > 10", "UPDATE audit_heads SET seq = 10"],
            [10],
            "not the row that the log ended with",
        ),
        (["DELETE FROM mcp_tool_call_log", "DELETE FROM audit_events"], [1], "Rows 1 to 12 are missing at the end."),
        (["INSERT INTO audit_events VALUES (5, 'x', 1, '', '', '', '', 1, '', '', 0)"], [5], "two rows of this number"),
        (
            ["INSERT INTO audit_events VALUES (-5, 'x', 1, '', '', '', '', 1, '', '', 0)"],
            [-5],
            "should have been removed",
        ),
        (["UPDATE audit_events SET kind = 'call' WHERE seq = 4"], [4], "It was changed."),
    ],
)
def test_what_verify_says(a_log_file: bytes, statements: list[str], seqs: list[int], said: str) -> None:
    """D9: The ends of the chain are as safe as its middle."""
    found, told = _found(a_log_file, *((statement,) for statement in statements))
    assert found == seqs
    assert said in told


def test_a_digest_that_was_noted_is_still_there(a_log_file: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(a_log_file)
        for seq in (1, 4, ROWS):
            assert asyncio.run(verdict_on(path, _digest(a_log_file, seq))).faults == ()


async def test_pages_hide_nothing(empty_database: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the rows fall on pages, each is seen once."""
    path = tmp_path / "a.db"
    path.write_bytes(empty_database)
    kinds = ["call", *["call", "event", "event", "event"] * 2, "call", "call", "event", "event", "call"]
    async with open_database(f"sqlite+aiosqlite:///{path}") as database:
        for number, kind in enumerate(kinds):
            what = make_call(number) if kind == "call" else AuditEvent("approval", 1.0, "approved")
            await database.audit.append(ChainBatch([row(what, NOTHING)]))
    for page in range(1, 15):
        monkeypatch.setattr(audit_read, "PAGE", page)
        verdict = await verdict_on(path)
        assert (verdict.rows, verdict.faults, verdict.head.seq) == (len(kinds), (), len(kinds))


async def test_only_so_many_faults_are_told(empty_database: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(empty_database)
    async with open_database(f"sqlite+aiosqlite:///{path}") as database:
        await database.audit.append(ChainBatch([row(make_call(number), NOTHING) for number in range(150)]))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE mcp_tool_call_log SET agent_id = 'x'")
    verdict = await verdict_on(path)
    assert (len(verdict.faults), verdict.fault_count) == (FAULTS_AT_MOST, 150)


def test_the_digest_is_made_as_documented() -> None:
    """Logs of years ago must still verify: this never changes. docs/audit.md says how it is made."""
    made = entry(
        "call", {"trace_id": "ab", "started": 1763712000.25, "duration": 0.000012, "queued": 0.0, "rule": None}
    )
    text = '{"duration":12,"kind":"call","queued":0,"started":1763712000250000,"trace_id":"ab"}'
    assert made.size == len(text)
    assert made.content == "ff13f0ee54f9b2a8d150b1c8704c4ac7107f6244ba8a51e7ecd4de75202e1fe5"
    assert link("0" * 64, 1, made.content) == "1bf804b936b0cb40c19e97a61791b911242c3cf506bcf593705f79c50fa3621c"
