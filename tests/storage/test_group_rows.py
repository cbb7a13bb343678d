"""The rows by which replicas share limits, conversations and their own presence, each condition by itself."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pytest

from aggregator.flow.storage import LISTED, FlowClear, FlowRow
from aggregator.replicas.storage import LimitUsage, ReplicaRows
from aggregator.storage.opening import Database
from aggregator.storage.records import HostSessionChange, HostSessionRecord, ReplicaRecord, UsageRow

# -- usage of limits


REPORTS: Final[Sequence[tuple[list[tuple[int, int]], int]]] = [
    ([(1, 3)], 3),
    ([(1, 3), (2, 5)], 5),
    ([(1, 5), (2, 3)], 3),
    # A report that comes late, after a newer one.
    ([(2, 5), (1, 3)], 5),
    ([(2, 5), (2, 3)], 5),
]


async def test_the_newest_report_of_a_replica_counts(database: Database) -> None:
    table = LimitUsage(database.engine)
    for case, (reports, used) in enumerate(REPORTS):
        counter, level = f"counter {case}", f"level {case}"
        for number, calls in reports:
            row = UsageRow(counter, calls, ((90.0 + calls, calls),), 100.0 + calls)
            await table.report("one", number, [row, UsageRow(level, calls, None, 100.0 + calls)])
        assert await table.of_others("other", [counter, level, "unknown"], 100.0) == {
            counter: [UsageRow(counter, used, ((90.0 + used, used),), 100.0 + used)],
            level: [UsageRow(level, used, None, 100.0 + used)],
        }


async def test_what_a_replica_reads_of_others(database: Database) -> None:
    """Neither its own rows, nor those of other counters, nor such as count no more."""
    table = LimitUsage(database.engine)
    for replica, expires in (("one", 100.0), ("two", 200.0), ("me", 200.0)):
        await table.report(replica, 1, [UsageRow("a", 1, (), expires), UsageRow("b", 2, None, expires)])
    for now, counted in ((99.9, 2), (100.0, 1), (199.9, 1), (200.0, 0)):
        found = await table.of_others("me", ["a"], now)
        assert [len(rows) for rows in found.values()] == ([counted] if counted else [])
    assert await table.of_others("me", [], 0.0) == {}


# -- labels of conversations


def label(
    at: float, *, lasts: float = 100.0, tool: str = "t", scope: str = "s", agent: str = "ada", **more: Any
) -> FlowRow:
    row = FlowRow(scope, "untrusted", agent, "key", f"shown {scope}", tool, f"trace {tool}", at, at, at + lasts)
    return row._replace(**more)


NOTED_TWICE: Final = [
    # Later and longer: what is later counts, and it began when it first did.
    (label(10.0), label(20.0, tool="u"), label(20.0, tool="u", first=10.0)),
    # Late: it brings nothing, and ends nothing.
    (label(20.0), label(10.0, tool="u"), label(20.0)),
    # Late, and yet longer, as of a process whose labels last longer.
    (label(20.0), label(10.0, tool="u", lasts=200.0), label(20.0, expires=210.0)),
    # Later and shorter.
    (label(10.0), label(20.0, tool="u", lasts=50.0), label(20.0, tool="u", first=10.0, expires=110.0)),
    # After the end of what was there it begins anew.
    (label(10.0), label(110.0, tool="u"), label(110.0, tool="u")),
    (label(10.0), label(109.9, tool="u"), label(109.9, tool="u", first=10.0)),
    # At the same time.
    (label(10.0), label(10.0, tool="u"), label(10.0, tool="u")),
]


async def test_what_is_noted_twice(database: Database) -> None:
    await database.flow.note([label(5.0, scope="other")])
    for case, (before, after, expected) in enumerate(NOTED_TWICE):
        scope = f"scope {case}"
        for one in (before, after):
            await database.flow.note([one._replace(scope=scope)])
        assert (await database.flow.read([scope], now=0.0))[scope] == [expected._replace(scope=scope)], case
    assert (await database.flow.read(["other"], now=0.0))["other"] == [label(5.0, scope="other")]


async def test_which_labels_are_read_and_shown(database: Database) -> None:
    listed = label(10.0, scope="s", label=LISTED)
    rows = [label(10.0), listed, label(20.0, scope="z"), label(10.0, scope="y", agent_id="bob")]
    await database.flow.note(rows)
    found = await database.flow.read(["s", "y"], now=109.9)
    assert {scope: len(of) for scope, of in found.items()} == {"s": 2, "y": 1}
    assert await database.flow.read(["s", "y"], now=110.0) == {}
    assert [(row.agent_id, row.scope) for row in await database.flow.show(None, now=0.0)] == [
        ("ada", "s"),
        ("ada", "z"),
        ("bob", "y"),
    ]
    assert [row.scope for row in await database.flow.show("ada", now=0.0)] == ["s", "z"]
    assert [row.scope for row in await database.flow.show("ada", now=110.0)] == ["z"]


CLEARS: Final[Sequence[tuple[str, str | None, float, int, set[str]]]] = [
    ("ada", None, 50.0, 2, {"y", "listed"}),
    ("ada", "shown s", 50.0, 1, {"z", "y", "listed"}),
    ("ada", "shown y", 50.0, 0, {"s", "z", "y", "listed"}),
    ("bob", None, 50.0, 1, {"s", "z", "listed"}),
    # What was read after the clear stays.
    ("ada", None, 15.0, 2, {"z", "y", "listed"}),
    ("ada", None, 10.0, 2, {"z", "y", "listed"}),
    ("eve", None, 50.0, 0, {"s", "z", "y", "listed"}),
]


async def test_what_a_clear_removes(database: Database) -> None:
    for agent, shown, now, count, left in CLEARS:
        await database.flow.note(
            [
                label(10.0),
                label(20.0, scope="z"),
                label(10.0, scope="y", agent_id="bob"),
                label(10.0, scope="listed", label=LISTED),
            ]
        )
        _, before = await database.flow.newest_clear()
        assert await database.flow.clear(agent, shown, now=now) == count
        assert set(await database.flow.read(["s", "z", "y", "listed"], now=0.0)) == left
        clears = await database.flow.clears_after(before)
        if shown is not None and not count:
            assert clears == []
            continue
        scopes = frozenset({"s"} if shown is not None else ())
        assert clears == [FlowClear(clears[0].seq, agent, now, scopes)]
        assert await database.flow.clears_after(clears[0].seq) == []
        assert (await database.flow.newest_clear())[1] == clears[0].seq > before


# -- replicas

LEASE: Final = 1_000.0


def replica(name: str, **facts: Any) -> ReplicaRecord:
    return ReplicaRecord(name, 0, f"http://{name}", "1", 0.0, 0.0, facts)


async def test_replicas_have_slots_of_their_own(database: Database) -> None:
    """The smallest that is free in their group; one that left frees its own, and one that beats keeps it."""
    rows, others = ReplicaRows(database.engine, "main", LEASE), ReplicaRows(database.engine, "other", LEASE)

    async def slots(table: ReplicaRows, name: str, **facts: Any) -> dict[str, int]:
        beat = await table.beat(replica(name, **facts))
        assert beat.silent == ()
        return {one.id: one.slot for one in beat.replicas}

    for number, name in enumerate("abc"):
        assert (await slots(rows, name))[name] == number
    assert await slots(others, "x") == {"x": 0}
    assert await slots(rows, "b", worker=7) == {"a": 0, "b": 1, "c": 2}
    await rows.leave("b")
    assert await slots(rows, "d") == {"a": 0, "d": 1, "c": 2}
    assert await slots(rows, "b") == {"a": 0, "d": 1, "c": 2, "b": 3}
    assert set(await rows.last_seen()) == {"a", "b", "c", "d", "x"}
    beat = await rows.beat(replica("a", worker=7))
    found = next(one for one in beat.replicas if one.id == "a")
    assert (found.facts, found.address, found.version) == ({"worker": 7}, "http://a", "1")


async def test_a_replica_that_is_silent_is_not_there_and_then_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, moved = ReplicaRows(database.engine, "main", 10.0), [0.0]

    async def now(self: ReplicaRows, connection: object) -> float:
        return 1_000.0 + moved[0]

    monkeypatch.setattr(ReplicaRows, "_now", now)
    await rows.beat(replica("silent"))
    await rows.beat(replica("a"))
    for later, there in ((9.9, {"silent", "a"}), (10.0, {"a"})):
        moved[0] = later
        beat = await rows.beat(replica("a"))
        assert {one.id for one in beat.replicas} == there
        assert {one.id for one in beat.silent} == {"silent", "a"} - there
        assert beat.now == 1_000.0 + later
    # Its slot stays its own for a while, should it come back.
    assert {one.slot for one in (await rows.beat(replica("b"))).replicas} == {1, 2}
    assert {one.id: one.slot for one in (await rows.beat(replica("silent"))).replicas}["silent"] == 0
    moved[0] += 49.9
    await rows.beat(replica("d"))
    assert set(await rows.last_seen()) == {"silent", "a", "b", "d"}, "five leases have not gone by"
    moved[0] += 10_000.0
    await rows.beat(replica("c"))
    assert set(await rows.last_seen()) == {"c"}


async def test_what_is_kept_of_a_session_of_a_host(database: Database) -> None:
    """C4: later changes come on top, and nothing brings an ended session back."""
    sessions = database.host_sessions
    change = partial(HostSessionChange, "s", "ada", 1e9)
    await sessions.write([change(level="error", added=("a:1", "a:2"))], 1.0)
    await sessions.write([change(added=("a:3",), removed=("a:1",))], 2.0)
    assert await sessions.read(["s", "t"]) == {"s": HostSessionRecord("s", False, "error", ("a:2", "a:3"))}
    await sessions.write([change(ended=3.0)], 3.0)
    await sessions.write([change(level="debug", added=("a:4",))], 4.0)
    (found,) = (await sessions.read(["s"])).values()
    assert (found.ended, found.level, found.uris) == (True, None, ())
