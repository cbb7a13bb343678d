"""A chain for each replica: numbered as one log, verified together, trimmed together; what is taken away is found."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest
from sqlalchemy import text

from aggregator.audit.rows import row
from aggregator.cli.audit import proof as audit_proof
from aggregator.domain.call_record import BegunCall
from aggregator.storage.audit import log as audit_log
from aggregator.storage.audit.anchor import Anchor, anchor_line, anchors_in
from aggregator.storage.audit.chain import ChainBatch, ChainKey, entry, genesis
from aggregator.storage.audit.read import ALL, AuditReader, LogFilter, open_reader
from aggregator.storage.audit.search import place_of, place_text
from aggregator.storage.audit.verify import Verdict, verify
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageError
from aggregator.storage.opening import Database
from tests.audit.logs import AT, NOTHING, make_call

SECRET: Final = "a chain key of more than 32 characters"


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    request.getfixturevalue("made")
    return str(request.getfixturevalue("url"))


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the log's own events stands at the time of the calls."""
    monkeypatch.setattr(audit_log, "time", SimpleNamespace(time=lambda: AT))


@asynccontextmanager
async def replicas(url: str, *slots: int, key: str | None = None) -> AsyncIterator[list[Database]]:
    """The same database, opened once for each of these slots."""
    async with AsyncExitStack() as stack:
        opened = []
        for slot in slots:
            database = await stack.enter_async_context(open_database(url, key))
            database.audit.write_chain(partial(int, slot))
            opened.append(database)
        yield opened


async def write(database: Database, *numbers: int, **changes: Any) -> None:
    """Write a row for each of these calls, together."""
    await database.audit.append(ChainBatch([row(make_call(number, **changes), NOTHING) for number in numbers]))


async def verdict(url: str, anchors: Sequence[Anchor] = (), key: str | None = None) -> Verdict:
    """Return the verdict of `verify`."""
    async with open_reader(url) as reader:
        return await verify(reader, None, anchors, ChainKey(key) if key is not None else None)


async def change(database: Database, *statements: str) -> None:
    """Do what another program could."""
    async with database.engine.write() as connection:
        for one in statements:
            await connection.execute(text(one))


async def fill(url: str, key: str | None = None) -> None:
    """Write twelve rows by three replicas, in turn, so that chains 0, 1 and 2 have 6, 4 and 4 of 14."""
    async with replicas(url, 0, 1, 2, key=key) as opened:
        for number in range(12):
            await write(opened[number % 3], number + 1)


async def test_each_replica_has_a_chain_of_its_own(either: str) -> None:
    """D9: Rows are numbered as one log, and each chain is whole for itself."""
    await fill(either)
    found = await verdict(either)
    assert (found.faults, found.rows, found.head.seq) == ((), 14, 14)
    assert [(one.chain, one.rows) for one in found.chains] == [(0, 6), (1, 4), (2, 4)]
    async with open_reader(either) as reader:
        rows = await reader.after(0, ALL)
    assert [one.seq for one in rows] == list(range(1, 15))
    assert [one.kind for one in rows if one.chain == 0].count("chain_begun") == 2
    assert [one.values["trace_id"][-2:] for one in rows if one.kind == "call"] == [f"{n:02x}" for n in range(1, 13)]


async def test_one_process_writes_chain_0_and_names_no_other(either: str) -> None:
    async with replicas(either, 0) as (database,):
        await write(database, 1, 2)
        await write(database, 3)
    found = await verdict(either)
    assert [(one.chain, one.rows, one.head.seq) for one in found.chains] == [(0, 3, 3)]
    assert found.faults == ()


async def test_two_processes_on_one_chain_take_turns(either: str) -> None:
    """D9: That a slot is a replica's alone makes writing quick; it is not what keeps the chain whole."""
    async with replicas(either, 1, 1, 0) as opened, asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(write(opened[number % 3], number + 1))
    found = await verdict(either)
    assert found.faults == ()
    assert [(one.chain, one.rows) for one in found.chains] == [(0, 11), (1, 20)]


async def test_a_chain_is_begun_once(either: str) -> None:
    """D9: However many processes begin it at the same time."""
    async with replicas(either, 3, 3, 3, 4, 4, 0) as opened, asyncio.TaskGroup() as group:
        for number, database in enumerate(opened):
            group.create_task(write(database, number + 1))
    found = await verdict(either)
    assert found.faults == ()
    assert [(one.chain, one.rows) for one in found.chains] == [(0, 3), (3, 3), (4, 2)]


TAMPERINGS: Final = [
    ("DELETE FROM mcp_tool_call_log WHERE seq = {middle}", "missing"),
    ("DELETE FROM mcp_tool_call_log WHERE chain = 1 AND seq < {middle}", "missing"),
    ("DELETE FROM mcp_tool_call_log WHERE chain = 1 AND seq > {middle}", "missing at the end"),
    ("DELETE FROM mcp_tool_call_log WHERE chain = 1", "missing at the end"),
    ("UPDATE mcp_tool_call_log SET agent_id = 'x' WHERE seq = {middle}", "It was changed."),
    ("UPDATE mcp_tool_call_log SET chain = 2 WHERE seq = {middle}", "does not follow"),
    (
        "UPDATE mcp_tool_call_log SET chain = 7 WHERE seq = {middle}",
        "record of where the log of chain 7 ends is missing",
    ),
    ("UPDATE mcp_tool_call_log SET chain = 7 WHERE chain = 1", "record of where the log of chain 7 ends is missing"),
    ("DELETE FROM audit_heads WHERE chain = 1", "record of where the log of chain 1 ends is missing"),
    ("UPDATE audit_heads SET chain = 9 WHERE chain = 1", "Chain 1, of which this row tells, was taken away."),
    ("UPDATE audit_heads SET trimmed_seq = 1 WHERE chain = 1", "No event of the log says"),
    ("DELETE FROM audit_events WHERE kind = 'chain_begun'", "Chain 0 does not tell of this chain"),
]


@pytest.mark.parametrize(("statement", "said"), TAMPERINGS)
async def test_what_is_done_to_one_chain_is_found(url: str, made: Any, statement: str, said: str) -> None:
    """Proves: D9."""
    await fill(url)
    async with replicas(url, 0) as (database,):
        async with database.engine.read() as connection:
            mine = text("SELECT seq FROM mcp_tool_call_log WHERE chain = 1 ORDER BY seq")
            seqs = (await connection.scalars(mine)).all()
        await change(database, statement.format(middle=seqs[1]))
    found = await verdict(url)
    assert said in " ".join(fault.what for fault in found.faults)


@pytest.mark.parametrize("seq", range(1, 15))
async def test_any_row_that_is_taken_or_changed_is_missed(url: str, made: Any, seq: int) -> None:
    """Proves: D9."""
    await fill(url)
    for statement in (
        "UPDATE {table} SET digest = 'x' WHERE seq = {seq}",
        "UPDATE {table} SET previous = 'x' WHERE seq = {seq}",
        "UPDATE {table} SET chain = (chain + 1) % 3 WHERE seq = {seq}",
        "DELETE FROM {table} WHERE seq = {seq}",
    ):
        async with replicas(url, 0) as (database,):
            tables = ("mcp_tool_call_log", "audit_events")
            await change(database, *(statement.format(table=table, seq=seq) for table in tables))
        assert (await verdict(url)).fault_count


@pytest.mark.parametrize("key", [None, SECRET])
@pytest.mark.parametrize("trimmed", [False, True])
async def test_a_chain_that_was_taken_away_whole_is_missed(either: str, key: str | None, trimmed: bool) -> None:
    """D9: Chain 0 says that it was there, after a trim, too; and once a process goes on with it, that shows."""
    take = [f"DELETE FROM {table} WHERE chain = 2" for table in ("mcp_tool_call_log", "audit_events", "audit_heads")]  # noqa: S608
    await fill(either, key)
    async with replicas(either, 1, 2, key=key) as (one, two):
        assert bool(await one.audit.trim(before=AT + 9.5 * trimmed, keep_bytes=None, now=AT + 100)) == trimmed
        assert (await verdict(either, key=key)).faults == ()
        await change(one, *take)
        (fault,) = (await verdict(either, key=key)).faults
        assert fault.what == "Chain 2, of which this row tells, was taken away."
        await write(two, 50)
        kinds = [one.kind for one in await AuditReader(one.engine).after(0, ALL)]
    said = [fault.what for fault in (await verdict(either, key=key)).faults]
    assert said == ([] if trimmed else ["Chain 2 begins here a second time: the first was taken away."])
    assert ("log_mended" in kinds) == trimmed


async def test_a_chain_of_another_program_is_found(url: str, made: Any) -> None:
    """D9: However well it is chained."""
    await fill(url)
    async with replicas(url, 0) as (database,):
        copied = "UPDATE audit_heads SET chain = 8, seq = 0, digest = '{0}', trimmed_digest = '{0}' WHERE chain = 2"
        await change(database, copied.format(genesis(8).digest), "DELETE FROM mcp_tool_call_log WHERE chain = 2")
    said = [fault.what for fault in (await verdict(url)).faults]
    assert "Chain 0 does not tell of this chain: another program made it." in said


async def test_with_a_key_no_chain_can_be_cut(either: str) -> None:
    """D9: The record of the end of each chain is proven by the key, and stands for its own chain only."""
    await fill(either, SECRET)
    async with replicas(either, 0, key=SECRET) as (database,):
        last = "(SELECT {0} FROM mcp_tool_call_log WHERE chain = 2 ORDER BY seq DESC LIMIT 1)"
        await change(
            database,
            f"DELETE FROM mcp_tool_call_log WHERE seq = {last.format('seq')}",  # noqa: S608
            f"UPDATE audit_heads SET seq = {last.format('seq')}, digest = {last.format('digest')} WHERE chain = 2",  # noqa: S608
        )
    said = [(fault.chain, fault.what) for fault in (await verdict(either, key=SECRET)).faults]
    assert said == [(2, "The record of where the log ends was made without the key.")]


async def test_a_key_takes_over_every_chain(either: str) -> None:
    """D9: Also those that nobody writes any more; from then on no chain takes rows without it."""
    await fill(either)
    async with replicas(either, 1, key=SECRET) as (database,):
        await write(database, 20)
        assert await database.audit.trim(before=None, keep_bytes=None, now=AT) == 0
    found = await verdict(either, key=SECRET)
    assert (found.faults, [one.keyed_from for one in found.chains]) == ((), [None, 15, None])
    async with replicas(either, 2, 5) as opened:
        for database in opened:
            with pytest.raises(StorageError, match="chain_key"):
                await write(database, 21)


async def test_the_oldest_rows_of_all_chains_go_first(either: str) -> None:
    """D9: By age and by size; whichever replica removes them, and two of them at the same time."""
    await fill(either)
    async with replicas(either, 0, 1, 2) as opened:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(one.audit.trim(before=AT + 6.5, keep_bytes=None, now=AT + 100)) for one in opened
            ]
        assert sorted(task.result() for task in tasks) == [0, 0, 8]
        async with open_reader(either) as reader:
            left = [int(one.values["trace_id"], 16) for one in await reader.after(0, ALL) if one.kind == "call"]
        assert left == list(range(7, 13))
        _, size = await opened[1].audit.append(ChainBatch([row(make_call(30), NOTHING)]))
        assert await opened[2].audit.trim(before=None, keep_bytes=size - 1, now=AT + 100)
        async with opened[0].engine.read() as connection:
            kept = await connection.scalar(text("SELECT sum(bytes) FROM audit_heads"))
            calls = await connection.scalar(text("SELECT sum(bytes) FROM mcp_tool_call_log"))
            events = await connection.scalar(text("SELECT sum(bytes) FROM audit_events"))
        assert size > kept == calls + events
    assert (await verdict(either)).faults == ()


async def test_a_chain_whose_rows_were_all_removed_goes_on(either: str) -> None:
    await fill(either)
    async with replicas(either, 0, 1) as (first, second):
        await first.audit.trim(before=AT + 100, keep_bytes=None, now=AT + 100)
        await write(second, 40)
    found = await verdict(either)
    assert (found.faults, [one.rows for one in found.chains]) == ((), [1, 1, 0])


async def test_followers_read_on_in_each_chain(either: str) -> None:
    """E13: A page, or `tail -f`, gets every row once, also those whose number is lower and that came later."""
    await fill(either)
    async with replicas(either, 0, 1, 2) as opened, open_reader(either) as reader:
        place, told = await reader.end(), place_text(await opened[0].calls.end())
        await write(opened[2], 21, 22)
        await write(opened[0], 23)
        rows, place = await reader.since(place, LogFilter())
        assert [int(one.values["trace_id"], 16) for one in rows] == [21, 22, 23]
        assert (await reader.since(place, LogFilter()))[0] == []
        arrived, _ = await opened[0].calls.arrived(place_of(told) or {})
        assert [one.seq for one in arrived] == [one.seq for one in rows]
        some, reached = await opened[0].calls.arrived(place_of(told) or {}, 1)
        more, _ = await opened[0].calls.arrived(reached, 10)
        assert sorted([*some, *more]) == arrived


async def test_a_row_that_is_committed_late_is_told(postgres_url: str) -> None:
    """E13: Its number is lower than that of rows which others have read already."""
    async with replicas(postgres_url, 0, 1) as (first, second):
        await write(first, 1)
        await write(second, 2)
        reader = AuditReader(first.engine)
        place, taken, go = await reader.end(), asyncio.Event(), asyncio.Event()

        async def slowly() -> None:
            async with second.engine.write() as connection:
                entry = row(make_call(3), NOTHING)

                def work(sync: Any) -> None:
                    end = second.audit._end(sync, 1)
                    second.audit._write(sync, end, [entry])

                await connection.run_sync(work)
                taken.set()
                await go.wait()

        async with asyncio.TaskGroup() as group, asyncio.timeout(20):
            group.create_task(slowly())
            await taken.wait()
            # Another chain is not kept waiting, and its row has the higher number.
            await write(first, 4)
            rows, place = await reader.since(place, ALL)
            assert [int(one.values["trace_id"], 16) for one in rows] == [4]
            go.set()
        late, place = await reader.since(place, ALL)
        assert [int(one.values["trace_id"], 16) for one in late] == [3]
        assert late[0].seq < rows[0].seq
        assert (await reader.since(place, ALL))[0] == []
    assert (await verdict(postgres_url)).faults == ()


async def test_numbers_go_on_behind_a_copy_without_its_counter(postgres_url: str) -> None:
    """D9: A database that was put back row by row counts on from its rows."""
    await fill(postgres_url)
    async with replicas(postgres_url, 0, 1, 5) as opened:
        await change(opened[0], "SELECT setval('audit_numbers', 1, false)")
        for number, database in enumerate(opened):
            await write(database, 60 + number)
        await change(opened[0], "SELECT setval('audit_numbers', 1, false)")
        await write(opened[2], 70)
    found = await verdict(postgres_url)
    assert (found.rows, found.faults) == (19, ())


async def test_a_call_that_was_given_up_and_ends_has_one_row(either: str) -> None:
    """D9: A replica that stood still is taken for dead; what it writes afterwards is an event, and no second row."""
    async with replicas(either, 0, 1) as (alive, frozen):
        begun = [row(BegunCall(make_call(number)), NOTHING, "0" * 16) for number in (1, 2)]
        await frozen.audit.append(ChainBatch(begun))
        assert await alive.audit.owners_under_way() == {"0" * 16}
        results = await asyncio.gather(alive.audit.interrupt(bool), frozen.audit.interrupt(bool))
        assert sorted(results) == [0, 2]
        assert await alive.audit.owners_under_way() == frozenset()
        await write(frozen, 1, 3)
        reader = AuditReader(alive.engine)
        rows = [one for one in await reader.after(0, LogFilter()) if one.kind != "chain_begun"]
    told = [(one.kind, one.values.get("status"), one.values.get("trace_id", "")[-1:]) for one in rows]
    assert told == [
        ("call", "interrupted", "1"),
        ("call", "interrupted", "2"),
        ("call_ended_late", None, ""),
        ("call", "ok", "3"),
    ]
    assert rows[2].values["summary"].endswith("ended after all: ok.")
    assert (await verdict(either)).faults == ()


async def test_a_file_is_added_once_whichever_replicas_find_it(either: str) -> None:
    """D9: Two processes with one folder, each with a chain of its own."""
    async with replicas(either, 0, 1, 2) as opened:
        batches = [ChainBatch([row(make_call(5), NOTHING), _told("a file")], once="a file") for _ in opened]
        await asyncio.gather(*(one.audit.append(batch) for one, batch in zip(opened, batches, strict=True)))
        rows = await AuditReader(opened[0].engine).after(0, LogFilter(status="ok"))
    assert len(rows) == 1


def _told(name: str) -> Any:
    return entry("log_recovered", {"at": AT, "summary": name})


def test_an_anchor_names_its_chain() -> None:
    lines = [anchor_line(genesis(0)._replace(seq=3), AT), anchor_line(genesis(4)._replace(seq=9), AT, 4)]
    assert anchors_in(lines) == [Anchor(3, "0" * 64), Anchor(9, genesis(4).digest, 4)]
    assert "chain" not in lines[0]


async def test_anchors_hold_for_their_chain(url: str, made: Any) -> None:
    """D9: A chain that was cut, or taken away with all that tells of it, shows by what was noted elsewhere."""
    await fill(url)
    async with open_reader(url) as reader:
        anchors = [Anchor(head.seq, head.digest, chain) for chain, head in (await reader.heads()).items()]
    assert (await verdict(url, anchors)).anchors_found == 3
    gone = [Anchor(99, "f" * 64, 6)]
    said = [fault.what for fault in (await verdict(url, [*anchors, *gone])).faults]
    assert "An anchor notes this row: the log was cut, or an older state of it was put back." in said


@pytest.mark.parametrize("text", ["", "x", "1,", "1,2", "1,2:3:4", "1" * 30, "-1", "1,1:2" + ",1:2" * 2000])
def test_what_is_no_place_of_the_log(text: str) -> None:
    assert place_of(text) is None


def test_a_place_of_the_log_is_a_short_text() -> None:
    assert place_text({0: 7}) == "7"
    assert place_text({2: 5, 0: 7, 1: 0}) == "7,1:0,2:5"
    assert place_of("7,1:0,2:5") == {0: 7, 1: 0, 2: 5}


def test_the_command_tells_of_each_chain(url: str, made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """E13: One line for each, and one verdict."""
    asyncio.run(fill(url))
    assert audit_proof.verify(url) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in said[:3]] == ["chain 0: 6 rows", "chain 1: 4 rows", "chain 2: 4 rows"]
    assert said[3] == "14 rows, none missing, none changed."
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("DELETE FROM mcp_tool_call_log WHERE chain = 2 AND seq > 9")
    assert audit_proof.verify(url) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "row 9 of chain 2: Rows behind 8, up to 14, are missing at the end."
    assert next(line for line in said if line.startswith("chain 2")).endswith("1 fault.")
    assert said[-1] == "12 rows; the log is NOT whole."
