"""What is kept for no longer goes, and nothing else; what would go is what goes."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import insert, select, text

from aggregator.app.retention import Retention
from aggregator.audit.rows import row
from aggregator.config.settings import AuditConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import AuditEvent
from aggregator.storage import retention as pruning
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.audit.log import CLOCKS_DIFFER
from aggregator.storage.audit.read import open_reader
from aggregator.storage.audit.verify import verify
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageBusy, StorageError
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.storage.opening import Database
from aggregator.storage.retention import RetentionRules, prune, would_prune
from aggregator.storage.tables import changes
from tests.audit.logs import AT, NOTHING, make_call
from tests.backup.databases import add_rows, content, url_of
from tests.polling import until

NOW: Final = AT + 400 * 86400.0
DAY: Final = 86400.0
ALL_KEPT: Final = RetentionRules(None, None)
APPROVAL: Final = {"agent_id": "a", "tool": "t", "digest": "d", "summary": "s", "status": "denied", "created": AT}
SESSION: Final = {"person": "p", "role": "viewer", "created": AT}
SERVER: Final = {"transport": "stdio", "protocol": "p", "server_info": "{}", "capabilities": "{}", "tools": 1}
VERSION: Final = {"server": "s", "name": "n", "first_seen": AT, "size": 2, "definition": "{}"}
KEPT: Final = {"owner": "o", "created": AT, "size": 1, "parts": 1}
BEAT: Final = {"group_name": "main", "version": "1", "started": AT, "facts": "{}"}

# Rows by table: those whose first column begins with `old` go, all others stay.
ROWS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("approvals", {**APPROVAL, "id": "old", "expires": NOW - 31 * DAY}),
    ("approvals", {**APPROVAL, "id": "new", "expires": NOW - 29 * DAY}),
    ("console_links", {"hash": "old", "person": "p", "role": "viewer", "expires": NOW - 1}),
    ("console_links", {"hash": "new", "person": "p", "role": "viewer", "expires": NOW + 1}),
    *(
        (
            "console_sessions",
            {
                "hash": name,
                "id": name,
                "person": "p",
                "role": "viewer",
                "created": AT,
                "last_seen": seen,
                "expires": end,
            },
        )
        for name, seen, end in (
            ("old", NOW - 1, NOW - 1),
            ("old idle", NOW - 3601, NOW + 9999),
            ("new", NOW - 3599, NOW + 1),
        )
    ),
    ("used_states", {"nonce": "old", "expires": NOW - 301}),
    ("used_states", {"nonce": "new", "expires": NOW - 299}),
    ("host_sessions", {"id": "old", "agent_id": "a", "expires": NOW - 301}),
    ("host_sessions", {"id": "new", "agent_id": "a", "expires": NOW - 299}),
    ("limit_usage", {"counter": "old", "replica": "r", "report": 1, "used": 1, "expires": NOW - 301}),
    ("limit_usage", {"counter": "new", "replica": "r", "report": 1, "used": 1, "expires": NOW - 299}),
    ("kept_results", {**KEPT, "id": "old", "expires": NOW - 1}),
    ("kept_results", {**KEPT, "id": "new", "expires": NOW + 1}),
    ("kept_result_parts", {"id": "old", "part": 0, "sealed": b"x"}),
    ("kept_result_parts", {"id": "new", "part": 0, "sealed": b"x"}),
    ("replicas", {**BEAT, "id": "old", "slot": 1, "seen": NOW - 2 * DAY}),
    ("replicas", {**BEAT, "id": "new", "slot": 2, "seen": NOW - 0.5 * DAY}),
    ("mcp_servers", {**SERVER, "id": "old", "fingerprint": "f", "connected": NOW - 91 * DAY}),
    ("mcp_servers", {**SERVER, "id": "s", "fingerprint": "f", "connected": NOW - 89 * DAY}),
    ("mcp_item_lists", {"server": "old", "fingerprint": "f", "kind": "prompt", "definitions": "[]"}),
    ("mcp_item_lists", {"server": "s", "fingerprint": "f", "kind": "prompt", "definitions": "[]"}),
    ("mcp_tool_versions", {**VERSION, "digest": "listed", "last_seen": NOW - 300 * DAY}),
    ("mcp_tool_versions", {**VERSION, "digest": "unused", "last_seen": NOW - 99 * DAY}),
    ("mcp_tool_versions", {**VERSION, "digest": "old", "last_seen": NOW - 101 * DAY}),
    ("mcp_tools", {"server": "s", "fingerprint": "f", "position": 0, "name": "n", "digest": "listed"}),
    ("mcp_tools", {"server": "s", "fingerprint": "f", "position": 1, "name": "n", "digest": "unused"}),
]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of either kind."""
    if request.param == "sqlite":
        return url_of(tmp_path / "a.db")
    return str(request.getfixturevalue("postgres_url"))


async def test_what_has_expired_goes_and_nothing_else(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On either kind of store, also where several transactions are needed; a dry run says the same before.

    Proves: F24
    """
    monkeypatch.setattr(pruning, "STEP", 1)
    rules = RetentionRules(100 * DAY, None)
    async with open_database(url) as database:
        await add_rows(database, ROWS)
        assert await _numbers(database, (("keys", NOW - 4000), ("keys", NOW - 3000), ("x", AT))) == [1, 2, 3]
        expected = await would_prune(database.engine, rules, now=NOW)
        assert await prune(database.engine, database.audit, rules, now=NOW) == expected
        again = await prune(database.engine, database.audit, rules, now=NOW)
        assert sum(one.rows for one in again) == 0
        # The newest of each subject stays, however old.
        assert await _numbers(database) == [2, 3]
    left = await content(url)
    for table in ("approvals", "console_links", "console_sessions", "used_states", "host_sessions", "limit_usage"):
        assert [row[0] for row in left[table]] == ["new"], table
    assert [row[0] for row in left["mcp_servers"]] == ["s"]
    assert [row[0] for row in left["mcp_item_lists"]] == ["s"]
    assert [row[1] for row in left["mcp_tool_versions"]] == ["listed", "unused"]
    assert {one.kind: one.rows for one in expected if one.rows} == {
        "approvals": 1,
        "console sessions": 2,
        "console links": 1,
        "sealed states": 1,
        "sessions of hosts": 1,
        "use of limits": 1,
        "parts of kept results": 1,
        "kept results": 1,
        "changes": 1,
        "replicas": 1,
        "catalogs of servers": 1,
        "definitions of tools": 1,
    }


async def test_a_result_that_was_kept_while_the_clock_was_ahead_goes_too(tmp_path: Path) -> None:
    """It would stay until that time, however many others make room for it."""
    kept = {"ahead": NOW + CLOCKS_DIFFER + 1, "near": NOW + CLOCKS_DIFFER - 1}
    url = url_of(tmp_path / "a.db")
    async with open_database(url) as database:
        rows = [("kept_results", {**KEPT, "id": id, "created": at, "expires": at + DAY}) for id, at in kept.items()]
        await add_rows(database, rows + [("kept_result_parts", {"id": id, "part": 0, "sealed": b"x"}) for id in kept])
        await prune(database.engine, database.audit, ALL_KEPT, now=NOW)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        for table in ("kept_results", "kept_result_parts"):
            assert connection.execute(f"SELECT id FROM {table}").fetchall() == [("near",)]  # noqa: S608 - named above


async def test_a_kind_that_is_refused_costs_no_other(tmp_path: Path) -> None:
    """Two are refused, of which one is found by the rows of another kind; the others go."""
    url = url_of(tmp_path / "a.db")
    async with open_database(url) as database:
        await add_rows(database, ROWS)
        for table in ("approvals", "kept_result_parts"):
            await _refuse(database, table)
        with pytest.raises(StorageError, match="rows cannot be removed: approvals: IntegrityError; parts of kept res"):
            await prune(database.engine, database.audit, RetentionRules(100 * DAY, None), now=NOW)
    left = await content(url)
    for table in ("console_links", "used_states", "host_sessions", "limit_usage"):
        assert [row[0] for row in left[table]] == ["new"], table
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        for table in ("approvals", "kept_result_parts", "kept_results"):
            ids = connection.execute(f"SELECT id FROM {table} ORDER BY id")  # noqa: S608 - a table named above
            assert [row[0] for row in ids] == ["new", "old"], table


async def test_a_busy_database_is_not_asked_for_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_database(url_of(tmp_path / "a.db")) as database:
        asked: list[Any] = []

        async def busy(engine: Any, kind: Any) -> int:
            asked.append(kind.name)
            raise StorageBusy("locked")

        monkeypatch.setattr(pruning, "_removed", busy)
        with pytest.raises(StorageBusy):
            await prune(database.engine, database.audit, ALL_KEPT, now=NOW)
        assert asked == ["approvals"]


async def test_an_error_of_ours_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.app.retention.EVERY", 0.001)
    tries: list[float] = []

    async def breaks(self: Database, *rest: Any, now: float) -> int:
        tries.append(now)
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Database, "prune", breaks)
    store = LazyDatabase(url_of(tmp_path / "a.db"), None)
    async with store, Tasks("a test") as tasks:
        tasks.start(Retention(store, AuditConfig()).run())
        await until(lambda: len(tries) >= 2, "it is tried again")


async def test_a_leap_of_the_clock_removes_nothing_at_once(tmp_path: Path) -> None:
    """Not before it has said so twice; a clock that is set right in between costs nothing."""
    times = [NOW - 400 * DAY]
    store = LazyDatabase(url_of(tmp_path / "a.db"), None)
    async with store:
        database = await store.open()
        assert database is not None
        await add_rows(database, ROWS)
        retention = Retention(store, AuditConfig(keep_for=None), lambda: times[0])
        assert await retention.once() == 0
        for ahead in (3650 * DAY, 0.0, 0.5 * DAY, 400 * DAY):
            times[0] = NOW - 400 * DAY + ahead
            assert await retention.once() == 0, ahead
        assert await retention.once() > 0


async def test_results_kept_by_a_clock_that_was_ahead_go(tmp_path: Path) -> None:
    ahead = {**KEPT, "created": NOW + 500 * DAY, "expires": NOW + 501 * DAY}
    async with open_database(url_of(tmp_path / "a.db")) as database:
        await add_rows(
            database,
            [
                ("kept_results", {**ahead, "id": "ahead"}),
                ("kept_results", {**KEPT, "id": "new", "created": NOW + 300, "expires": NOW + 400}),
            ],
        )
        await prune(database.engine, database.audit, ALL_KEPT, now=NOW)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("SELECT id FROM kept_results").fetchall() == [("new",)]


async def _refuse(database: Database, table: str) -> None:
    async with database.engine.write() as connection:
        await connection.execute(
            text(f"CREATE TRIGGER kept_{table} BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'stays'); END")
        )


@pytest.mark.parametrize(
    "rules",
    [
        ALL_KEPT,
        RetentionRules(NOW - AT - 10, None),
        RetentionRules(None, None, before=AT + 15),
        RetentionRules(None, 6000),
        RetentionRules(NOW - AT - 5, 9000, before=AT + 3),
        RetentionRules(0.0, None),
        RetentionRules(0.0, 0, audited=False),
    ],
)
async def test_the_audit_is_trimmed_as_a_dry_run_says(tmp_path: Path, rules: RetentionRules) -> None:
    """By age and by size; what stays proves itself.

    Proves: F24
    """
    url = url_of(tmp_path / "a.db")
    async with open_database(url) as database:
        for number in range(20):
            event = AuditEvent("console", AT + number, "x" * 50)
            entries = [row(make_call(number, duration=0.0), NOTHING), row(event, NOTHING)]
            await database.audit.append(ChainBatch(entries))
        before = await would_prune(database.engine, rules, now=NOW)
        done = await prune(database.engine, database.audit, rules, now=NOW)
    assert done == before
    rows = {one.kind: one.rows for one in done}.get("audit rows", 0)
    if rules == ALL_KEPT or not rules.audited:
        assert rows == 0
    else:
        assert 0 < rows <= 40
    async with open_reader(url) as reader:
        verdict = await verify(reader)
    assert not verdict.faults
    assert verdict.rows == 40 - rows + (1 if rows else 0)


async def test_a_running_gateway_removes_it_by_itself(tmp_path: Path) -> None:
    """All but audit rows, which the writer of the log trims; a database that cannot be used is told of, and tried
    again.

    Proves: F24
    """
    url = url_of(tmp_path / "a.db")
    async with open_database(url) as database:
        await add_rows(database, ROWS)
        await database.audit.append(ChainBatch([row(make_call(1), NOTHING)]))
    lazy = LazyDatabase(url, None)
    async with lazy:
        retention = Retention(lazy, AuditConfig(keep_for=1.0), lambda: NOW)
        assert await retention.once() == 12
        assert await retention.once() == 0
    left = await content(url)
    assert len(left["mcp_tool_call_log"]) == 1
    broken = LazyDatabase("sqlite:////dev/null/a.db", None)
    async with broken:
        assert await Retention(broken, AuditConfig(), lambda: NOW).once() == 0
    nowhere = LazyDatabase(None, None)
    assert await Retention(nowhere, AuditConfig(), lambda: NOW).once() == 0


async def _numbers(database: Database, add: tuple[tuple[str, float], ...] = ()) -> list[int]:
    """Add changes of these subjects and times; return the numbers of all that are there."""
    async with database.engine.write() as connection:
        for number, (subject, at) in enumerate(add, 1):
            await connection.execute(insert(changes).values(seq=number, subject=subject, at=at))
        return list((await connection.execute(select(changes.c.seq).order_by(changes.c.seq))).scalars())
