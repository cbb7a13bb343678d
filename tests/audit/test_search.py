"""The search for calls in the database: what is found, how far it looks, and what came since."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.dialects import postgresql

from aggregator.audit.capture import Capture
from aggregator.audit.rows import RowMaker
from aggregator.domain.call_record import AuditEvent, CallRecord
from aggregator.storage.audit import search
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.audit.query import CallQuery, Term, parse
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from aggregator.storage.tables import mcp_tool_call_log
from tests.audit.logs import AT, NOTHING, DatabaseFile, make_call
from tests.laws import examples

NOW: Final = AT + 1000


async def write(database: Database, *calls: CallRecord | AuditEvent, capture: Any = NOTHING) -> None:
    maker = RowMaker(capture)
    await database.audit.append(ChainBatch([maker.row(call) for call in calls]))


async def found(database: Database, text: str, **options: Any) -> list[int]:
    page = await database.calls.find(parse(text, NOW), **options)
    return [int(row["trace_id"], 16) for row in page.rows]


@pytest.fixture
async def some(database: Database) -> Database:
    await write(
        database,
        make_call(1, agent_id="desk", duration=2.0),
        make_call(2, status="denied", rule='deny "*.delete_*"', error_message="It is 100%_sure not allowed."),
        AuditEvent("tools_changed", AT, "crm has other tools"),
        make_call(3, status="timeout", tool="erp.get", server="erp", answered_by="crm", result=None),
        make_call(4, tool=None, asked_name="crm__sold[1]", server=None, status="invalid"),
    )
    return database


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [4, 3, 2, 1]),
        ("agent:desk", [1]),
        ("-agent:desk", [4, 3, 2]),
        ("agent:desk,shop status:ok", [1]),
        ("status:refused", [4, 2]),
        ("server:crm", [3, 2, 1]),
        ("-server:crm", [4]),
        ("tool:crm.*", [2, 1]),
        ("tool:CRM.*", []),
        ("tool:*[1]", [4]),
        ("tool:crm_?sold*", [4]),
        ("tool:e?p.*", [3]),
        ("rule:*delete*", [2]),
        ("-rule:*", [4, 3, 1]),
        ("took:>1s", [1]),
        ("-took:>1s took:<=12.5ms", [4, 3, 2]),
        ("size:<1", [3]),
        ("NOT", [2]),
        ("100%_sure", [2]),
        ("0%sure", []),
        ("-allowed", [4, 3, 1]),
        (f"trace:{'0' * 31}", [4, 3, 2, 1]),
        (f"{3:032x}", [3]),
        ("until:2025-11-21T08:00:02.6", [2, 1]),
        ("since:2025-11-21T08:00:02.6", [4, 3]),
        ("since:2025-11-21T09:00", []),
        ("until:2025-11-21T07:00", []),
    ],
)
async def test_what_a_query_finds(some: Database, text: str, numbers: list[int]) -> None:
    """E13: newest first, without what is no call."""
    assert await found(some, text, values=True) == numbers


async def test_a_time_range_has_its_beginning_and_not_its_end(some: Database) -> None:
    """E13: of two ranges side by side each call is in one."""
    times = {int(row["trace_id"], 16): row["started"] for row in (await some.calls.find(CallQuery())).rows}
    for since, until, numbers in ((times[2], times[4], [3, 2]), (times[4], None, [4]), (None, times[2], [1])):
        page = await some.calls.find(CallQuery(since=since, until=until))
        assert [int(row["trace_id"], 16) for row in page.rows] == numbers


async def test_kept_values_are_searched_for_those_who_may_see_them(database: Database) -> None:
    """E13: a viewer learns nothing of what was kept by searching for it."""
    full = Capture("full", lambda value: value, 1000)
    await write(database, make_call(1, arguments={"to": "Ada"}, result={"text": "Babbage"}), capture=full)
    assert await found(database, "ada", values=True) == [1]
    assert await found(database, "babbage", values=True) == [1]
    assert await found(database, "ada") == []
    # A message may have words of a server in it.
    await write(database, make_call(2, status="error", error_code="tool_error", error_message="Of Lovelace."))
    assert await found(database, "lovelace", values=True) == [2]
    assert await found(database, "lovelace") == []
    assert await found(database, "tool_error") == [2]
    assert (await database.calls.find(CallQuery())).rows[0].keys().isdisjoint({"arguments", "result", "steps"})
    whole = await database.calls.one(1)
    assert whole is not None
    assert whole["arguments"] == '{"to":"Ada"}'


async def test_pages_follow_each_other(database: Database) -> None:
    """E13: each call is on one page, and the last page says that it is."""
    await write(database, *(make_call(n, agent_id="a" if n % 3 else "b") for n in range(1, 61)))
    seen: list[int] = []
    before = None
    for _ in range(10):
        page = await database.calls.find(parse("agent:a", NOW), before=before, limit=7)
        seen += [int(row["trace_id"], 16) for row in page.rows]
        before = page.before
        if before is None:
            break
    assert before is None
    assert seen == [n for n in range(60, 0, -1) if n % 3]


async def test_it_says_how_far_it_looked(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a request looks at a bounded number of rows, and can be gone on with."""
    monkeypatch.setattr(search, "WINDOW", 20)
    await write(database, *(make_call(n, agent_id="rare" if n == 1 else "shop") for n in range(1, 51)))
    first = await database.calls.find(parse("agent:rare", NOW))
    assert (first.rows, first.full, first.before, first.looked_to) == ((), False, 31, AT + 31)
    second = await database.calls.find(parse("agent:rare", NOW), before=first.before)
    third = await database.calls.find(parse("agent:rare", NOW), before=second.before)
    assert [len(page.rows) for page in (second, third)] == [0, 1]
    assert third.before is None


async def test_a_search_that_takes_long_ends_early(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a request takes a bounded time."""
    monkeypatch.setattr(search, "SECONDS", -1.0)
    await write(database, make_call(1))
    page = await database.calls.find(parse("agent:x", NOW))
    assert (page.rows, page.full, page.before) == ((), False, 2)


async def test_counts_are_by_minute_and_status(some: Database) -> None:
    """E12: the facets and the bars come of the same rows."""
    counts = await some.calls.count(parse("", NOW), AT - 100)
    assert sum(one.calls for one in counts.counted) == 4
    assert sum(one.slow for one in counts.counted) == 1
    assert {one.minute for one in counts.counted} == {int(AT // 60)}
    assert counts.since == AT - 100
    only = await some.calls.count(parse("status:failed", NOW), AT - 100)
    assert [(one.status, one.calls) for one in only.counted] == [("timeout", 1)]


async def test_what_came_since(some: Database) -> None:
    """E13: rows after a number, and which of them each query finds."""
    newest = await some.calls.newest()
    assert newest == 5
    arrived, place = await some.calls.arrived({0: 2})
    assert [(one.seq, one.status) for one in arrived] == [(4, "timeout"), (5, "invalid")]
    assert place == await some.calls.end() == {0: 5}
    assert await some.calls.arrived(place) == ([], place)
    assert [row["agent_id"] for row in await some.calls.some([1, 3, 5])] == ["desk", "shop"]
    queries = [(parse("server:erp", NOW), False), (parse("", NOW), False), (parse("nothing-like-it", NOW), False)]
    assert await some.calls.matching(queries, 2, newest) == [{4}, {2, 4, 5}, frozenset()]


def made(path: Path, empty: bytes) -> Path:
    path.write_bytes(empty)
    path.chmod(0o600)
    return path


NAMES = st.sampled_from(["crm.a", "crm.b", "CRM.a", "x[1]", "ä.b", None, "a-b", "*", "^", "a^"])
PATTERNS = st.text("crmab.*?[]^_%xä1", min_size=1, max_size=6)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, min_size=1, max_size=8), st.lists(PATTERNS, min_size=1, max_size=3), st.booleans())
async def test_patterns_mean_what_they_mean_in_policies(
    empty_database: DatabaseFile,
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str | None],
    patterns: list[str],
    negated: bool,
) -> None:
    """E13: SQLite finds what Python's patterns match; "not" finds all others."""
    path = made(tmp_path_factory.mktemp("p") / "a.db", empty_database)
    async with open_database(f"sqlite+aiosqlite:///{path}") as database:
        await write(database, *(make_call(n, rule=name) for n, name in enumerate(names, 1)))
        page = await database.calls.find(CallQuery((Term("rule", (), tuple(patterns), negated),)))
        plain = [pattern.replace("[", "[[]") for pattern in patterns]
        matching = {
            n for n, name in enumerate(names, 1) if name is not None and any(fnmatchcase(name, one) for one in plain)
        }
        numbers = {int(row["trace_id"], 16) for row in page.rows}
        assert numbers == (set(range(1, len(names) + 1)) - matching if negated else matching)


def test_a_query_is_one_that_postgresql_takes() -> None:
    """E5: no function that only SQLite has."""
    text = "agent:a -tool:b.* took:>1s since:1h until:now word -word size:>1 trace:ab"
    conditions = search.conditions_of(parse(text, NOW), "postgresql", values=True)
    said = str(select(mcp_tool_call_log.c.seq).where(*conditions).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    assert "GLOB" not in said
    assert " LIKE " in said
