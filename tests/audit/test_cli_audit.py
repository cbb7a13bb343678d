"""`aggregator audit`."""

import asyncio
import csv
import io
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from aggregator.audit.rows import row
from aggregator.cli.audit import formats as audit_shapes
from aggregator.cli.audit import proof as audit_proof
from aggregator.cli.audit import show as audit
from aggregator.cli.audit import show as audit_stats
from aggregator.domain.call_record import AuditEvent, CallRecord, RecordedCaller, RecordedOutcome, TraceContext
from aggregator.domain.errors import OperatorError
from aggregator.storage.audit.chain import ChainBatch, ChainEntry
from aggregator.storage.audit.read import By, LogFilter, LogRow, open_reader
from aggregator.storage.database import open_database
from tests.audit.logs import AT, NOTHING, make_call, rows
from tests.end_to_end.programs import run

CALLS = [
    row(what, NOTHING)
    for what in (
        make_call(1),
        make_call(2, status="denied", error_code="tool_not_allowed", rule="*.list_*", rule_source="policies/a.yaml:3"),
        AuditEvent("upstream_state", AT + 2.5, "crm is unavailable: it ended.", server="crm", details={"to": "away"}),
        make_call(
            3,
            agent_id="desk",
            server="erp",
            tool="erp.search",
            status="timeout",
            duration=30.0,
            answered_by="crm",
            sent_name="find",
        ),
        CallRecord(
            TraceContext("f" * 32, "f" * 16),
            AT + 4,
            RecordedCaller("desk", "http"),
            "no.such",
            outcome=RecordedOutcome("invalid"),
        ),
    )
]


@pytest.fixture(scope="module")
def log_file(empty_database: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database with four calls and an event."""
    path = tmp_path_factory.mktemp("log") / "a.db"
    path.write_bytes(empty_database)
    append(f"sqlite+aiosqlite:///{path}", CALLS)
    return path.read_bytes()


@pytest.fixture
def log(url: str, path: Path, log_file: bytes) -> str:
    """A database with them."""
    path.parent.mkdir()
    path.write_bytes(log_file)
    path.chmod(0o600)
    return url


def append(url: str, entries: list[ChainEntry]) -> None:
    async def fill() -> None:
        async with open_database(url) as database:
            await database.audit.append(ChainBatch(entries))

    asyncio.run(fill())


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_tail(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """E13: What happened, a line each, aligned, calls and events together."""
    assert audit.tail(log) == 0
    assert lines(capsys) == [
        "TIME                      STATUS          MS       AGENT  TOOL             TRACE             WHAT",
        "2025-11-21T08:00:01.250Z  ok              12.5     shop   crm.list_orders  0000000000000000  -",
        "2025-11-21T08:00:02.250Z  denied          12.5     shop   crm.list_orders  0000000000000000  "
        "tool_not_allowed, *.list_*",
        "2025-11-21T08:00:02.750Z  upstream_state  -        -      crm              #3                "
        "crm is unavailable: it ended.",
        "2025-11-21T08:00:03.250Z  timeout         30000.0  desk   erp.search       0000000000000000  "
        "sent as find, answered by crm",
        "2025-11-21T08:00:04.250Z  invalid         0.0      desk   no.such          ffffffffffffffff  -",
    ]


@pytest.mark.parametrize(
    ("chosen", "seqs"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"lines": 2}, [4, 5]),
        ({"agent": "desk"}, [4, 5]),
        ({"server": "crm"}, [1, 2, 3, 4]),
        ({"tool": "crm.*"}, [1, 2]),
        ({"tool": "no.suc?"}, [5]),
        ({"tool": "crm__list_orders"}, [1, 2, 4]),
        ({"tool": "crm%"}, []),
        ({"status": "denied"}, [2]),
        ({"since": "2025-11-21T08:00:02.5"}, [3, 4, 5]),
        ({"since": "30m"}, []),
        ({"until": "2025-11-21T08:00:02.5"}, [1, 2]),
        ({"since": "2025-11-21 08:00:02", "until": "2025-11-21 08:00:04"}, [2, 3, 4]),
        ({"until": "yesterday"}, [1, 2, 3, 4, 5]),
        ({"since": "yesterday", "until": "now"}, []),
        ({"since": "36500d"}, [1, 2, 3, 4, 5]),
    ],
)
def test_tail_of_what_is_wanted(
    log: str, capsys: pytest.CaptureFixture[str], chosen: dict[str, Any], seqs: list[int]
) -> None:
    """Proves: E13."""
    assert audit.tail(log, **chosen, as_json=True) == 0
    assert [json.loads(line)["seq"] for line in lines(capsys)] == seqs


@pytest.mark.parametrize("until", ["2025-11-21T08:00:02", "2025-11-21T08:00:01", "2 h"])
def test_times_between_which_there_is_nothing(log: str, until: str) -> None:
    since = "2025-11-21T08:00:02" if until.startswith("2025") else "2 h"
    with pytest.raises(OperatorError, match="the second is not the later one"):
        audit.tail(log, since=since, until=until)


def test_a_long_name_pushes_nothing_aside(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """E13: What a caller takes for a name is cut in the table; `show` has all of it."""
    name = "n" * 200
    trace, outcome = TraceContext("f" * 32, "f" * 16), RecordedOutcome("invalid")
    call = CallRecord(trace, AT, RecordedCaller("desk", "http"), name, outcome=outcome)
    append(url, [row(call, NOTHING)])
    audit.tail(url)
    _, line = lines(capsys)
    assert f"desk   {'n' * 63}…  ffffffffffffffff" in line
    audit.show(url, "1")
    assert name in capsys.readouterr().out


def test_who_agreed_is_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """E13: In the table, in `show` and in what is exported; whatever a host calls itself."""
    append(
        url,
        [row(make_call(1, approved_by="cli:ada"), NOTHING), row(make_call(2, approved_by="host:\x1b[31m"), NOTHING)],
    )
    audit.tail(url)
    _, one, other = lines(capsys)
    assert one.endswith("  approved by cli:ada")
    assert "\x1b" not in other
    audit.show(url, "1")
    assert "approved_by" in capsys.readouterr().out
    audit.export(url)
    assert json.loads(lines(capsys)[0])["approved_by"] == "cli:ada"


def test_show(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """D5, D6, E13: A refusal names its rule and where that stands; a trace is found by how its id begins."""
    audit.show(log, "2")
    shown = dict(line.split(maxsplit=1) for line in lines(capsys))
    assert (shown["rule"], shown["rule_source"], shown["status"]) == ("*.list_*", "policies/a.yaml:3", "denied")
    assert shown["started"] == "2025-11-21T08:00:02.250000Z"
    audit.show(log, "ffff", as_json=True)
    (one,) = lines(capsys)
    assert json.loads(one)["asked_name"] == "no.such"
    audit.show(log, "3", as_json=True)
    (one,) = lines(capsys)
    assert json.loads(one)["details"] == {"to": "away"}
    audit.show(log, "0" * 20)
    assert lines(capsys).count("") == 2
    for nothing in ("99", "abc", ""):
        with pytest.raises(OperatorError, match="no row and no trace"):
            audit.show(log, nothing)


def test_export(log: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E13: Every column of every row, as JSON Lines and as CSV."""
    assert audit.export(log) == 0
    objects = [json.loads(line) for line in lines(capsys)]
    target = tmp_path / "log.csv"
    assert audit.export(log, "csv", output=target) == 0
    assert "5 rows are in" in capsys.readouterr().err
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with target.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    for one, line in zip(objects, table, strict=True):
        if "at" in one:
            one["started"] = one.pop("at")
        if "details" in one:
            one["details"] = json.dumps(one["details"], separators=(",", ":"))
        assert {name: str(value) for name, value in one.items()} == {
            name: value for name, value in line.items() if value
        }
    in_order = "SELECT seq, digest FROM mcp_tool_call_log UNION SELECT seq, digest FROM audit_events ORDER BY seq"
    assert [(one["seq"], one["digest"]) for one in objects] == rows(path, in_order)
    audit.export(log, since="2025-11-21T08:00:02", until="2025-11-21T08:00:03")
    assert [json.loads(line)["seq"] for line in lines(capsys)] == [2, 3]


def test_stats(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: E13."""
    assert audit.stats(log, "server") == 0
    assert lines(capsys) == [
        "SERVER  CALLS  OK  FAILED  REFUSED  CANCELLED  ERROR RATE  P50 MS   P95 MS",
        "crm     2      1   0       1        0          0.0 %       12.5     12.5",
        "-       1      0   0       1        0          -           -        -",
        "erp     1      0   1       0        0          100.0 %     30000.0  30000.0",
        "all     4      1   1       2        0          50.0 %      12.5     30000.0",
    ]
    assert audit.stats(log, since="2025-11-21T08:00:04", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["total"]["statuses"] == {"invalid": 1}


def test_stats_of_many_pages(log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: E13. The pages of the log add up, whatever the number of the first and the last row of one."""
    append(log, [row(make_call(number, duration=number / 1000), NOTHING) for number in range(5, 26)])
    whole = stats_of(log, capsys)
    assert whole["total"]["calls"] == whole["total"]["statuses"]["ok"] + 3 == 25
    assert (whole["groups"]["crm"]["p50_ms"], whole["groups"]["crm"]["p95_ms"]) == (14.0, 24.0)
    since = stats_of(log, capsys, since="2025-11-21T08:00:20")
    assert (since["total"]["calls"], since["total"]["p50_ms"]) == (6, 22.0)
    for span in (1, 2, 3, 25, 26, 27):
        monkeypatch.setattr("aggregator.storage.audit.read.SPAN", span)
        assert stats_of(log, capsys) == whole
        assert stats_of(log, capsys, since="2025-11-21T08:00:20") == since
    nothing = stats_of(log, capsys, since="2025-11-22")
    assert (nothing["total"]["calls"], nothing["total"]["p50_ms"], nothing["groups"]) == (0, None, {})


@pytest.mark.parametrize("by", get_args(By))
@pytest.mark.parametrize("far", [10**12, 2**63 - 1])
def test_stats_of_a_log_with_a_gap(log: str, path: Path, by: str, far: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: D11, E13. Numbers that somebody made very large cost no more than others."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE mcp_tool_call_log SET seq = ? WHERE status = 'timeout'", [far])
    assert audit.stats(log, by, as_json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["total"]["statuses"] == {"denied": 1, "invalid": 1, "ok": 1, "timeout": 1}
    assert sum(group["calls"] for group in shown["groups"].values()) == 4
    assert shown["total"]["p95_ms"] == 30_000.0


def stats_of(url: str, capsys: pytest.CaptureFixture[str], since: str | None = None) -> Any:
    assert audit.stats(url, "server", since, as_json=True) == 0
    return json.loads(capsys.readouterr().out)


def test_stats_read_groups_and_no_rows(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11. What the database returns grows with groups and statuses; what it looks at begins with `since`."""
    append(log, [row(make_call(number), NOTHING) for number in range(5, 205)])

    async def pages(wanted: LogFilter, by: By | None) -> list[list[tuple[str, str, int]]]:
        async with open_reader(log) as reader:
            return [
                sorted((one.group or "-", one.status, len(one.microseconds)) for one in page)
                async for page in reader.durations(wanted, by)
            ]

    groups = [("-", "invalid", 1), ("crm", "denied", 1), ("crm", "ok", 201), ("erp", "timeout", 1)]
    assert asyncio.run(pages(LogFilter(), "server")) == [groups]
    monkeypatch.setattr("aggregator.storage.audit.read.SPAN", 1)
    newest = LogFilter(since=AT + 203)
    assert asyncio.run(pages(newest, None)) == [[("ok", "ok", 1)]] * 2


@pytest.mark.parametrize("since", [None, AT])
def test_stats_find_the_ends_of_the_log_by_an_index(log: str, path: Path, since: float | None) -> None:
    """Proves: D11. No plan of SQLite reads the whole table to learn where to begin."""
    seen: list[str] = []

    async def look() -> None:
        async with open_reader(log) as reader:
            engine = reader._engine.raw.sync_engine
            event.listen(engine, "before_cursor_execute", lambda *given: seen.append(literal(given[2], given[3])))
            assert [page async for page in reader.durations(LogFilter(since=since), None)]

    asyncio.run(look())
    with closing(sqlite3.connect(path)) as connection:
        plans = [
            " ".join(step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {text}"))
            for text in seen
            if "min(" in text
        ]
    assert plans
    assert all("SCAN mcp" not in plan for plan in plans), plans
    assert since is None or plans[0].count("started>?") == 2, plans


def literal(text: str, values: Any) -> str:
    """A statement with its numbers in place of its parameters."""
    for value in values:
        text = text.replace("?", repr(value), 1)
    return text


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_time_that_was(microseconds: list[int], percent: int) -> None:
    ordered = sorted(microseconds)
    found = audit_stats.percentile(ordered, percent)
    assert found in [one / 1000 for one in ordered]
    below = sum(one / 1000 <= (found or 0) for one in ordered)
    assert below >= len(ordered) * percent / 100


def test_verify(log: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D9: Good news and bad news, and how a program learns of them."""
    assert audit_proof.verify(log) == 0
    first, newest, _ = lines(capsys)
    assert first == "5 rows, none missing, none changed."
    digest = newest.split()[-1]
    append(log, [row(make_call(6), NOTHING)])
    assert audit_proof.verify(log, digest) == 0
    Path(f"{path}.unwritten-1.jsonl").write_text("")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE mcp_tool_call_log SET status = 'ok' WHERE seq = 2")
        connection.execute("DELETE FROM audit_events")
    capsys.readouterr()
    assert audit_proof.verify(log) == 1
    assert lines(capsys) == [
        "row 2: It was changed.",
        "row 3: Row 3 is missing.",
        f"{path}.unwritten-1.jsonl holds rows that are not in the log yet.",
        "5 rows; the log is NOT whole.",
    ]
    assert audit_proof.verify(log, "0123", as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["whole"], report["fault_count"], report["head"]["seq"]) == (False, 3, 6)


def test_what_cannot_be_asked(url: str, path: Path) -> None:
    """Nothing is made, mended or migrated by looking."""
    with pytest.raises(OperatorError, match="nothing has been recorded yet"):
        audit.tail(url)
    assert not path.parent.exists()
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE mine (a INTEGER)")
    before = path.read_bytes()
    with pytest.raises(OperatorError, match="has no audit log"):
        audit_proof.verify(url)
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('0002')")
    with pytest.raises(OperatorError, match=r"before the first release \(schema 0002\)"):
        audit.tail(url)
    path.write_bytes(b"This is no database. " * 500)
    with pytest.raises(OperatorError, match="is damaged"):
        audit.stats(url)
    assert path.read_bytes() == b"This is no database. " * 500
    for wrong in ({"status": "good"}, {"since": "soon"}, {"since": "never"}):
        with pytest.raises(OperatorError):
            audit.tail(url, **wrong)  # type: ignore[arg-type]
    with pytest.raises(OperatorError, match="counted by"):
        audit.stats(url, "colour")
    with pytest.raises(OperatorError, match="no format"):
        audit.export(url, "xml")
    with pytest.raises(OperatorError, match="cannot be written"):
        audit.export(url, output=path.parent / "none" / "a.csv")


@pytest.mark.parametrize("column", ["started", "duration", "status", "trace_id", "agent_id", "arguments"])
@pytest.mark.parametrize("value", ["text\x1b[31m", b"\xff", 1e300, "CAST(x'ff' AS TEXT)"])
def test_a_row_that_was_tampered_with_can_be_looked_at(
    log: str, path: Path, column: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if column == "status":
        value = "error"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        given = value if str(value).startswith("CAST") else "?"
        change = f"UPDATE mcp_tool_call_log SET {column} = {given} WHERE seq = 1"  # noqa: S608
        connection.execute(change, [] if given != "?" else [value])
    audit.tail(log)
    audit.show(log, "1")
    audit.export(log)
    audit.export(log, "csv")
    assert audit.stats(log, "tool") == 0
    assert audit_proof.verify(log) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.encode()


texts = st.text(st.characters(codec=None)) | st.sampled_from(["=1+1", "+1", "-1", "@a", "\t=1", " =1", "＝1", "\r\n=1"])


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
def test_a_csv_is_safe_for_spreadsheets_and_terminals(values: list[tuple[str, str]]) -> None:
    """E13: What an agent wrote becomes no formula, no line and no escape sequence, and no row is lost."""
    given_rows = [
        LogRow(n, "call", {"agent_id": agent, "error_message": said, "started": AT}, 1, "p", "d")
        for n, (agent, said) in enumerate(values)
    ]
    text = audit_shapes.csv_lines(given_rows)
    text.encode()
    read = list(csv.reader(io.StringIO(text)))
    assert [line[0] for line in read] == [str(n) for n in range(len(values))]
    cells = [cell for line in read for cell in line if cell]
    assert all(cell.isprintable() and cell.strip()[:1] not in tuple("=+-@＝＋－＠") for cell in cells)
    for one in given_rows:
        line = audit_shapes.json_line(one)
        assert line.isprintable()
        assert json.loads(line)["agent_id"] == one.values["agent_id"]


def config_of(path: Path) -> Path:
    """Write a configuration without servers, and with this database."""
    config = path.parent.parent / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": {}, "storage": f"sqlite+aiosqlite:///{path}"}))
    return config


@contextmanager
def command(path: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The program itself."""
    with subprocess.Popen(
        [sys.executable, "-m", "aggregator", "audit", *words, "-c", str(config_of(path))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_follow_until_a_signal(log: str, path: Path) -> None:
    """E13: What happens while one looks comes as it happens; Ctrl+C ends it well."""
    with command(path, "tail", "-f", "-n", "1", "--agent", "desk") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("TIME")
        assert "no.such" in process.stdout.readline()
        append(log, [row(make_call(7), NOTHING), row(make_call(8, agent_id="desk", tool="erp.late"), NOTHING)])
        assert "erp.late" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "status", "out", "err"),
    [
        (["verify"], 1, "NOT whole", ""),
        (["show", "nothing"], 2, "", "aggregator: The audit log has no row"),
    ],
)
async def test_the_program(log: str, path: Path, words: list[str], status: int, out: str, err: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM mcp_tool_call_log WHERE seq = 4")
    code, said, wrong = await run("audit", *words, "-c", str(config_of(path)))
    assert (code, out in said, err in wrong, "Traceback" in wrong) == (status, True, True, False)


@pytest.mark.parametrize("table", ["audit_heads", "mcp_tool_call_log", "audit_events"])
def test_a_table_that_was_removed(log: str, path: Path, table: str) -> None:
    """D9: That the log is not whole is said, rather than that there was none so far."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DROP TABLE {table}")
    for look in (audit_proof.verify, audit_proof.anchor, audit.tail):
        with pytest.raises(OperatorError, match=f"NOT whole: its table {table} was removed"):
            look(log)
