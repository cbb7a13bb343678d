"""Several replicas, each a process with a folder of its own, on one PostgreSQL: each call that was answered has exactly
one row, also where one of them is killed or stands still, or the database is away."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from aggregator.storage.audit.read import ALL, LogRow, open_reader
from aggregator.storage.audit.verify import verify
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.storage.processes import OtherProcess, other_process

# Each of its calls begins, has an effect and is answered; the numbers of the answers stand in the file `answered`.
_REPLICA: Final = """
    from pathlib import Path
    from aggregator.audit.log import AuditLog
    from aggregator.audit.spill import Spill
    from aggregator.domain.bounds.tasks import Tasks
    from aggregator.domain.errors import NotRecorded
    from aggregator.replicas.group.clock import GroupClock
    from aggregator.replicas.group.membership import Membership
    from tests.audit.logs import NOTHING, make_call
    membership = Membership(GroupClock(), {lease})
    stopping = asyncio.Event()
    answered = open({folder!r} + "/answered", "a", buffering=1)

    async with open_database(url) as database, Tasks("a replica") as tasks:
        database.audit.write_chain(lambda: membership.slot)
        await membership.join(database.replicas("main", {lease}))

        async def rows():
            return database.audit

        spill = Spill(Path({folder!r}) / "aggregator", 2**30)
        log = AuditLog(rows, spill, NOTHING, strict={strict}, flush_interval=0.01, peers=membership)

        async def host(first):
            for number in range({first} + first, {first} + 100_000, 4):
                if stopping.is_set():
                    return
                call = make_call(number)
                try:
                    await log.wait_for_space("t")
                    try:
                        if {strict}:
                            await log.begun(call)
                        await asyncio.sleep(0.002)
                    finally:
                        log.record(call)
                    await log.written(call)
                    print(number, file=answered)
                except NotRecorded:
                    await asyncio.sleep(0.05)

        tasks.start(log.run())
        heartbeat = tasks.start(membership.run())
        hosts = [asyncio.create_task(host(first)) for first in range(4)]
        say(membership.slot)
        await asyncio.to_thread(hear)
        stopping.set()
        await asyncio.gather(*hosts)
        await tasks.cancel()
        await log.close()
        await membership.leave()
"""


class ReplicaProcess:
    """One replica; `answered` are the numbers of the calls that it has answered, of which each begins with `number`."""

    def __init__(self, process: OtherProcess, folder: Path, number: int) -> None:
        self.process = process
        self.pid = process.process.pid
        self.number = number
        self._file = folder / "answered"

    @property
    def answered(self) -> list[int]:
        # The last line may be half written.
        return [int(line) for line in self._file.read_text().split("\n")[:-1]]

    async def goes_on(self, more: int = 25) -> None:
        """Return once it has answered so many more calls."""
        before = len(self.answered)
        await until(lambda: len(self.answered) >= before + more)

    async def end(self) -> None:
        """Let it end in order."""
        self.process.write()
        await asyncio.to_thread(self.process.done)


@asynccontextmanager
async def replicas(
    url: str, folder: Path, count: int, *, strict: bool, lease: float = 1.5
) -> AsyncIterator[list[ReplicaProcess]]:
    """So many replicas that make calls, each in a slot of its own."""
    with ExitStack() as stack:
        started = []
        for number in range(count):
            own = folder / str(number)
            own.mkdir()
            body = _REPLICA.format(folder=str(own), first=1_000_000 * (number + 1), strict=strict, lease=lease)
            process = stack.enter_context(other_process(url, body))
            assert await asyncio.to_thread(process.read) == str(number)
            started.append(ReplicaProcess(process, own, number + 1))
        for one in started:
            await one.goes_on()
        yield started


async def rows_of(url: str) -> list[LogRow]:
    """Return the whole log, which is whole."""
    async with open_reader(url) as reader:
        verdict = await verify(reader)
        assert verdict.faults == ()
        rows: list[LogRow] = []
        while page := await reader.after(rows[-1].seq if rows else 0, ALL):
            rows += page
    assert verdict.rows == len(rows)
    return rows


def calls(rows: list[LogRow], **wanted: Any) -> list[int]:
    """Return the numbers of the calls among these rows that have these columns."""
    mine = [one.values for one in rows if one.kind == "call"]
    return [int(one["trace_id"], 16) for one in mine if all(one.get(name) == value for name, value in wanted.items())]


async def under_way(database: Database, one: ReplicaProcess | None = None) -> int:
    """Return how many calls, of one replica or of all, have begun and have no row."""
    async with database.engine.read() as connection:
        traces = await connection.scalars(text("SELECT trace_id FROM audit_under_way WHERE owner <> ''"))
        return len([trace for trace in traces if one is None or int(trace, 16) // 1_000_000 == one.number])


async def stop_amid_calls(one: ReplicaProcess, database: Database) -> None:
    """Have a replica stand still while calls of it have begun."""
    os.kill(one.pid, signal.SIGSTOP)
    while not await under_way(database, one):
        os.kill(one.pid, signal.SIGCONT)
        await one.goes_on(1)
        os.kill(one.pid, signal.SIGSTOP)


async def test_a_killed_replica_and_a_restart_of_the_database(
    postgres_url: str, postgres_cluster: Cluster, tmp_path: Path
) -> None:
    """D9: Each answer has one row; calls of the killed replica are closed by another one, once, while all go on."""
    # Long enough that those which live are seen again after the restart, on a loaded machine too.
    async with replicas(postgres_url, tmp_path, 3, strict=True, lease=8.0) as started:
        killed, *others = started
        async with open_database(postgres_url) as database:
            await stop_amid_calls(killed, database)
            await asyncio.to_thread(killed.process.kill)
            for one in others:
                await one.goes_on()
            await asyncio.to_thread(postgres_cluster.restart)
            for one in others:
                await one.goes_on()
            async with asyncio.timeout(60):
                while await under_way(database, killed):
                    await others[0].goes_on(5)
            for one in others:
                await one.end()
            assert await under_way(database) == 0
    rows = await rows_of(postgres_url)
    times = Counter(calls(rows))
    assert {number for number, count in times.items() if count > 1} == set()
    assert {number for one in started for number in one.answered} <= set(times)
    gone = calls(rows, status="interrupted")
    assert not set(gone) & {number for one in started for number in one.answered}
    assert {number // 1_000_000 for number in gone} <= {killed.number}, "the others lived all the time"
    assert {one.chain for one in rows if one.kind == "call"} == {0, 1, 2}


async def interrupted(database: Database) -> int:
    async with database.engine.read() as connection:
        query = text("SELECT count(*) FROM mcp_tool_call_log WHERE status = 'interrupted'")
        return int((await connection.execute(query)).scalar_one())


async def test_a_replica_that_stood_still_adds_no_second_row(postgres_url: str, tmp_path: Path) -> None:
    """D9: The others close its calls after its lease; what it says of them later is an event."""
    async with replicas(postgres_url, tmp_path, 2, strict=True) as started:
        frozen, other = started
        async with open_database(postgres_url) as database, asyncio.timeout(90):
            try:
                await stop_amid_calls(frozen, database)
                while not await interrupted(database):
                    await other.goes_on(5)
                    # What it had sent already may have closed them.
                    if not await under_way(database, frozen) and not await interrupted(database):
                        await stop_amid_calls(frozen, database)
            finally:
                os.kill(frozen.pid, signal.SIGCONT)
        await frozen.goes_on()
        for one in started:
            await one.end()
    rows = await rows_of(postgres_url)
    times = Counter(calls(rows))
    assert {number for number, count in times.items() if count > 1} == set()
    assert {number for one in started for number in one.answered} <= set(times)
    late = [one.values for one in rows if one.kind == "call_ended_late"]
    assert late
    assert len(late) <= len(calls(rows, status="interrupted"))
    assert all("ended after all: ok." in one["summary"] for one in late)


async def test_replicas_that_do_not_wait_for_the_database_lose_no_row(
    postgres_url: str, postgres_cluster: Cluster, tmp_path: Path
) -> None:
    """D9: While the database is away, calls are answered, and their rows come later, each once."""
    async with replicas(postgres_url, tmp_path, 3, strict=False) as started:
        await asyncio.to_thread(postgres_cluster.stop)
        for one in started:
            await one.goes_on(100)
        await asyncio.to_thread(postgres_cluster.start)
        for one in started:
            await one.goes_on()
            await one.end()
    rows = await rows_of(postgres_url)
    times = Counter(calls(rows))
    assert set(times.values()) == {1}
    assert {number for one in started for number in one.answered} <= set(times)
