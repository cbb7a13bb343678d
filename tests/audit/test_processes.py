"""Several processes on one log; and processes that are killed in the middle of it."""

import asyncio
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from aggregator.audit.spill import waiting_beside
from aggregator.storage.database import open_database
from tests.audit.logs import make_call, numbers, running_log, verdict_on
from tests.polling import until
from tests.storage.processes import other_process

# Every script: a log on the database, which runs.
_LOG = """
    from aggregator.domain.bounds.tasks import Tasks
    from tests.audit.logs import make_call, make_log, all_written
    from tests.polling import until
    async with open_database(url) as database, Tasks("a test") as tasks:
        log = make_log(database, **{options})
        tasks.start(log.run())
"""


def script(body: str, **options: object) -> str:
    return _LOG.format(options=options) + "\n".join(f"        {line.strip('|')}" for line in body.strip().splitlines())


async def test_two_processes_write_one_chain(url: str, made: Path) -> None:
    """D9: Each row of each is there, and all of them follow each other."""
    body = """
say("ready")
first = int(hear())
for half in (first, first + 500):
|    for number in range(half, half + 500):
|        log.record(make_call(number))
|        if number % 10 == 0:
|            await asyncio.sleep(0.001)
|    await all_written(log)
|    say("half")
|    hear()
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script(body))) for _ in range(2)]
        for process in processes:
            assert await asyncio.to_thread(process.read) == "ready"
        for first, process in enumerate(processes):
            process.write(str(1000 * first))
        for _ in range(2):
            for process in processes:
                assert await asyncio.to_thread(process.read) == "half"
            for process in processes:
                process.write("on")
        for process in processes:
            await asyncio.to_thread(process.done)
    found = numbers(made)
    assert [number for number in found if number < 1000] == list(range(1000))
    assert [number for number in found if number >= 1000] == list(range(1000, 2000))
    assert found != sorted(found), "no half came before the other process had written one"
    verdict = await verdict_on(made)
    assert (verdict.rows, verdict.faults) == (2000, ())


async def test_a_killed_process_loses_what_was_not_written_yet(url: str, made: Path) -> None:
    """D9: Of what was recorded before the last write nothing; of what came since, at most all."""
    body = """
for number in range(300):
|    log.record(make_call(number))
await all_written(log)
for number in range(300, 350):
|    log.record(make_call(number))
say("recorded")
hear()
    """
    with other_process(url, script(body)) as process:
        assert await asyncio.to_thread(process.read) == "recorded"
        await asyncio.to_thread(process.kill)
    found = numbers(made)
    assert found == list(range(len(found)))
    assert 300 <= len(found) <= 350
    assert (await verdict_on(made)).faults == ()


async def test_a_killed_process_loses_nothing_in_strict_mode(url: str, made: Path) -> None:
    """D9: Every call that was answered has its row."""
    body = """
async def host(first):
|    for number in range(first, 100_000, 8):
|        call = make_call(number)
|        await log.wait_for_space("t")
|        log.record(call)
|        await log.written(call)
|        say(number)
await asyncio.gather(*(host(first) for first in range(8)))
    """
    with other_process(url, script(body, strict=True)) as process:
        told = [await asyncio.to_thread(process.read) for _ in range(100)]
        told += (await asyncio.to_thread(process.kill)).split()
    assert set(map(int, told)) <= set(numbers(made))
    verdict = await verdict_on(made)
    assert (verdict.faults, verdict.rows - len(told) <= 8) == ((), True)


async def test_a_process_that_ends_as_it_should_loses_nothing(url: str, made: Path) -> None:
    """Proves: D9."""
    body = """
for number in range(500):
|    log.record(make_call(number))
await tasks.cancel()
await log.close()
    """
    with other_process(url, script(body, flush_interval=60.0)) as process:
        await asyncio.to_thread(process.done)
    assert numbers(made) == list(range(500))


# Another program keeps the database to itself, or the disk is full: each try to write fails at once, or none ends.
_AWAY = """
from aggregator.audit import writer
from aggregator.storage.engine import sqlite
sqlite.BUSY_SECONDS, writer.ASIDE_AFTER, writer.FIRST_PAUSE, writer.LONGEST_PAUSE = {busy}, 0.05, 0.02, 0.02
for number in range(100):
|    log.record(make_call(number))
await all_written(log)
say("written")
hear()
for number in range(100, 2000):
|    log.record(make_call(number))
|    if number % 50 == 0:
|        await asyncio.sleep(0.005)
def being_written():
|    batch = log._writer._batch
|    return len(batch.entries) if batch and {waiting} else 0
await until(lambda: log.report()["waiting"] == being_written())
say("aside")
hear()
"""


@pytest.mark.parametrize(
    ("busy", "waiting"), [pytest.param(0.02, 0, id="fails"), pytest.param(60.0, 1000, id="only waits")]
)
async def test_a_process_that_is_killed_in_an_outage_has_its_rows_beside_the_database(
    url: str, made: Path, busy: float, waiting: int
) -> None:
    """D9: The next process adds them, once each. Only what is being written at that moment is lost with the process,
    and that is none where writing fails.
    """
    body = _AWAY.format(busy=busy, waiting=waiting)
    with other_process(url, script(body)) as process:
        assert await asyncio.to_thread(process.read) == "written"
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            process.write("on")
            assert await asyncio.to_thread(process.read) == "aside"
            await asyncio.to_thread(process.kill)
            connection.execute("ROLLBACK")
    async with open_database(url) as database, running_log(database) as log, running_log(database) as other:
        log.record(make_call(2000))
        other.record(make_call(2001))
        await until(lambda: not waiting_beside(made) and len(numbers(made)) >= 2002 - waiting)
    found = numbers(made)
    assert len(set(found)) == len(found), "no row twice"
    lost = set(range(2002)) - set(found)
    assert len(lost) <= waiting
    assert not waiting or lost <= set(range(100, 100 + waiting)), "what was being written"
    assert (await verdict_on(made)).faults == ()
    assert not list(made.parent.glob("*.growing"))


async def test_a_row_that_a_kill_cut_short_is_none(url: str, made: Path) -> None:
    """D9: Its process told nobody of it. The whole rows before it count."""
    body = """
from aggregator.audit import writer
writer.ASIDE_AFTER = 0.02
sys_rows = log._writer
async def never():
|    await asyncio.Event().wait()
sys_rows._open_rows = never
for number in range(3):
|    log.record(make_call(number))
await until(lambda: log.report()["put_aside"] == 3)
say("aside")
hear()
    """
    with other_process(url, script(body)) as process:
        assert await asyncio.to_thread(process.read) == "aside"
        await asyncio.to_thread(process.kill)
    (growing,) = made.parent.glob("*.growing")
    growing.write_bytes(growing.read_bytes() + b'["call", {"trace_id": "00')
    async with open_database(url) as database, running_log(database) as log:
        log.record(make_call(3))
        await until(lambda: len(numbers(made)) == 4)
    assert sorted(numbers(made)) == [0, 1, 2, 3]
    assert not list(made.parent.glob("*.refused"))
