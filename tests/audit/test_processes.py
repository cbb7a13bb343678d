"""Several processes on one log; and processes that are killed in the middle of it."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

from tests.audit.logs import numbers, verdict_on
from tests.storage.processes import other_process

# Every script: a log on the database, which runs.
_LOG = """
    from aggregator.domain.bounds.tasks import Tasks
    from tests.audit.logs import make_call, make_log, all_written
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
